#!/usr/bin/env python3
"""Writes tiny random encoders of this folder with the package transformers, or compares them.

usage: make_golden.py [--check]      exit 77 (skipped): a package is missing

bert/, roberta/, distilbert/: config.json and model.safetensors, as save_pretrained() writes them, and
golden.safetensors: ids and types of two texts, and of each the outputs and maps of all heads that
transformers computes in float64. `error` holds the largest error of transformers' own float32, of
outputs and of maps.
"""
import pathlib
import sys
import tempfile

try:
    import torch
    from safetensors.torch import load_file, save_file
    from transformers import (BertConfig, BertModel, DistilBertConfig, DistilBertModel, RobertaConfig,
                              RobertaModel)
except ImportError:
    sys.exit(77)

COMMON = dict(vocab_size=50, max_position_embeddings=24, initializer_range=0.3)
SIZES = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40)
FAMILIES = {
    "bert": (BertModel, BertConfig(**COMMON, **SIZES)),
    "roberta": (RobertaModel, RobertaConfig(**COMMON, **SIZES, type_vocab_size=1, pad_token_id=1)),
    "distilbert": (DistilBertModel, DistilBertConfig(
        **COMMON, dim=24, n_layers=2, n_heads=3, hidden_dim=40)),
}
LENGTHS = (19, 6)


def computed(model, ids, types):
    inputs = {"input_ids": ids[None]}
    if types is not None:
        inputs["token_type_ids"] = types[None]
    with torch.no_grad():
        found = model(**inputs, output_attentions=True)
    return found.last_hidden_state[0], torch.stack([a[0] for a in found.attentions])


def golden(name, model):
    model.set_attn_implementation("eager")
    tensors, error = {}, torch.zeros(2, dtype=torch.float64)
    draw = torch.Generator().manual_seed(1)
    for i, length in enumerate(LENGTHS):
        ids = torch.randint(3, 50, (length,), generator=draw)
        types = (torch.arange(length) >= length // 2).long() if name == "bert" else None
        single = computed(model.float(), ids, types)
        exact = computed(model.double(), ids, types)
        for part in range(2):
            error[part] = max(error[part], (single[part].double() - exact[part]).abs().max())
        tensors |= {f"ids{i}": ids, f"output{i}": exact[0], f"maps{i}": exact[1]}
        if types is not None:
            tensors[f"types{i}"] = types
    model.float()
    return tensors | {"error": error}


wrong = []
folder = pathlib.Path(__file__).parent
for name, (kind, config) in FAMILIES.items():
    torch.manual_seed(7)
    model = kind(config).eval()
    for parameter in model.parameters():  # biases and norms begin as constants
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    if "--check" not in sys.argv:
        model.save_pretrained(folder / name)
        save_file(golden(name, model), folder / name / "golden.safetensors")
        continue
    model = kind.from_pretrained(folder / name).eval()
    stored = load_file(folder / name / "golden.safetensors")
    for key, value in golden(name, model).items():
        if key != "error" and not torch.allclose(value, stored[key], rtol=0, atol=1e-12):
            wrong.append(f"{name} {key}")
if wrong:
    sys.exit("differs from transformers: " + ", ".join(wrong))
