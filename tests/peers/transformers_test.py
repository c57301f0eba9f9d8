#!/usr/bin/env python3
"""transformers_test.py RAPT: layers of T5, DeBERTa, Gemma 2, gpt-oss and Llama 3 of Hugging Face, with
random weights in float64: their scores, biases and masks, values and gradients.

What the layers add to the scores is made by the layers' own code and given to rapt as a bias, so
that its gradient flows on into their tables of positions.
"""
import sys
import types

import numpy as np
import torch
from transformers import DebertaV2Config, LlamaConfig, T5Config, masking_utils
from transformers.models.deberta_v2 import modeling_deberta_v2
from transformers.models.gemma2 import modeling_gemma2
from transformers.models.gpt_oss import modeling_gpt_oss
from transformers.models.llama import modeling_llama
from transformers.models.t5 import modeling_t5

from rapt_by_files import Comparison, Rapt

torch.set_default_dtype(torch.float64)
torch.manual_seed(7)
rapt, compare = Rapt(sys.argv[1]), Comparison()
B, H, N, D = 2, 4, 21, 8


def arrays(*tensors):
    return [t.detach().numpy() for t in tensors]


def random(*shape):
    return torch.randn(shape).requires_grad_()


def t5():
    """Scores without a scale, plus a learned bias of the bucket of j - i."""
    config = T5Config(d_model=H * D, d_kv=D, num_heads=H, relative_attention_num_buckets=8,
                      relative_attention_max_distance=12, dropout_rate=0.0, is_decoder=True)
    layer = modeling_t5.T5Attention(config, has_relative_attention_bias=True, layer_idx=0).eval()
    hidden, d_output = torch.randn(B, N, H * D), torch.randn(B, N, H * D)
    causal = torch.full((N, N), -torch.inf).triu(1)[None, None]
    output = layer(hidden, mask=causal)[0]
    output.backward(d_output)
    table = layer.relative_attention_bias.weight
    wanted = table.grad.clone()

    split = lambda x: x.view(B, N, H, D).transpose(1, 2)
    q, k, v = (split(p(hidden)) for p in (layer.q, layer.k, layer.v))
    bias = layer.compute_bias(N, N)
    d_heads = split(d_output @ layer.o.weight)
    ours = rapt.attend(*arrays(q, k, v), "--scale", "1", "--mask", "causal",
                       bias=bias.detach().numpy(), d_output=d_heads.detach().numpy())
    joined = torch.tensor(ours["output"]).transpose(1, 2).reshape(B, N, H * D)
    compare.close("T5: output", layer.o(joined).detach(), output.detach(), 1e-11)
    table.grad = None
    bias.backward(torch.tensor(ours["d_bias"]))
    compare.close("T5: gradient of its table", table.grad, wanted, 1e-10)


def deberta():
    """Three products over sqrt(3 d): content with content, with position, and position with it."""
    config = DebertaV2Config(hidden_size=H * D, num_attention_heads=H, pos_att_type=["c2p", "p2c"],
                             relative_attention=True, position_buckets=6,
                             max_relative_positions=16, share_att_key=True,
                             attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.0)
    layer = modeling_deberta_v2.DisentangledSelfAttention(config).eval()
    hidden, positions = torch.randn(B, N, H * D), random(12, H * D)
    d_output = torch.randn(B, N, H * D)
    allowed = (torch.rand(B, 1, N, N) < 0.6) | torch.eye(N, dtype=torch.bool)
    output = layer(hidden, allowed, rel_embeddings=positions)[0]
    output.backward(d_output)
    wanted = positions.grad.clone()

    q, k, v = (layer.transpose_for_scores(p(hidden), H)
               for p in (layer.query_proj, layer.key_proj, layer.value_proj))
    bias = layer.disentangled_attention_bias(q, k, None, positions, 3)
    scale = 1 / modeling_deberta_v2.scaled_size_sqrt(q, 3).item()  # which it has in float32
    heads = lambda x: x.reshape(B, H, N, -1)
    d_heads = d_output.view(B, N, H, D).transpose(1, 2)
    ours = rapt.attend(*arrays(heads(q), heads(k), heads(v)), "--scale", repr(scale),
                       mask=allowed.numpy(), bias=heads(bias).detach().numpy(),
                       d_output=d_heads.numpy())
    joined = torch.tensor(ours["output"]).transpose(1, 2).reshape(B, N, H * D)
    compare.close("DeBERTa: output", joined, output.detach(), 1e-11)
    # Positions also stand in the content's products of the layer; here only the bias has them.
    positions.grad = None
    bias.backward(torch.tensor(ours["d_bias"]).reshape(bias.shape))
    compare.close("DeBERTa: gradient of its positions", positions.grad, wanted, 1e-10)


def through(name, attend, *options, tolerance, kv_heads=H):
    """An eager_attention_forward [B, H, N, D] -> [B, N, H, D], and its gradients."""
    q, k, v = random(B, H, N, D), random(B, kv_heads, N, D), random(B, kv_heads, N, D)
    d_output = torch.randn(B, H, N, D)
    output = attend(q, k, v).transpose(1, 2)
    output.backward(d_output)
    ours = rapt.attend(*arrays(q, k, v), *options, d_output=d_output.numpy())
    compare.close(f"{name}: output", ours["output"], output.detach(), tolerance)
    for member, leaf in (("d_query", q), ("d_key", k), ("d_value", v)):
        compare.close(f"{name}: {member}", ours[member], leaf.grad, 4 * tolerance)


def visible(function):
    """The pairs of a mask function of masking_utils."""
    return torch.tensor([[bool(function(*map(torch.tensor, (0, 0, i, j)))) for j in range(N)]
                         for i in range(N)])


def additive(pairs):
    return torch.zeros(N, N).masked_fill(~pairs, torch.finfo(torch.float64).min)[None, None]


def gemma2():
    """Softcap 50 in the model, 1.5 here, where it matters; sliding windows count themselves."""
    module = types.SimpleNamespace(head_dim=D, num_key_value_groups=2, training=False)
    pairs = visible(masking_utils.sliding_window_causal_mask_function(5))
    through("Gemma 2", lambda q, k, v: modeling_gemma2.eager_attention_forward(
        module, q, k, v, additive(pairs), scaling=D ** -0.5, softcap=1.5)[0],
        "--softcap", "1.5", "--mask", "causal", "--mask", "window:4,0", kv_heads=2,
        tolerance=1e-6)  # its softmax is in float32


def gpt_oss():
    """A learned sink per head: a key more, of the sink's score and of value 0."""
    sinks = random(H)
    module = types.SimpleNamespace(sinks=sinks, num_key_value_groups=1, training=False)
    q, k, v, d_output = (torch.randn(B, H, N, D) for _ in range(4))
    pairs = visible(masking_utils.causal_mask_function)
    output = modeling_gpt_oss.eager_attention_forward(
        module, q, k, v, additive(pairs), scaling=D ** -0.5)[0].transpose(1, 2)
    output.backward(d_output)

    zero = torch.zeros(B, H, 1, D)
    bias = torch.zeros(H, 1, N + 1)
    bias[:, 0, N] = sinks.detach()
    mask = np.concatenate([pairs.numpy(), np.ones((N, 1), bool)], axis=1)
    ours = rapt.attend(*arrays(q, torch.cat([k, zero], 2), torch.cat([v, zero], 2)),
                       mask=mask, bias=bias.numpy(), d_output=d_output.numpy())
    compare.close("gpt-oss: output", ours["output"], output.detach(), 1e-11)
    compare.close("gpt-oss: d_sinks", ours["d_bias"][:, 0, N], sinks.grad, 1e-10)


def llama3():
    """Rotary embedding with the scaling of Llama 3.1, whose tables are in float32."""
    parameters = {"rope_type": "llama3", "rope_theta": 1000.0, "factor": 8.0,
                  "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                  "original_max_position_embeddings": 32}
    config = LlamaConfig(hidden_size=H * D, num_attention_heads=H, num_key_value_heads=2,
                         rope_parameters=parameters)
    cos, sin = modeling_llama.LlamaRotaryEmbedding(config)(torch.ones(1), torch.arange(N)[None])
    module = types.SimpleNamespace(num_key_value_groups=2, training=False)
    causal = additive(visible(masking_utils.causal_mask_function))

    def attend(q, k, v):
        q, k = modeling_llama.apply_rotary_pos_emb(q, k, cos, sin)
        return modeling_llama.eager_attention_forward(module, q, k, v, causal, D ** -0.5)[0]
    through("Llama 3", attend, "--mask", "causal", "--rotary",
            "theta=1000,scaling=llama3,factor=8,original_length=32", kv_heads=2, tolerance=1e-5)


for layer in (t5, deberta, gemma2, gpt_oss, llama3):
    layer()
compare.exit()
