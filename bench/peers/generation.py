#!/usr/bin/env python3
"""Generation by `rapt generate` beside transformers and llama.cpp: GPT-2 124M with random weights.

    OPENBLAS_NUM_THREADS=1 bench/peers/generation.py FOLDER [--dtype f32|bf16] [--rounds N]

Writes the model into FOLDER, once, as transformers does, and as GGUF where the packages gguf and
llama-cpp-python (built from source) are installed. Then all read a prompt of PROMPT tokens, with
logits of the last one alone, and write NEW_TOKENS of the largest logits, with one thread, in turn.
Numbers are medians over the rounds; `reading` is NumPy's dot product of all weights with themselves.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy

ROOT = Path(__file__).resolve().parents[2]
PROMPT, NEW_TOKENS, VOCABULARY = 512, 24, 50257
LAYERS, HEADS, FEATURES, CONTEXT = 12, 12, 768, 1024
# A tokenizer of 256 bytes as tokens, so that a prompt of n letters has n tokens.
BYTES = ([*range(33, 127), *range(161, 173), *range(174, 256)])


def byte_characters():
    others = [b for b in range(256) if b not in BYTES]
    return {chr(b): b for b in BYTES} | {chr(256 + i): b for i, b in enumerate(others)}


def write_folder(folder, dtype):
    import torch
    import transformers
    torch.manual_seed(1)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=FEATURES, n_layer=LAYERS, n_head=HEADS,
        bos_token_id=None, eos_token_id=None))
    model.to({"f32": torch.float32, "bf16": torch.bfloat16}[dtype]).save_pretrained(folder)
    split = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
             "use_regex": True}
    vocabulary = {c: i for i, c in enumerate(byte_characters())}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": None, "pre_tokenizer": split, "post_processor": None,
        "decoder": split, "model": {"type": "BPE", "dropout": None, "unk_token": None,
                                    "continuing_subword_prefix": None, "end_of_word_suffix": None,
                                    "fuse_unk": False, "byte_fallback": False,
                                    "vocab": vocabulary, "merges": []}}))


GGUF_NAMES = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm",
              "ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv",
              "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}


def write_gguf(folder, path, dtype):
    import gguf
    import torch
    from safetensors.torch import load_file
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(FEATURES)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(4 * FEATURES)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("no_vocab")
    writer.add_file_type({"f32": 0, "bf16": 32}[dtype])
    for name, tensor in load_file(folder / "model.safetensors").items():
        name = name.removeprefix("transformer.")
        part, kind = name.rsplit(".", 1)
        block, inner = "", part
        if part.startswith("h."):
            block, inner = part.removeprefix("h.").split(".", 1)
        to = (f"blk.{block}." if block else "") + GGUF_NAMES[inner] + "." + kind
        if ".c_" in name and kind == "weight":
            tensor = tensor.t().contiguous()
        if dtype == "bf16" and tensor.ndim == 2 and inner != "wpe":
            writer.add_tensor(to, tensor.view(torch.int16).numpy().view(numpy.uint8),
                              raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            writer.add_tensor(to, tensor.float().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def rapt(program, folder, dtype):
    run = subprocess.run(
        [program, "generate", folder, "--prompt", "a" * PROMPT, "--length", str(NEW_TOKENS + 1),
         "--temperature", "0", "--threads", "1", "--dtype", dtype, "--json"],
        capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr)
    seconds = json.loads(run.stdout)["time"]
    return seconds["prompt_seconds"], 1 / seconds["tokens_per_second"]


def transformers_engine(folder):
    import torch
    import transformers
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    model = transformers.GPT2LMHeadModel.from_pretrained(folder, dtype="auto").eval()
    prompt = torch.full((1, PROMPT), 64)

    def run():
        with torch.no_grad():
            start = time.perf_counter()
            out = model(prompt, use_cache=True, logits_to_keep=1)
            first = time.perf_counter()
            for _ in range(NEW_TOKENS):
                token = out.logits[:, -1:].argmax(-1)
                out = model(token, past_key_values=out.past_key_values, use_cache=True)
        return first - start, (time.perf_counter() - first) / NEW_TOKENS

    return run


def llama_engine(path):
    import llama_cpp
    model = llama_cpp.Llama(str(path), n_ctx=CONTEXT, n_batch=PROMPT, n_ubatch=PROMPT, n_threads=1,
                            n_threads_batch=1, verbose=False)

    def run():
        model.reset()
        start = time.perf_counter()
        model.eval([64] * PROMPT)
        first = time.perf_counter()
        for _ in range(NEW_TOKENS):
            model.eval([64])
        return first - start, (time.perf_counter() - first) / NEW_TOKENS

    return run


def reading(folder):
    header = int.from_bytes((folder / "model.safetensors").read_bytes()[:8], "little")
    weights = numpy.memmap(folder / "model.safetensors", dtype=numpy.float32, mode="r",
                           offset=8 + header)
    numpy.dot(weights, weights)  # maps the pages
    start = time.perf_counter()
    numpy.dot(weights, weights)
    return 0, time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    folder, dtype = arguments.folder, arguments.dtype
    if not (folder / "tokenizer.json").exists():
        write_folder(folder, dtype)
    engines = {"reading": lambda: reading(folder),
               "rapt": lambda: rapt(arguments.build / "cli/rapt", folder, dtype),
               "transformers": transformers_engine(folder)}
    try:
        gguf_path = folder / "model.gguf"
        if not gguf_path.exists():
            write_gguf(folder, gguf_path, dtype)
        engines["llama.cpp"] = llama_engine(gguf_path)
    except ImportError as error:
        print(f"llama.cpp: left out, {error}", file=sys.stderr)
    times = {name: [] for name in engines}
    for i in range(arguments.rounds):
        for name in list(engines) if i % 2 == 0 else list(engines)[::-1]:
            times[name].append(engines[name]())
    print(f"{dtype}, prompt of {PROMPT}\n\n| | prompt ms | token ms |\n|---|---:|---:|")
    for name, rounds in times.items():
        prompt, token = (1e3 * statistics.median(values) for values in zip(*rounds))
        print(f"| {name} | {prompt:.0f} | {token:.2f} |")


if __name__ == "__main__":
    main()
