#!/usr/bin/env bash
# The demonstration of `./run demo`: demo.sh RAPT shows what the command line at RAPT can do.
set -euo pipefail
rapt=$1

echo
echo "== Attention step by step, on two tokens"
"$rapt" explain
