#!/usr/bin/env python3
"""Writes tokenizer.json and ids.json of this folder with the package tokenizers, or compares them.

usage: make_golden.py [--check]      exit 77 (skipped): the package is missing

tokenizer.json: byte-level BPE learned from some sentences, with added tokens. ids.json: texts, and the
ids that it gives them. learned.json: the same learned without added tokens.
"""
import json
import pathlib
import sys

try:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
except ImportError:
    sys.exit(77)

TEXT = ("The cat saw the dog. The dog didn't see the cat, and the cats weren't there.\n\n"
        "They've seen 12 cats, 123 dogs and 7 \u732b; we'll say: \u732b is cat.\n"
        "\tif (cat == dog) { return cat; }  // the\u00e9 the\u00e9\n") * 3
TEXTS = [
    "", " ", "  ", "\n", "a", "The cat saw the dog.", TEXT,
    "don't we'll I'm they've she'd it's you're 'twas '' 's", "DON'T WE'LL", "x'sy'tz",
    "a  b   c\n\n d\t\te \n f  ", "   leading", "trailing   ", "a\u00a0b\u2003 c\u3000d\u0085e",
    "12 345abc6.7\u00b2\u0663\u2167x", "!!! ... ?!a _a_ -1", "\u00e9e\u0301 \u00df\u0130\u1e9e",
    "\u732b\u732b \u72ac\u3001\u0e01\u0e33 \u0939\u093f \uac00\u1100", "\U0001f600\U0001f468\u200d\U0001f469",
    "\u0000\u0001\u001c\u001f\u007f\u0080", "\ufeff\ufffd\uffff\U0010ffff", "\u00ad\u200b\u180e",
    "<|endoftext|>", "a<|endoftext|><|endoftext|> b", "<|endoftext|", "<|end <|endoftext", "cats cat dogs",
]


def learned(special):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=310, show_progress=False, special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([TEXT], trainer)
    return tokenizer


tokenizer = learned(["<|endoftext|>"])
tokenizer.add_special_tokens(["<|end"])
tokenizer.add_tokens(["cats"])
FILES = {
    "tokenizer.json": tokenizer.to_str(pretty=True),
    "learned.json": learned([]).to_str(pretty=True),
    "ids.json": json.dumps(
        {"learned_from": TEXT,
         "texts": [{"text": text, "ids": tokenizer.encode(text).ids} for text in TEXTS]},
        indent=0) + "\n",
}

folder = pathlib.Path(__file__).parent
wrong = []
for name, content in FILES.items():
    if "--check" not in sys.argv:
        (folder / name).write_text(content)
    elif (folder / name).read_text() != content:
        wrong.append(name)
if wrong:
    sys.exit("differs from the package: " + ", ".join(wrong))
