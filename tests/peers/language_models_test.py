#!/usr/bin/env python3
"""language_models_test.py RAPT: GPT-2, Llama and Qwen3 of Hugging Face transformers, tiny and random.

transformers saves a model; the program language_model_driver, built beside the command line, loads it,
computes logits in one pass and with a cache, takes a step of gradient descent and saves the model;
transformers opens that and computes the same loss. Exits with 77 where a package or the program is
missing.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import torch
    from safetensors.torch import load_file, save_file
    from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, Qwen3Config
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from rapt_by_files import Comparison

PROGRAM = Path(sys.argv[1]).resolve().parents[1] / "tests" / "checkpoint" / "language_model_driver"
if not PROGRAM.exists():
    print(f"skipped: {PROGRAM} is not built")
    sys.exit(77)
compare = Comparison()

GPT2 = {"vocab_size": 61, "n_positions": 16, "n_embd": 24, "n_layer": 2, "n_head": 3,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
        "bos_token_id": None, "eos_token_id": None}
LLAMA = {"vocab_size": 61, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
         "bos_token_id": None, "eos_token_id": None}


def rope(kind, **numbers):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 500.0, **numbers}}


MODELS = {
    "gpt2": GPT2Config(**GPT2),
    "gpt2, a head and a width of its own": GPT2Config(**GPT2, n_inner=50, tie_word_embeddings=False),
    "llama": LlamaConfig(**LLAMA),
    "llama, tied, biases, head_dim": LlamaConfig(**LLAMA, tie_word_embeddings=True, head_dim=10,
                                                 attention_bias=True, mlp_bias=True),
    "llama 3": LlamaConfig(**LLAMA, **rope("llama3", factor=8.0, low_freq_factor=1.0,
                                           high_freq_factor=4.0,
                                           original_max_position_embeddings=16)),
    "llama, linear": LlamaConfig(**LLAMA, **rope("linear", factor=2.0)),
    "llama, yarn": LlamaConfig(**LLAMA, **rope("yarn", factor=4.0,
                                               original_max_position_embeddings=16)),
    "llama, yarn by mscale": LlamaConfig(**LLAMA, **rope(
        "yarn", factor=4.0, original_max_position_embeddings=16, mscale=0.7, mscale_all_dim=0.9,
        beta_fast=4.0, beta_slow=2.0, truncate=False)),
    "qwen3": Qwen3Config(**LLAMA, head_dim=16),
    "qwen3, tied, biases": Qwen3Config(**LLAMA, head_dim=8, tie_word_embeddings=True,
                                       attention_bias=True),
}


def drawn_model(config, dtype):
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").to(dtype).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, float(parameter.dim() == 1), 0.3)
    return model


def loss_of(model, tokens, targets):
    logits = model(tokens).logits
    return logits, torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def by_rapt(folder, tokens, targets, rate):
    save_file({"tokens": tokens, "targets": targets, "rate": rate}, folder / "given.safetensors")
    subprocess.run([PROGRAM, folder / "in", folder / "given.safetensors", folder / "out",
                    folder / "found.safetensors"], check=True)
    return load_file(folder / "found.safetensors")


def largest_of(tensor):
    return tensor.abs().max().item()


def check(name, config, dtype, save):
    # In float64, too, transformers computes the tables of rope and RMS norms in float32.
    exact = dtype == torch.float64 and config.model_type == "gpt2"
    tolerance = 1e-12 if exact else 1e-5
    torch.manual_seed(1)
    model, name = drawn_model(config, dtype), f"{name}, {dtype}: "
    tokens, targets = torch.randint(61, (2, 11)), torch.randint(61, (2, 11))
    rate = torch.tensor([0.05], dtype=dtype)
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        save(model, folder / "in")
        found = by_rapt(folder, tokens, targets, rate)
        logits, loss = loss_of(model, tokens, targets)
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= rate * parameter.grad
        _, loss_after = loss_of(model, tokens, targets)
        reopened = AutoModelForCausalLM.from_pretrained(folder / "out", dtype=dtype,
                                                        attn_implementation="eager").eval()
        _, loss_reopened = loss_of(reopened, tokens, targets)
    largest = largest_of(logits)
    compare.close(name + "logits", found["logits"] / largest, logits.detach() / largest, tolerance)
    compare.close(name + "logits with a cache", found["decoded"] / largest,
                  logits.detach() / largest, tolerance)
    compare.close(name + "loss", found["losses"][0], loss.detach(), tolerance)
    compare.close(name + "loss after a step", found["losses"][1], loss_after.detach(), tolerance)
    compare.close(name + "loss of the model that rapt wrote", loss_reopened.detach(),
                  loss_after.detach(), tolerance)
    for key, mine in model.state_dict().items():
        compare.close(name + key, reopened.state_dict()[key] / largest_of(mine),
                      mine / largest_of(mine), tolerance)


def whole(model, folder):
    model.save_pretrained(folder)


for name, config in MODELS.items():
    for dtype in (torch.float64, torch.float32):
        check(name, config, dtype, whole)
check("llama in shards", MODELS["llama"], torch.float32,
      lambda model, folder: model.save_pretrained(folder, max_shard_size="10KB"))
check("gpt2 without a prefix", MODELS["gpt2"], torch.float64,
      lambda model, folder: model.transformer.save_pretrained(folder))
compare.exit()
