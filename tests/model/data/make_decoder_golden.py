#!/usr/bin/env python3
"""Writes tiny random decoders of this folder with the package transformers, or compares them.

usage: make_decoder_golden.py [--check]      exit 77 (skipped): a package is missing

gpt2/, llama/, mistral/, qwen2/, qwen3/, gemma2/: config.json and model.safetensors (gemma2: shards), as
save_pretrained() writes them, in f32, bf16 (mistral) or f16 (qwen2), and golden.safetensors: the ids of
two texts, and of each the outputs of the last norm, the logits and the maps of all heads that eager
transformers computes in float64 with these weights. `error` holds the largest error of float32, of
outputs, maps and logits: transformers' own, and that with the products of linear layers as plain
loops. `error16` holds the largest error of logits in float32 where attention keeps queries, keys,
values and weights in bfloat16, and in float16. `generated`: 64 tokens behind the second text, each of the
largest logit, by generate() in float32 with its cache.
"""
import pathlib
import sys

try:
    import torch
    from safetensors.torch import load_file, save_file
    from transformers import (AttentionInterface, AttentionMaskInterface, Gemma2Config, Gemma2ForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig,
                              LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config,
                              Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)
    from transformers.masking_utils import eager_mask
except ImportError:
    sys.exit(77)

COMMON = dict(vocab_size=50, initializer_range=0.3, bos_token_id=None, eos_token_id=None, pad_token_id=0)
SIZES = dict(COMMON, max_position_embeddings=96, hidden_size=24, intermediate_size=40,
             num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
FAMILIES = {
    "gpt2": (GPT2LMHeadModel, torch.float32, GPT2Config(
        **COMMON, n_positions=96, n_embd=24, n_layer=2, n_head=3)),
    # head_dim apart from the width, all biases, llama3's rope, a head of its own.
    "llama": (LlamaForCausalLM, torch.float32, LlamaConfig(
        **SIZES, head_dim=8, attention_bias=True, mlp_bias=True, tie_word_embeddings=False,
        rope_parameters={"rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 24})),
    "mistral": (MistralForCausalLM, torch.bfloat16, MistralConfig(**SIZES, sliding_window=5)),
    # A window in the second layer alone, and yarn.
    "qwen2": (Qwen2ForCausalLM, torch.float16, Qwen2Config(
        **SIZES, tie_word_embeddings=True, use_sliding_window=True, sliding_window=6, max_window_layers=1,
        rope_parameters={"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0,
                         "original_max_position_embeddings": 24})),
    "qwen3": (Qwen3ForCausalLM, torch.float32, Qwen3Config(
        **SIZES, head_dim=8, tie_word_embeddings=True,
        rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0})),
    "gemma2": (Gemma2ForCausalLM, torch.float32, Gemma2Config(
        **SIZES, head_dim=8, sliding_window=4, query_pre_attn_scalar=12, attn_logit_softcapping=3.0,
        final_logit_softcapping=5.0)),
}
LENGTHS = (19, 6)
GENERATED = 64


def computed(model, ids):
    with torch.no_grad():
        found = model(input_ids=ids[None], output_attentions=True, output_hidden_states=True)
    return found.hidden_states[-1][0], torch.stack([a[0] for a in found.attentions]), found.logits[0]


def plain_linear(x, weight, bias=None):
    y = torch.zeros(*x.shape[:-1], weight.shape[0], dtype=x.dtype)
    for i in range(weight.shape[1]):
        y += x[..., i:i + 1] * weight[:, i]
    return y if bias is None else y + bias


def computed_plainly(model, ids):
    own, torch.nn.functional.linear = torch.nn.functional.linear, plain_linear
    try:
        return computed(model, ids)
    finally:
        torch.nn.functional.linear = own


def rounded_attention(kept):
    def attend(module, query, key, value, attention_mask, scaling=None, softcap=None, **_):
        query, key, value = (rows.to(kept).float() for rows in (query, key, value))
        groups = query.shape[1] // key.shape[1]
        key, value = (rows.repeat_interleave(groups, 1) for rows in (key, value))
        scores = query @ key.mT * (query.shape[-1] ** -0.5 if scaling is None else scaling)
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        if attention_mask is not None:
            scores = scores + attention_mask
        weights = torch.softmax(scores, -1).to(kept).float()
        return (weights @ value).transpose(1, 2).contiguous(), weights
    return attend


def error_of_rounding(model, ids, exact, kept):
    AttentionInterface.register("rounded", rounded_attention(kept))
    AttentionMaskInterface.register("rounded", eager_mask)
    model.set_attn_implementation("rounded")
    found = computed(model.float(), ids)[2]
    model.set_attn_implementation("eager")
    return (found.double() - exact[2]).abs().max()


def generated(model, ids):
    """The tokens, after a check that no other one has nearly their logits."""
    with torch.no_grad():
        found = model.generate(ids[None], do_sample=False, max_new_tokens=GENERATED, pad_token_id=0,
                               eos_token_id=None)[0]
        logits = model(input_ids=found[None]).logits[0, len(ids) - 1:-1]
    largest = logits.topk(2).values
    assert (largest[:, 0] - largest[:, 1]).min() > 1e-4, "a tie: take another seed"
    return found[len(ids):].clone()


def golden(model):
    model.set_attn_implementation("eager")
    tensors, error, error16 = {}, torch.zeros(3, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    draw = torch.Generator().manual_seed(1)
    for i, length in enumerate(LENGTHS):
        ids = torch.randint(3, 50, (length,), generator=draw)
        singles = computed(model.float(), ids), computed_plainly(model, ids)
        if i == 1:
            tensors["generated"] = generated(model, ids)
        exact = computed(model.double(), ids)
        for part in range(3):
            error[part] = max(error[part], *((single[part].double() - exact[part]).abs().max()
                                             for single in singles))
        for j, kept in enumerate((torch.bfloat16, torch.float16)):
            error16[j] = max(error16[j], error_of_rounding(model, ids, exact, kept))
        tensors |= {f"ids{i}": ids, f"output{i}": exact[0], f"maps{i}": exact[1], f"logits{i}": exact[2]}
    return tensors | {"error": error, "error16": error16}


wrong = []
folder = pathlib.Path(__file__).parent
for name, (kind, dtype, config) in FAMILIES.items():
    torch.manual_seed(7)
    model = kind(config).eval()
    if "--check" not in sys.argv:
        for parameter in model.parameters():  # biases and norms begin as constants
            parameter.data.add_(0.1 * torch.randn_like(parameter))
        model.to(dtype).save_pretrained(folder / name, max_shard_size="20KB" if name == "gemma2" else "1GB")
    model = kind.from_pretrained(folder / name, dtype=dtype).eval()
    if "--check" not in sys.argv:
        save_file(golden(model), folder / name / "golden.safetensors")
        continue
    stored = load_file(folder / name / "golden.safetensors")
    for key, value in golden(model).items():
        if not key.startswith("error") and not torch.allclose(value.double(), stored[key].double(), rtol=0, atol=1e-12):
            wrong.append(f"{name} {key}")
if wrong:
    sys.exit("differs from transformers: " + ", ".join(wrong))
