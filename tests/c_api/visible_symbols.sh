#!/usr/bin/env bash
# visible_symbols.sh LIBRARY HEADERS...: the shared library must show exactly the functions that the
# headers declare, so that it can lie beside any other C++ in one process.
set -euo pipefail
library=$1
shift

shown=$(nm -D --defined-only "$library" | awk '{ print $3 }' | sed 's/@.*//' | sort)
declared=$(grep -ohE '\brapt_[a-z0-9_]+\(' "$@" | tr -d '(' | sort -u)

if [ "$shown" != "$declared" ]; then
  echo "Shown by $library (<) but declared in $* (>):"
  diff <(printf '%s\n' "$shown") <(printf '%s\n' "$declared") || true
  exit 1
fi
printf '%s\n' "$shown"
