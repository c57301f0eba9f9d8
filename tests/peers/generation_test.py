#!/usr/bin/env python3
"""generation_test.py RAPT: greedy texts of every family of decoders, tiny and random, in float32.

transformers saves a model, the package tokenizers its tokenizer; `rapt generate --temperature 0` and
generate(do_sample=False) continue the same prompts, and their tokens must be equal. Where they part,
the two most probable tokens must be as close as rounding errors are. Exits with 77 where a package is
missing.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import (AutoModelForCausalLM, Gemma2Config, GPT2Config, LlamaConfig, MistralConfig,
                              Qwen2Config, Qwen3Config)
    from transformers.utils import logging
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from rapt_by_files import Comparison

RAPT = Path(sys.argv[1]).resolve()
logging.disable_progress_bar()
compare = Comparison()

ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
VOCABULARY = len(ALPHABET)
# More than 1,024 positions: rapt sums longer rows in chunks.
CONTEXT = 1200
GPT2 = {"vocab_size": VOCABULARY, "n_positions": CONTEXT, "n_embd": 24, "n_layer": 2, "n_head": 3}
LLAMA = {"vocab_size": VOCABULARY, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": CONTEXT}
CONFIGS = {
    "gpt2": GPT2Config(**GPT2, bos_token_id=None, eos_token_id=None),
    "llama": LlamaConfig(**LLAMA, bos_token_id=None, eos_token_id=None),
    "llama, tied, one key head": LlamaConfig(**{**LLAMA, "num_key_value_heads": 1}, bos_token_id=None,
                                             eos_token_id=None, tie_word_embeddings=True),
    "qwen3": Qwen3Config(**LLAMA, head_dim=16, bos_token_id=None, eos_token_id=None),
    "mistral": MistralConfig(**LLAMA, sliding_window=50, bos_token_id=None, eos_token_id=None),
    "qwen2": Qwen2Config(**LLAMA, use_sliding_window=True, sliding_window=20, max_window_layers=1,
                         bos_token_id=None, eos_token_id=None),
    "gemma2": Gemma2Config(**LLAMA, head_dim=16, sliding_window=30, query_pre_attn_scalar=24,
                           bos_token_id=None, eos_token_id=None, pad_token_id=None),
}
# A prompt, and how many tokens follow.
PROMPTS = [("a", 60), ("The cat sat on the mat.", 60), ("naïve café, 你好 😀\n\n", 60), ("0 1 " * 255, 40)]


def bytes_as_tokens():
    """A tokenizer whose tokens are the 256 bytes."""
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(ALPHABET)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def drawn_model(config):
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    for name, parameter in model.named_parameters():
        # Tables and biases are small beside what the blocks add, or every token would be the same one.
        small = name.endswith("bias") or parameter.shape[0] in (VOCABULARY, CONTEXT)
        is_norm = parameter.dim() == 1 and not name.endswith("bias")
        torch.nn.init.normal_(parameter, float(is_norm), 0.1 if small else 0.8)
    return model


def by_rapt(folder, prompt, length):
    ran = subprocess.run([RAPT, "generate", folder, "--prompt", prompt, "--length", str(length),
                          "--temperature", "0", "--json"], check=True, capture_output=True, text=True)
    return json.loads(ran.stdout)["texts"][0]


def by_transformers(model, tokens, length):
    """The tokens behind the prompt, with one that ends the text."""
    given = torch.tensor([tokens])
    whole = model.generate(given, attention_mask=torch.ones_like(given), do_sample=False,
                           max_new_tokens=length, pad_token_id=0)
    return whole[0, len(tokens):].tolist()


def within_rounding(model, tokens):
    """Are the two most probable tokens behind these as close as rounding errors are?"""
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0, -1]
    first, second = logits.topk(2).values.tolist()
    return first - second <= 1e-5 * logits.abs().max().item()


def expect_tokens(what, model, prompt, found, expected):
    parts = [i for i, (a, b) in enumerate(zip(found, expected)) if a != b]
    tie = bool(parts) and within_rounding(model, prompt + expected[:parts[0]])
    if tie:
        print(f"{what}: two tokens are as probable as each other after {parts[0]}")
        found, expected = found[:parts[0]], expected[:parts[0]]
    compare.close(what, found, expected, 0)


for name, config in CONFIGS.items():
    torch.manual_seed(1)
    model, tokenizer, written = drawn_model(config), bytes_as_tokens(), set()
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        model.save_pretrained(folder)
        tokenizer.save(str(folder / "tokenizer.json"))
        for prompt, length in PROMPTS:
            tokens = tokenizer.encode(prompt).ids
            expected = by_transformers(model, tokens, length)
            found = by_rapt(folder, prompt, length)
            what = f"{name}, {len(tokens)} tokens"
            expect_tokens(what, model, tokens, found["tokens"], expected)
            written.update(expected)
        compare.close(f"{name}, different tokens (a text, not a repeated token)", len(written) > 20, True, 0)
        # The text ends before the first occurrence of a token that ends texts.
        tokens = tokenizer.encode(PROMPTS[1][0]).ids
        ends = by_transformers(model, tokens, 60)[7]
        model.generation_config.eos_token_id = ends
        model.save_pretrained(folder)
        expected, found = by_transformers(model, tokens, 60), by_rapt(folder, PROMPTS[1][0], 60)
        compare.close(f"{name}, the end", expected[-1:], [ends], 0)
        compare.close(f"{name}, ended by a token", found["finish"] == "stop-token", True, 0)
        expect_tokens(f"{name}, before the end", model, tokens, found["tokens"], expected[:-1])
compare.exit()
