#!/usr/bin/env bash
# Measures speed and memory of the forward pass and prints one Markdown table.
#
#   bench/run.sh [BUILD_DIR] [--record] [--processes N] [--repetitions N] [--filter TEXT]
#
#   BUILD_DIR       where rapt was built as Release (build/release)
#   --record        also write bench/results/MACHINE.md
#   --processes N   the median of N processes (5): code and data lie elsewhere in each
#   --repetitions N the best of N calls in each process (20)
#   --filter TEXT   only cases with TEXT in their name; no memory measurement
#
# Exits with 1 if memory grows beyond its limit. Leave the machine alone meanwhile: CPU time does not
# count the neighbours, but the clock, caches and memory are shared with them.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

build=$here/../build/release record=0 processes=5 repetitions=20 filter=
while [ $# -gt 0 ]; do
  case $1 in
    --record) record=1 ;;
    --processes | --repetitions | --filter)
      [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; }
      declare "${1#--}=$2"
      shift ;;
    -*) sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    *) build=$1 ;;
  esac
  shift
done
forward=$build/bench/bench_forward memory=$build/bench/bench_memory
if [ ! -x "$forward" ] || [ ! -x "$memory" ]; then
  echo "$build has no benchmarks; build them: cmake --build --preset release" >&2
  exit 2
fi
if [ $record = 1 ] && [ -n "$filter" ]; then
  echo "--record keeps the whole table; leave --filter out" >&2
  exit 2
fi

lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
build_info=$("$forward" --build-info)

# What this machine would take by itself, and AVX2 forced, where there is something above it.
sets=("")
if [ "$("$forward" --isa)" = avx512 ]; then sets+=(avx2); fi
for ((p = 1; p <= processes; ++p)); do
  for isa in "${sets[@]}"; do
    echo "process $p of $processes ${isa:+($isa forced)}" >&2
    if [ -n "$isa" ]; then export RAPT_ISA=$isa; else unset RAPT_ISA; fi
    # No case of this name among those of this set: the other set has some, or medians.py tells.
    "$forward" --json --repetitions "$repetitions" --filter "$filter" >>"$lines" || [ $? = 3 ]
  done
done
unset RAPT_ISA

status=0
if [ -n "$filter" ]; then
  memory_line="not measured"
else
  echo "memory" >&2
  memory_line=$("$memory") || status=1
fi

table=$(python3 "$here/medians.py" "$build_info" "$memory_line" <"$lines")
printf '%s\n' "$table"
if [ $record = 1 ]; then
  stem=$(python3 "$here/machine.py" | tail -n 1)
  mkdir -p "$here/results"
  {
    printf '# Forward pass: speed and memory\n\n`bench/run.sh --record` on %s:\n\n' "$(date -u +%F)"
    printf '%s\n' "$table"
  } >"$here/results/$stem.md"
  echo "written: bench/results/$stem.md" >&2
fi
exit $status
