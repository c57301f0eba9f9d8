#!/usr/bin/env bash
# check_isa_leaks.sh OBJECT...: objects compiled for one instruction set must define no symbol that
# code compiled for another could be linked to.
#
# An inline function or template instance that is not named after the set becomes a weak symbol, of
# which the linker keeps any one, for everybody: then an AVX-512 instruction runs on a CPU without
# it. So every symbol that leaves such an object must carry the set's namespace, rapt::isa_*, in its
# name or in its template arguments; that includes inline functions of the standard library.
set -euo pipefail
[ $# -gt 0 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }

symbols=$(nm --demangle --defined-only --extern-only "$@")

# Neither carries instructions: typeinfo and its name, which -fsanitize=undefined asks for, and
# DW.ref, a pointer to the exception personality.
leaks=$(printf '%s\n' "$symbols" | grep -E '^[0-9a-f]* +[A-Za-z] ' |
        grep -v -E 'rapt::isa_| typeinfo (name )?for | DW\.ref\.' || true)

if [ -n "$leaks" ]; then
  echo "Instruction-set leak: these symbols lie outside of rapt::isa_* and may be linked into"
  echo "portable code. Name them after the set (a template over its vector type), or keep their"
  echo "header out of src/kernels/isa_tu.cpp:"
  printf '%s\n' "$leaks"
  exit 1
fi
