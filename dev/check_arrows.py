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
               "include/rapt/normalizer/*.h", "include/rapt/method/*.h",
               "include/rapt/feature_map/*.h"]
PUBLIC = PUBLIC_CORE + ["include/rapt/%s/*.h" % name
                        for name in ("checkpoint", "generation", "io", "model", "nn", "text",
                                         "training", "viz")]
TILE_SIDE = ["include/rapt/%s.h" % name for name in
             ("activation", "anchor", "declaration", "error", "head_numbers", "positions", "state",
              "tensor", "tile", "variants", "feature_maps")] + [
                 "include/rapt/feature_map/feature_map.h",
                 "include/rapt/mask/mask.h", "include/rapt/score/score.h",
                 "include/rapt/normalizer/normalizer.h"]

# The headers of some rooms of src/attention, and of some rooms of src/kernels with what all share.
def ATTENTION(*rooms):
    return ["src/attention/%s/*.h" % room for room in rooms]


def KERNELS(*rooms):
    return (["src/kernels/*.h", "src/kernels/simd/*.h"] +
            ["src/kernels/%s/*.h" % room for room in rooms])


def CHECK(*rooms):
    return ["check/%s/*.h" % room for room in rooms]


# What src/attention includes to call kernels.
KERNEL_TABLES = ["src/kernels/kernel_table.h", "src/kernels/prefilter/prefilter.h"]
BELOW_THE_CONDUCTOR = KERNEL_TABLES + ["src/base/*.h", "src/threads/task_run.h",
                                        "src/threads/workers.h"]
COMPILED_PER_SET = ("compiled once per instruction set, in the words of simd/: no standard library "
                    "function, no intrinsics, no concrete mask")
IO_SIDE = ["include/rapt/*.h", "include/rapt/io/*.h", "src/io/*.h"]
TEXT_SIDE = ["include/rapt/error.h", "include/rapt/io/*.h", "include/rapt/text/*.h",
             "src/io/quoted.h", "src/io/repeated_name.h", "src/io/text/utf8.h", "src/text/*.h",
             "src/text/bpe/*.h", "src/text/encoding/*.h", "src/text/normal_form/*.h",
             "src/text/wordpiece/*.h"]
TRAINED = ["include/rapt/%s/*.h" % name for name in ("checkpoint", "io", "nn", "text", "training")]
VIZ_SIDE = ["include/rapt/*.h", "include/rapt/viz/*.h"]

# THE TABLE: files, what of the project they may include, which system headers, and why.
# The first line that fits a file counts; "*" does not cross a "/", "**" does.
TABLE = [
    # The public interface knows nothing but itself.
    ("include/rapt/mask/*.h", VOCABULARY + ["include/rapt/mask/mask.h",
                                            "include/rapt/mask/parts.h"], STD,
     "a mask knows the interface of masks, no other mask, score or normaliser"),
    ("include/rapt/score/*.h", VOCABULARY + ["include/rapt/score/score.h",
                                             "include/rapt/score/pointwise.h",
                                             "include/rapt/score/distances.h"], STD,
     "a score knows the interface of scores, no other score, mask or normaliser"),
    ("include/rapt/normalizer/*.h", VOCABULARY + ["include/rapt/normalizer/normalizer.h",
                                                  "include/rapt/normalizer/online_softmax.h",
                                                  "include/rapt/normalizer/candidate_rows.h",
                                                  "include/rapt/normalizer/weighted_pairs.h",
                                                  "include/rapt/normalizer/row_threshold.h"], STD,
     "a normaliser knows the interface of normalisers, no other normaliser, mask or score"),
    ("include/rapt/method/linear.h", VOCABULARY + ["include/rapt/method/method.h",
                                                   "include/rapt/feature_map/own_features.h"], STD,
     "a method of feature maps takes one of the caller's own"),
    ("include/rapt/method/*.h", VOCABULARY + ["include/rapt/method/method.h"], STD,
     "a method knows the interface of methods, no other method and no other variant"),
    ("include/rapt/feature_map/*.h", VOCABULARY + ["include/rapt/feature_map/feature_map.h",
                                                   "include/rapt/feature_map/exponential.h",
                                                   "include/rapt/feature_map/pointwise.h"], STD,
     "a feature map knows the interface of feature maps and their loops, no other map"),
    ("include/rapt/io/*.h", ["include/rapt/*.h", "include/rapt/io/*.h"], STD,
     "rapt::io stands on the core and does not know rapt::viz"),
    ("include/rapt/viz/*.h", ["include/rapt/*.h", "include/rapt/viz/*.h"], STD,
     "rapt::viz stands on the core and does not know rapt::io"),
    ("include/rapt/nn/*.h", PUBLIC_CORE + ["include/rapt/nn/*.h"], STD,
     "layers stand on the core and know neither rapt::io nor rapt::viz"),
    ("include/rapt/checkpoint/*.h", PUBLIC_CORE + ["include/rapt/checkpoint/*.h",
                                                   "include/rapt/io/*.h", "include/rapt/nn/*.h"],
     STD, "checkpoints stand on layers and on files of tensors"),
    ("include/rapt/model/*.h", PUBLIC_CORE + ["include/rapt/io/*.h", "include/rapt/model/*.h",
                                              "include/rapt/nn/*.h"],
     STD, "trained encoders stand on layers and on files of tensors"),
    ("include/rapt/text/*.h", ["include/rapt/*.h", "include/rapt/io/*.h", "include/rapt/text/*.h"],
     STD, "tokenizers stand on the core and on rapt::io"),
    ("include/rapt/training/*.h", PUBLIC_CORE + TRAINED, STD,
     "training stands on layers, checkpoints and tokenizers"),
    ("include/rapt/generation/*.h", PUBLIC_CORE + ["include/rapt/generation/*.h",
                                                   "include/rapt/nn/*.h"],
     STD, "texts are generated as tokens, without files and tokenizers"),
    ("include/rapt/rapt_c.h", [], C99,
     "the C interface is plain C99 and stands alone"),
    ("include/rapt/rapt_cache_c.h", ["include/rapt/rapt_c.h"], C99,
     "the C interface of caches is plain C99 beside that of attention"),
    ("include/rapt/*.h", PUBLIC_CORE, STD,
     "the public interface includes only itself, no source, no intrinsics"),

    # The core. Within attention/ the rooms stand in the order of their arrows: a room may use those
    # before it, never one behind it.
    ("src/attention/call/**",
     PUBLIC_CORE + ATTENTION("call") + KERNEL_TABLES +
     ["src/base/call_memory.h", "src/base/tensor_memory.h", "src/base/check_argument.h",
      "src/base/rare.h"], STD,
     "the checked call knows nothing of how it is carried out"),
    ("src/attention/plan/**", PUBLIC_CORE + ATTENTION("call", "plan") + BELOW_THE_CONDUCTOR, STD,
     "how a call is cut follows from the checked call alone"),
    ("src/attention/rows/**",
     PUBLIC_CORE + ATTENTION("call", "plan", "rows") + BELOW_THE_CONDUCTOR, STD,
     "row transforms know rows, not tiles"),
    ("src/attention/relative/**",
     PUBLIC_CORE + ATTENTION("call", "plan", "rows", "relative") + BELOW_THE_CONDUCTOR, STD,
     "products with distance tables stand below the tiles of scores"),
    ("src/attention/tiles/**",
     PUBLIC_CORE + ATTENTION("call", "plan", "rows", "relative", "tiles") + BELOW_THE_CONDUCTOR, STD,
     "tiles of scores know neither the forward nor the backward pass"),
    ("src/attention/forward/**",
     PUBLIC_CORE + ATTENTION("call", "plan", "rows", "relative", "tiles", "forward") +
     BELOW_THE_CONDUCTOR, STD, "the forward pass does not know the backward pass"),
    ("src/attention/backward/**",
     PUBLIC_CORE + ATTENTION("call", "plan", "rows", "relative", "tiles", "backward") +
     BELOW_THE_CONDUCTOR, STD, "the backward pass does not know the forward pass"),
    ("src/attention/tangents/**",
     PUBLIC_CORE + ATTENTION("call", "plan", "rows", "relative", "tiles", "backward", "tangents") +
     BELOW_THE_CONDUCTOR, STD, "tangents know the plan of the backward pass"),
    ("src/attention/*",
     PUBLIC_CORE + ["src/attention/**", "src/method/method_call.h"] + BELOW_THE_CONDUCTOR, STD,
     "the public functions stand above all rooms, and reach kernels through their tables only"),
    ("src/method/**",
     PUBLIC_CORE + ["src/method/**", "src/mask/per_batch.h"] + ATTENTION("call", "plan", "tiles") +
     BELOW_THE_CONDUCTOR, STD + ["emmintrin.h"],
     "a method stands on the checked call, on kernels, and on the public functions"),
    ("src/products/**", PUBLIC_CORE + ["src/products/*.h"] + BELOW_THE_CONDUCTOR, STD,
     "products of layers stand beside attention, on the same kernels"),
    ("src/catalogue/**", PUBLIC_CORE + ["src/catalogue/*.h", "src/base/*.h"], STD,
     "the catalogue knows every variant and how its text reads, and computes nothing"),
    ("src/dialect/**", PUBLIC_CORE + ["src/dialect/*.h", "src/attention/call/*.h"], STD,
     "a dialect is a customer of the public interface that reads checked shapes"),
    ("src/cache/**", PUBLIC_CORE + ["src/cache/*.h", "src/base/*.h"], STD,
     "a cache holds rows, and computes nothing"),
    ("src/mask/boolean.cpp", VOCABULARY + ["include/rapt/mask/*.h", "src/mask/*.h", "src/base/*.h"],
     STD + ["emmintrin.h"],
     "masks are portable code without kernels; this one may use SSE2, which every x86-64 has"),
    ("src/mask/**", VOCABULARY + ["include/rapt/mask/*.h", "src/mask/*.h", "src/base/*.h"], STD,
     "masks are portable code without kernels"),
    ("src/layout/**", PUBLIC_CORE + ["src/layout/*.h", "src/mask/block_rows.h",
                                     "src/threads/task_run.h", "src/threads/workers.h"], STD,
     "masks are made from data and functions on the threads of a call, without any call"),
    ("src/score/**", VOCABULARY + ["include/rapt/score/*.h", "src/base/*.h"], STD,
     "scores declare themselves here; their maths is in their header"),
    ("src/normalizer/**", VOCABULARY + ["include/rapt/normalizer/*.h", "src/base/*.h"], STD,
     "normalisers declare themselves here; their maths is in their header"),
    ("src/kernels/simd/*.h", ["include/rapt/*.h", "src/kernels/simd/*.h",
                              "src/kernels/inlining.h"],
     NO_CODE + INTRINSICS,
     "compiled once per instruction set: a standard library function would be linked for all"),
    ("src/kernels/vector/*.simd.h", TILE_SIDE + KERNELS("vector") +
     ["include/rapt/normalizer/candidate_rows.h", "src/kernels/prefilter/*.h"],
     NO_CODE, COMPILED_PER_SET),
    ("src/kernels/dot/*.simd.h", TILE_SIDE + KERNELS("vector", "dot"), NO_CODE, COMPILED_PER_SET),
    ("src/kernels/amx/*.simd.h", TILE_SIDE + KERNELS("vector", "amx"), NO_CODE, COMPILED_PER_SET),
    ("src/kernels/dot/dot_bf16.cpp", TILE_SIDE + KERNELS("vector", "dot"), NO_CODE + INTRINSICS,
     "compiled for one instruction set: a standard library function would be linked for all"),
    ("src/kernels/amx/*.cpp", TILE_SIDE + KERNELS("vector", "amx"), NO_CODE,
     "compiled for two instruction sets: a standard library function would be linked for all"),
    ("src/kernels/prefilter/prefilter_vnni.cpp", KERNELS("prefilter"), NO_CODE + INTRINSICS,
     "compiled for one instruction set: a standard library function would be linked for all"),
    ("src/kernels/isa_tu.cpp", KERNELS("vector"), NO_CODE, COMPILED_PER_SET),
    ("src/kernels/kernel_table.h", TILE_SIDE + ["src/kernels/layer_products.h",
                                                "src/kernels/linear_kernels.h",
                                                "src/kernels/matrix_kernels.h"], STD,
     "the tables of kernels see the interfaces of variants, never a concrete mask"),
    ("src/kernels/**", TILE_SIDE + ["include/rapt/instruction_sets.h", "src/base/*.h",
                                    "src/kernels/*.h", "src/kernels/dot/*.h",
                                    "src/kernels/prefilter/*.h"], STD + POSIX,
     "kernels see the interfaces of variants, never a concrete mask"),
    ("src/nn/kernels/*.simd.h", TILE_SIDE + KERNELS("vector") + ["src/nn/kernels/*.h"], NO_CODE,
     COMPILED_PER_SET),
    ("src/nn/kernels/layer_isa_tu.cpp", ["src/nn/kernels/*.h"], NO_CODE, COMPILED_PER_SET),
    ("src/nn/**", PUBLIC_CORE + ["include/rapt/nn/*.h", "src/nn/**"] +
     BELOW_THE_CONDUCTOR, STD, "layers are customers of attention and of products"),
    ("src/base/**", ["include/rapt/%s.h" % name for name in
                     ("context", "error", "instruction_sets", "tensor", "version")] +
     ["src/base/*.h"], STD + POSIX + ["cpuid.h", "sanitizer/asan_interface.h"],
     "base stands on the standard library"),
    ("src/threads/**", ["include/rapt/%s.h" % name for name in
                        ("context", "error", "thread_pool")] + ["src/threads/*.h"],
     STD + POSIX + ["dlfcn.h"],
     "the pool runs tasks of which it knows nothing"),
    ("src/c_api/**", PUBLIC_CORE + ["src/c_api/*.h"], STD,
     "the C interface is a customer of the C++ one"),
    ("src/io/text/**", IO_SIDE + ["src/io/text/*.h"], STD + POSIX + ["nlohmann/*.hpp"],
     "texts know no other format"),
    ("src/io/npz/**", IO_SIDE + ["src/io/npz/*.h", "src/io/text/utf8.h"], STD + POSIX + ["zlib.h"],
     "ZIP archives know no other format"),
    ("src/io/safetensors/**", IO_SIDE + ["src/io/safetensors/*.h", "src/io/text/json_events.h"],
     STD + POSIX + ["nlohmann/*.hpp"], "safetensors knows JSON and no other format"),
    ("src/io/*", IO_SIDE + ["src/io/**"], STD + POSIX,
     "rapt::io is a customer of the core and does not know rapt::viz"),
    ("src/checkpoint/**", PUBLIC_CORE + ["include/rapt/checkpoint/*.h", "include/rapt/io/*.h",
                                         "include/rapt/nn/*.h", "src/checkpoint/*.h",
                                         "src/io/quoted.h"], STD + ["nlohmann/*.hpp"],
     "checkpoints are a customer of layers and of files of tensors"),
    ("src/model/**", PUBLIC_CORE + ["include/rapt/io/*.h", "include/rapt/model/*.h",
                                    "include/rapt/nn/*.h", "src/checkpoint/*.h", "src/io/quoted.h",
                                    "src/model/*.h", "src/nn/models/decoding_call.h",
                                    "src/nn/training/convert.h"],
     STD + ["nlohmann/*.hpp"], "trained models are a customer of layers, attention and checkpoints"),
    ("src/text/verse/**", ["include/rapt/error.h", "include/rapt/text/*grammar.h",
                           "src/base/philox.h"], STD,
     "grammars know no tokenizer"),
    ("src/text/file/**", TEXT_SIDE + ["src/text/file/*.h"], STD + ["nlohmann/*.hpp"],
     "files of tokenizers know tokenizers"),
    ("src/text/wordpiece/**", TEXT_SIDE + ["src/text/wordpiece/*.inc"], STD,
     "WordPiece knows no file and no attention"),
    ("src/text/bpe/**", TEXT_SIDE, STD, "BPE knows no file and no attention"),
    ("src/text/normal_form/**", TEXT_SIDE + ["src/text/normal_form/*.inc"], STD,
     "normal forms know no file and no tokenizer"),
    ("src/text/encoding/**", TEXT_SIDE, STD, "what stands around texts knows no file"),
    ("src/text/*", TEXT_SIDE + ["src/text/*.inc"], STD, "tokenizers know no file and no attention"),
    ("src/training/**", PUBLIC_CORE + TRAINED +
     ["src/training/*.h", "src/checkpoint/config_object.h", "src/io/quoted.h",
      "src/io/system_failure.h", "src/nn/training/random_numbers.h"],
     STD + POSIX + ["nlohmann/*.hpp"], "training is a customer of layers, checkpoints and tokenizers"),
    ("src/generation/**", PUBLIC_CORE + ["include/rapt/generation/*.h", "include/rapt/nn/*.h",
                                         "src/nn/training/random_numbers.h"], STD,
     "generation is a customer of layers, with their random numbers"),
    ("src/viz/text/**", VIZ_SIDE + ["src/viz/text/*"], STD, "letters know no picture"),
    ("src/viz/**", VIZ_SIDE + ["src/viz/**"], STD + POSIX + ["png.h"],
     "rapt::viz is a customer of the core and does not know rapt::io"),

    # What judges it. The reference and its plain data share no code with the library but the tensor.
    ("check/tensors/**", ["include/rapt/%s.h" % name for name in ("float16", "tensor")] +
     ["check/tensors/*.h"], STD, "tensors of checks are drawn and compared without any call"),
    ("check/spec/**", PUBLIC_CORE + CHECK("tensors", "spec") + ["check/reference/score_formula.h"],
     STD, "what a problem asks for is plain data, and the formulas of its scores"),
    ("check/reference/scores/*.h", ["check/reference/score_formula.h"], STD,
     "a formula is written in numbers and places, and shares no code with what it judges"),
    ("check/reference/masks/*.h",
     ["check/reference/mask_predicate.h", "check/reference/philox.h"], STD,
     "a predicate is written in positions and lengths, and shares no code with what it judges"),
    ("check/reference/normalizers/*.h",
     ["check/reference/normalizer_formula.h", "check/reference/*_family.h"], STD,
     "a formula is written in numbers, and shares no code with what it judges"),
    ("check/reference/methods/lsh.h",
     ["check/reference/reference.h", "include/rapt/attention.h", "include/rapt/method/lsh.h"], STD,
     "given the buckets that the library found, the reference states an exact problem"),
    ("check/reference/methods/favor.h",
     ["check/reference/reference.h", "include/rapt/method/favor.h"], STD,
     "given the projection that the library drew, the reference states a problem"),
    ("check/reference/methods/*.h", ["check/reference/reference.h"], STD,
     "the reference of a method states an exact problem, and shares no code with what it judges"),
    ("check/reference/**", ["include/rapt/tensor.h"] + CHECK("tensors", "spec", "reference"), STD,
     "the reference shares no code with what it judges, and knows no error bounds"),
    ("check/tolerance/**", ["include/rapt/tensor.h"] +
     CHECK("tensors", "spec", "reference", "reference/normalizers", "tolerance",
           "tolerance/normalizers"), STD,
     "error bounds come from the reference alone"),
    ("check/problem/**", PUBLIC_CORE + CHECK("tensors", "spec", "reference", "problem"), STD,
     "a descriptor says what is computed, not how it is judged"),
    ("check/draw/**", PUBLIC_CORE + CHECK("tensors", "spec", "reference", "problem", "draw"), STD,
     "problems are drawn without being computed"),
    ("check/cache/**", PUBLIC_CORE + CHECK("tensors", "cache"), STD,
     "a cache is judged by plain lists, without any call of attention"),
    ("check/compare/**", PUBLIC_CORE + CHECK("tensors", "spec", "reference", "tolerance",
                                             "problem", "compare"), STD,
     "checks are a customer of the core, without a test framework: the command line has them too"),

    ("timing/**", PUBLIC_CORE + ["timing/*.h", "check/**"], STD + POSIX,
     "problems that are timed are a customer of the core and of the checks"),

    ("conformance/**", PUBLIC_CORE + ["include/rapt/io/*.h", "conformance/*.h"], STD + ["zlib.h"],
     "tests of others are a customer of the public interface, without a test framework"),

    # Its customers.
    ("cli/**", PUBLIC + ["cli/**", "check/**", "timing/*.h"], ANY_SYSTEM,
     "the command line uses the public interface, the checks and the clocks"),
    ("examples/**", PUBLIC, STD + C99, "an example shows what a stranger can write"),
    ("bench/**", PUBLIC + ["bench/**", "check/**", "timing/*.h",
                          "src/kernels/kernel_table.h"], ANY_SYSTEM,
     "a benchmark uses the public interface, and the kernels through their table"),
    ("fuzz/**", PUBLIC + ["src/**", "check/**", "cli/**", "fuzz/*.h"], ANY_SYSTEM,
     "a fuzz target may call any parser"),
    ("tests/install/**", PUBLIC, STD, "a consumer has nothing but the installed headers"),
    ("tests/**", PUBLIC + ["src/**", "tests/**", "check/**", "cli/**", "conformance/*.h"], ANY_SYSTEM,
     "a test may look at anything"),
]

# Written by the build, or named by it in a macro: the vocabulary of an instruction set.
GENERATED = ["rapt_isas.inc", "rapt_layer_isas.inc", "rapt_commit.inc", "score_references.inc",
             "mask_predicates.inc", "normalizer_references.inc", "normalizer_errors.inc",
             "method_references.inc",
             "RAPT_ISA_HEADER"]

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
    ("src/attention/forward/forward.cpp", '#include "kernels/kernel_table.h"', False),
    ("src/attention/forward/forward.cpp", '#include "kernels/vector/attend.simd.h"', True),
    ("src/kernels/vector/attend.simd.h", '#include "rapt/mask/causal.h"', True),
    ("src/kernels/vector/attend.simd.h", "#include <vector>", True),
    ("src/kernels/vector/attend.simd.h", "#include <immintrin.h>", True),
    ("src/kernels/simd/avx2.h", "#include <immintrin.h>", False),
    ("src/kernels/dot/dot_bf16.cpp", "#include <immintrin.h>", False),
    ("src/kernels/dot/dot_bf16.cpp", "#include <vector>", True),
    ("src/kernels/prefilter/prefilter_vnni.cpp", "#include <immintrin.h>", False),
    ("src/kernels/prefilter/prefilter_vnni.cpp", "#include <algorithm>", True),
    ("src/mask/boolean.cpp", "#include <emmintrin.h>", False),
    ("src/mask/boolean.cpp", "#include <immintrin.h>", True),
    ("src/mask/causal.cpp", "#include <emmintrin.h>", True),
    ("src/kernels/simd/avx2.h", "#include <algorithm>", True),
    ("src/attention/call/problem.cpp", '#include "attention/plan/tiling.h"', True),
    ("src/attention/plan/tiling.cpp", '#include "attention/call/problem.h"', False),
    ("src/attention/plan/tiling.cpp", '#include "attention/tiles/score_tiles.h"', True),
    ("src/attention/tiles/prefilter.cpp", '#include "attention/forward/forward.h"', True),
    ("src/attention/backward/backward.cpp", '#include "attention/forward/forward.h"', True),
    ("src/attention/attention.cpp", '#include "attention/forward/forward.h"', False),
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
    ("check/reference/reference.cpp", '#include "rapt/attention.h"', True),
    ("check/reference/reference.cpp", '#include "rapt/tensor.h"', False),
    ("check/reference/reference.cpp", '#include "check/tolerance/tolerance.h"', True),
    ("check/tolerance/tolerance.cpp", '#include "check/reference/reference.h"', False),
    ("check/compare/case.cpp", "#include <gtest/gtest.h>", True),
    ("check/compare/case.cpp", '#include "kernels/kernel_table.h"', True),
    ("examples/hello.cpp", '#include "kernels/kernel_table.h"', True),
    ("src/utils/helpers.h", "", True),
]
TARGETS = ["include/rapt/%s.h" % name for name in
           ("attention", "tensor", "mask/mask", "mask/causal", "normalizer/softmax", "io/npy",
            "viz/heatmap")] + ["src/base/memory.h", "src/io/npy.h", "src/kernels/kernel_table.h",
                               "src/attention/call/problem.h", "src/attention/plan/tiling.h",
                               "src/attention/tiles/score_tiles.h",
                               "src/attention/forward/forward.h",
                               "src/kernels/vector/attend.simd.h",
                               "check/reference/reference.h", "check/tolerance/tolerance.h"]


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
