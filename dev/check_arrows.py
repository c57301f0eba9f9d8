#!/usr/bin/env python3
"""Checks the dependency arrows of DESIGN.md from the #include lines: who may use whom.

    dev/check_arrows.py                 check this repository
    dev/check_arrows.py --self-test     plant violations and prove that each is found

Prints one line per violation and exits with 1 if there is any.
"""
import os
import re
import sys
import tempfile
from pathlib import Path

# Sets of system headers, as shell patterns.
INTRINSICS = ["*intrin.h", "arm_neon.h", "arm_sve.h"]
# The C++ standard library is what has neither a folder nor an ending: <vector>, <cstdint>.
STD = ["[a-z_0-9]+"]
# Headers that define no function that could be compiled for one instruction set and linked for all.
NO_CODE = ["cstddef", "cstdint", "type_traits"]
POSIX = ["fcntl.h", "pthread.h", "sched.h", "sys/*.h", "time.h", "unistd.h"]
C99 = ["stddef.h", "stdint.h", "stdbool.h", "stdio.h", "stdlib.h", "string.h", "math.h"]
ANY_SYSTEM = ["*"]

# What the interfaces of variants are written in.
VOCABULARY = ["include/rapt/%s.h" % name for name in
              ("anchor", "declaration", "error", "head_numbers", "pair_functions", "positions",
               "state", "tensor", "tile")]
PUBLIC_CORE = ["include/rapt/*.h", "include/rapt/mask/*.h", "include/rapt/score/*.h",
               "include/rapt/normalizer/*.h"]
PUBLIC = PUBLIC_CORE + ["include/rapt/io/*.h", "include/rapt/viz/*.h"]
TILE_SIDE = ["include/rapt/%s.h" % name for name in
             ("anchor", "declaration", "error", "head_numbers", "positions", "state", "tensor",
              "tile", "variants")] + [
                 "include/rapt/mask/mask.h", "include/rapt/score/score.h",
                 "include/rapt/normalizer/normalizer.h"]

# THE TABLE: files, what of the project they may include, which system headers, and why.
# The first line that fits a file counts; "*" does not cross a "/", "**" does.
TABLE = [
    # The public interface knows nothing but itself.
    ("include/rapt/mask/*.h", VOCABULARY + ["include/rapt/mask/mask.h",
                                            "include/rapt/mask/parts.h"], STD,
     "a mask knows the interface of masks, no other mask, score or normaliser"),
    ("include/rapt/score/*.h", VOCABULARY + ["include/rapt/score/score.h",
                                             "include/rapt/score/distances.h"], STD,
     "a score knows the interface of scores, no other score, mask or normaliser"),
    ("include/rapt/normalizer/*.h", VOCABULARY + ["include/rapt/normalizer/normalizer.h",
                                                  "include/rapt/normalizer/online_softmax.h",
                                                  "include/rapt/normalizer/candidate_rows.h",
                                                  "include/rapt/normalizer/weighted_pairs.h",
                                                  "include/rapt/normalizer/row_threshold.h"], STD,
     "a normaliser knows the interface of normalisers, no other normaliser, mask or score"),
    ("include/rapt/io/*.h", ["include/rapt/*.h", "include/rapt/io/*.h"], STD,
     "rapt::io stands on the core and does not know rapt::viz"),
    ("include/rapt/viz/*.h", ["include/rapt/*.h", "include/rapt/viz/*.h"], STD,
     "rapt::viz stands on the core and does not know rapt::io"),
    ("include/rapt/rapt_c.h", [], C99,
     "the C interface is plain C99 and stands alone"),
    ("include/rapt/*.h", PUBLIC_CORE, STD,
     "the public interface includes only itself, no source, no intrinsics"),

    # The core.
    ("src/attention/**", PUBLIC_CORE + ["src/attention/*.h", "src/base/*.h",
                                        "src/kernels/kernel_table.h", "src/kernels/sieve.h"], STD,
     "the conductor reaches kernels through their tables only"),
    ("src/mask/boolean.cpp", VOCABULARY + ["include/rapt/mask/*.h", "src/mask/*.h", "src/base/*.h"],
     STD + ["emmintrin.h"],
     "masks are portable code without kernels; this one may use SSE2, which every x86-64 has"),
    ("src/mask/**", VOCABULARY + ["include/rapt/mask/*.h", "src/mask/*.h", "src/base/*.h"], STD,
     "masks are portable code without kernels"),
    ("src/score/**", VOCABULARY + ["include/rapt/score/*.h", "src/base/*.h"], STD,
     "scores declare themselves here; their maths is in their header"),
    ("src/normalizer/**", VOCABULARY + ["include/rapt/normalizer/*.h", "src/base/*.h"], STD,
     "normalisers declare themselves here; their maths is in their header"),
    ("src/kernels/simd/*.h", ["include/rapt/*.h", "src/kernels/simd/*.h", "src/kernels/*.simd.h",
                              "src/kernels/inlining.h"],
     NO_CODE + INTRINSICS,
     "compiled once per instruction set: a standard library function would be linked for all"),
    ("src/kernels/*.simd.h", TILE_SIDE + ["src/kernels/*.h", "src/kernels/simd/*.h"], NO_CODE,
     "compiled once per instruction set, in the words of simd/: no standard library function, "
     "no intrinsics, no concrete mask"),
    ("src/kernels/dot_bf16.cpp", TILE_SIDE + ["src/kernels/*.h", "src/kernels/simd/*.h"],
     NO_CODE + INTRINSICS,
     "compiled for one instruction set: a standard library function would be linked for all"),
    ("src/kernels/tile_*.cpp", TILE_SIDE + ["src/kernels/*.h", "src/kernels/simd/*.h"],
     NO_CODE, "compiled for two instruction sets: a standard library function would be linked for "
     "all"),
    ("src/kernels/sieve_vnni.cpp", ["src/kernels/*.h", "src/kernels/simd/*.h"],
     NO_CODE + INTRINSICS,
     "compiled for one instruction set: a standard library function would be linked for all"),
    ("src/kernels/isa_tu.cpp", TILE_SIDE + ["src/kernels/*.h", "src/kernels/simd/*.h"], NO_CODE,
     "compiled once per instruction set: a standard library function would be linked for all"),
    ("src/kernels/**", TILE_SIDE + ["include/rapt/instruction_sets.h", "src/base/*.h",
                                    "src/kernels/*.h"], STD + POSIX,
     "kernels see the interfaces of variants, never a concrete mask"),
    ("src/base/**", ["include/rapt/%s.h" % name for name in
                     ("context", "error", "instruction_sets", "tensor", "version")] +
     ["src/base/*.h"], STD + POSIX + ["cpuid.h"],
     "base stands on the standard library"),
    ("src/threads/**", ["include/rapt/%s.h" % name for name in
                        ("context", "error", "thread_pool")] + ["src/threads/*.h"],
     STD + POSIX + ["dlfcn.h"],
     "the pool runs tasks of which it knows nothing"),
    ("src/c_api/**", PUBLIC_CORE + ["src/c_api/*.h"], STD,
     "the C interface is a customer of the C++ one"),
    ("src/io/**", ["include/rapt/*.h", "include/rapt/io/*.h", "src/io/**"],
     STD + POSIX + ["nlohmann/*.hpp", "zlib.h"],
     "rapt::io is a customer of the core and does not know rapt::viz"),
    ("src/viz/**", ["include/rapt/*.h", "include/rapt/viz/*.h", "src/viz/**"],
     STD + POSIX + ["png.h"],
     "rapt::viz is a customer of the core and does not know rapt::io"),

    # What judges it.
    ("check/score_spec.h", ["include/rapt/anchor.h", "check/arrays.h", "check/moving.h",
                            "check/pair_place.h"], STD,
     "the formulas of scores share no code with what they judge"),
    ("check/relative_spec.*", ["include/rapt/anchor.h", "include/rapt/tensor.h", "check/arrays.h",
                               "check/pair_place.h", "check/random.h", "check/relative_spec.h",
                               "check/score_spec.h"], STD,
     "the reference's own account of distances and rows"),
    ("check/relative_rows.h", ["include/rapt/tensor.h", "check/pair_place.h",
                               "check/reference_matrix.h", "check/relative_spec.h",
                               "check/sum_of_products.h"], STD,
     "the reference shares no code with what it judges"),
    ("check/row_spec.*", ["check/mask_spec.h", "check/row_spec.h"], STD,
     "the reference's own account of what happens to rows"),
    ("check/changed_rows.h", ["check/moving.h", "check/reference_matrix.h", "check/row_spec.h",
                              "check/sum_of_products.h"], STD,
     "the reference shares no code with what it judges"),
    ("check/relative_floors.h", ["check/*reference*.h", "check/relative_*.h"], STD,
     "the tolerance comes from the reference alone"),
    ("check/sum_of_products.h", [], STD, "a sum and the size of its terms"),
    ("check/*reference*", ["include/rapt/tensor.h", "check/captures.h", "check/changed_rows.h",
                           "check/moving.h",
                           "check/pair_place.h", "check/relative_rows.h", "check/relative_spec.h",
                           "check/sum_of_products.h", "check/philox.h", "check/score_spec.h",
                           "check/*reference*.h"], STD,
     "the reference shares no code with what it judges"),
    ("check/*tolerance.*", ["include/rapt/tensor.h", "check/captures.h", "check/philox.h",
                            "check/*reference.h", "check/relative_*.h", "check/*tolerance.h"], STD,
     "the tolerance comes from the reference alone"),
    ("check/philox.h", [], STD, "the reference's own random numbers"),
    ("check/moving.h", [], STD, "the numbers of formulas that know their errors"),
    ("check/pair_place.h", [], STD, "where a pair stands is plain data"),
    ("check/captures.h", [], STD, "what a check wants is plain data"),
    ("check/**", PUBLIC_CORE + ["check/*.h"], STD, "checks are a customer of the core, without a "
     "test framework: the command line has them too"),

    ("timing/**", PUBLIC_CORE + ["timing/*.h", "check/*.h"], STD + POSIX,
     "problems that are timed are a customer of the core and of the checks"),

    ("conformance/**", PUBLIC_CORE + ["include/rapt/io/*.h", "conformance/*.h"], STD + ["zlib.h"],
     "tests of others are a customer of the public interface, without a test framework"),

    # Its customers.
    ("cli/**", PUBLIC + ["cli/**", "check/*.h", "timing/*.h"], ANY_SYSTEM,
     "the command line uses the public interface, the checks and the clocks"),
    ("examples/**", PUBLIC, STD + C99, "an example shows what a stranger can write"),
    ("bench/**", PUBLIC + ["bench/**", "check/*.h", "timing/*.h",
                          "src/kernels/kernel_table.h"], ANY_SYSTEM,
     "a benchmark uses the public interface, and the kernels through their table"),
    ("fuzz/**", PUBLIC + ["src/**", "check/*.h", "cli/*.h", "fuzz/*.h"], ANY_SYSTEM,
     "a fuzz target may call any parser"),
    ("tests/install/**", PUBLIC, STD, "a consumer has nothing but the installed headers"),
    ("tests/**", PUBLIC + ["src/**", "tests/**", "check/*.h", "conformance/*.h"], ANY_SYSTEM, "a test may look at anything"),
]

# Written by the build, or named by it in a macro: the vocabulary of an instruction set.
GENERATED = ["rapt_isas.inc", "rapt_commit.inc", "RAPT_ISA_HEADER", "RAPT_TILE_WORDS"]

# Where a quoted name is looked up, after the folder of the file itself.
INCLUDE_ROOTS = ["include", "src", "tests", "cli", "bench", ""]

SOURCES = (".h", ".c", ".cpp", ".inc")
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>|(\w+))')


def regex_of(pattern):
    """A pattern as a regular expression: "*" stays within a folder, "**" does not. STD is one
    already."""
    if pattern in STD:
        return pattern
    return re.escape(pattern).replace(r"\*\*", ".*").replace(r"\*", "[^/]*")


def fits(name, patterns):
    return patterns is ANY_SYSTEM or any(re.fullmatch(regex_of(p), name) for p in patterns)


def rule_for(path):
    return next((rule for rule in TABLE if fits(path, [rule[0]])), None)


def resolve(root, path, name):
    """The project's file that `#include "name"` in `path` means, None if it is not the project's."""
    for folder in [os.path.dirname(path)] + INCLUDE_ROOTS:
        candidate = os.path.normpath(os.path.join(folder, name))
        if (root / candidate).is_file():
            return candidate
    return None


def violations_in(root, path):
    rule = rule_for(path)
    if rule is None:
        yield f"{path}: belongs to no room; give it one in the table of dev/check_arrows.py"
        return
    _, project, system, reason = rule
    text = (root / path).read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        quoted, angled, macro = found.groups()
        name = quoted or angled or macro
        if name in GENERATED:
            continue
        target = resolve(root, path, name)
        if target is None and quoted and not fits(name, system):
            yield f"{path}:{number}: includes \"{name}\", which is no file of this repository"
        elif target is None and not fits(name, system):
            yield f"{path}:{number}: may not include <{name}>: {reason}"
        elif target is not None and not fits(target, project):
            yield f"{path}:{number}: may not include {target}: {reason}"


def sources_of(root):
    """The C and C++ files of a checkout, also those that are not yet added to git."""
    for room in ("include", "src", "check", "timing", "conformance", "cli", "bench", "examples", "fuzz",
                 "tests"):
        for file in sorted((root / room).rglob("*")):
            if file.suffix in SOURCES:
                yield file.relative_to(root).as_posix()


def check(root):
    return [v for path in sources_of(root) for v in violations_in(root, path)]


# Planted violations: file, its line, and whether it is one.
PLANTED = [
    ("include/rapt/mask/window.h", '#include "rapt/mask/mask.h"', False),
    ("include/rapt/mask/window.h", '#include "rapt/mask/causal.h"', True),
    ("include/rapt/mask/window.h", '#include "rapt/normalizer/softmax.h"', True),
    ("include/rapt/normalizer/softmax.h", "#include <immintrin.h>", True),
    ("include/rapt/normalizer/softmax.h", "#include <type_traits>", False),
    ("include/rapt/attention.h", '#include "base/memory.h"', True),
    ("include/rapt/attention.h", '  #  include "rapt/io/npy.h"', True),
    ("include/rapt/rapt_c.h", "#include <stdint.h>", False),
    ("include/rapt/rapt_c.h", "#include <vector>", True),
    ("src/attention/forward.cpp", '#include "kernels/kernel_table.h"', False),
    ("src/attention/forward.cpp", '#include "kernels/attend.simd.h"', True),
    ("src/kernels/attend.simd.h", '#include "rapt/mask/causal.h"', True),
    ("src/kernels/attend.simd.h", "#include <vector>", True),
    ("src/kernels/attend.simd.h", "#include <immintrin.h>", True),
    ("src/kernels/simd/avx2.h", "#include <immintrin.h>", False),
    ("src/kernels/dot_bf16.cpp", "#include <immintrin.h>", False),
    ("src/kernels/dot_bf16.cpp", "#include <vector>", True),
    ("src/kernels/sieve_vnni.cpp", "#include <immintrin.h>", False),
    ("src/kernels/sieve_vnni.cpp", "#include <algorithm>", True),
    ("src/mask/boolean.cpp", "#include <emmintrin.h>", False),
    ("src/mask/boolean.cpp", "#include <immintrin.h>", True),
    ("src/mask/causal.cpp", "#include <emmintrin.h>", True),
    ("src/kernels/simd/avx2.h", "#include <algorithm>", True),
    ("src/base/memory.h", '#include "rapt/attention.h"', True),
    ("src/threads/crew.cpp", "#include <pthread.h>", False),
    ("src/threads/crew.cpp", '#include "rapt/attention.h"', True),
    ("src/base/memory.h", "#include <sys/mman.h>", False),
    ("src/base/memory.h", "#include <png.h>", True),
    ("src/io/npy.cpp", '#include "rapt/viz/heatmap.h"', True),
    ("src/viz/heatmap.cpp", '#include "../io/npy.h"', True),
    ("src/viz/heatmap.cpp", "#include <png.h>", False),
    ("cli/main.cpp", '#include "base/memory.h"', True),
    ("cli/main.cpp", "#include <CLI/CLI.hpp>", False),
    ("bench/forward.cpp", '#include "kernels/kernel_table.h"', False),
    ("bench/forward.cpp", '#include "../src/base/memory.h"', True),
    ("check/reference.cpp", '#include "rapt/attention.h"', True),
    ("check/reference.cpp", '#include "rapt/tensor.h"', False),
    ("check/case.cpp", "#include <gtest/gtest.h>", True),
    ("check/case.cpp", '#include "kernels/kernel_table.h"', True),
    ("examples/hello.cpp", '#include "kernels/kernel_table.h"', True),
    ("src/utils/helpers.h", "", True),
]
TARGETS = ["include/rapt/%s.h" % name for name in
           ("attention", "tensor", "mask/mask", "mask/causal", "normalizer/softmax", "io/npy",
            "viz/heatmap")] + ["src/base/memory.h", "src/io/npy.h", "src/kernels/kernel_table.h",
                               "src/kernels/attend.simd.h"]


def self_test():
    failures = 0
    for path, line, is_violation in PLANTED:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for file, text in [(t, "") for t in TARGETS] + [(path, line + "\n")]:
                (root / file).parent.mkdir(parents=True, exist_ok=True)
                (root / file).write_text(text)
            found = check(root)
            if [v.startswith(path + ":") for v in found] != [True] * is_violation:
                failures += 1
                print(f"self-test: {path} with {line!r}: expected {int(is_violation)} violation "
                      f"in it, got {found}")
    print(f"self-test: {len(PLANTED) - failures} of {len(PLANTED)} planted lines judged rightly")
    return failures


def main(arguments):
    if arguments == ["--self-test"]:
        return 1 if self_test() else 0
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    root = Path(__file__).resolve().parent.parent
    violations = check(root)
    print("\n".join(violations) if violations else "All includes follow the arrows.")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
