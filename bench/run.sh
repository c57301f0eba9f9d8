#!/usr/bin/env bash
# Measures speed and memory of forward and backward pass and prints Markdown tables; about 20
# minutes.
#
#   bench/run.sh [BUILD_DIR] [--record] [--processes N] [--repetitions N] [--filter TEXT] [--quick]
#
#   BUILD_DIR       where rapt was built as Release (build/release)
#   --record        also write bench/results/MACHINE.md
#   --processes N   the median of N processes (5): code and data lie elsewhere in each
#   --repetitions N the best of at most N calls in each process (20)
#   --filter TEXT   only cases with TEXT in their name; neither threads nor memory
#   --quick         small problems, once: proves that everything runs, its numbers mean nothing
#
# Exits with 1 if memory grows beyond its limit. Leave the machine alone meanwhile: CPU time does not
# count the neighbours, but the clock, caches and memory are shared with them.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

build=$here/../build/release record=0 processes=5 repetitions=20 filter='' quick=()
while [ $# -gt 0 ]; do
  case $1 in
    --record) record=1 ;;
    --quick) quick=(--quick) processes=1 repetitions=1 ;;
    --processes | --repetitions | --filter)
      [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; }
      declare "${1#--}=$2"
      shift ;;
    -*) sed -n '2,15s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    *) build=$1 ;;
  esac
  shift
done
for name in forward backward ratios small_calls threads memory; do
  if [ ! -x "$build/bench/bench_$name" ]; then
    echo "$build has no bench_$name; build it: cmake --build --preset release" >&2
    exit 2
  fi
done
if [ $record = 1 ] && [ -n "$filter${quick[*]}" ]; then
  echo "--record keeps the whole table; leave --filter and --quick out" >&2
  exit 2
fi

lines=$(mktemp)
trap 'rm -f "$lines"' EXIT

# measure NAME: the cases of bench_NAME. That no case has the filter's text in its name (3) is no
# fault: those of another program may, or medians.py tells.
measure() {
  "$build/bench/bench_$1" --json --repetitions "$repetitions" --filter "$filter" "${quick[@]}" \
    >>"$lines" || [ $? = 3 ]
}

for ((p = 1; p <= processes; ++p)); do
  echo "process $p of $processes" >&2
  # What this machine takes by itself, and AVX2 forced, where there is something above it.
  measure forward
  if [ "$("$build/bench/bench_forward" --isa)" = avx512 ]; then RAPT_ISA=avx2 measure forward; fi
  measure backward
  measure ratios
  measure small_calls
  if [ -z "$filter" ]; then
    "$build/bench/bench_threads" --json --repetitions "$repetitions" >>"$lines"
  fi
done

status=0
if [ -z "$filter" ]; then
  tokens=65536
  if [ ${#quick[@]} -gt 0 ]; then tokens=2048; fi
  for dtype in f32 bf16; do
    for capture in $("$build/bench/bench_memory" --captures); do
      echo "memory: $dtype, $capture" >&2
      # A growth beyond the limit (1) is a line of the table too.
      "$build/bench/bench_memory" --json --tokens "$tokens" --dtype "$dtype" \
        --capture "$capture" >>"$lines" || { [ $? = 1 ] || exit 2; status=1; }
    done
  done
fi

tables=$(python3 "$here/medians.py" "$("$build/bench/bench_forward" --build-info)" <"$lines")
printf '%s\n' "$tables"
if [ $record = 1 ]; then
  stem=$(python3 "$here/machine.py" | tail -n 1)
  mkdir -p "$here/results"
  {
    printf '# Speed and memory\n\n`bench/run.sh --record` on %s:\n\n' "$(date -u +%F)"
    printf '%s\n' "$tables"
  } >"$here/results/$stem.md"
  echo "written: bench/results/$stem.md" >&2
fi
exit $status
