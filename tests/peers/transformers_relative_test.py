#!/usr/bin/env python3
"""transformers_relative_test.py RAPT: relative positions of DeBERTa, DeBERTa-v2, XLNet (those of
Transformer-XL), Wav2Vec2-BERT and VITS (those of Shaw et al.), with Hugging Face's own code of
their attention, random weights, float64: values, and gradients of all that the layers learn.

rapt gets the tables of positions as the layers make them; its gradients go back through what the
layers do to make them. D is such that sqrt(3 D), which layers take in float32, is exact there.
Sums are of at most 2 x 21 x 48 terms of size 1 to 16: what is allowed is that of transformers_test.
"""
import sys

import numpy as np
import torch
from transformers import DebertaConfig, DebertaV2Config, VitsConfig, Wav2Vec2BertConfig, XLNetConfig
from transformers.models.deberta import modeling_deberta
from transformers.models.deberta_v2 import modeling_deberta_v2
from transformers.models.vits import modeling_vits
from transformers.models.wav2vec2_bert import modeling_wav2vec2_bert
from transformers.models.xlnet import modeling_xlnet

from rapt_by_files import Comparison, Rapt

torch.set_default_dtype(torch.float64)
torch.manual_seed(7)
rapt, compare = Rapt(sys.argv[1]), Comparison()
B, H, N, D = 2, 4, 21, 12


def random(*shape):
    return torch.randn(shape).requires_grad_()


def heads(x):
    """[B, H, n, D] of [B, n, H D]."""
    return x.view(*x.shape[:2], H, D).transpose(1, 2)


def agree(name, output, made, learned, *options, numbers=(), mask=None):
    """output [B, H, n, D] of the layer's code; made: query, key, value and the tables that it makes
    of what is learned, by rapt's names."""
    d_output = torch.randn(output.shape)
    wanted = torch.autograd.grad(output, learned.values(), d_output, retain_graph=True)
    arrays = {of: tensor.detach().numpy() for of, tensor in made.items()}
    query, key, value = (arrays.pop(of) for of in ("query", "key", "value"))
    ours = rapt.attend(query, key, value, *options, mask=mask, relative=arrays | dict(numbers),
                       d_output=d_output.numpy())
    compare.close(f"{name}: output", ours["output"], output.detach(), 1e-11)
    got = torch.autograd.grad(list(made.values()), learned.values(),
                              [torch.tensor(ours["d_" + of]) for of in made])
    for what, one, other in zip(learned, got, wanted):
        compare.close(f"{name}: gradient of {what}", one, other, 1e-10)


def buckets():
    """The row of every distance: two heads, whose queries see the first key or the last one alone.

    256 to 512 is what published models have. Where a ratio is an exact power, as distance 128 for
    128 buckets to 513, float32 may give another row than double, which is what rapt has."""
    for rows, last, n in ((256, 512, 700), (32, 128, 300), (6, 16, 60), (8, 33, 60), (64, 200, 99)):
        zero = np.zeros((2, n, 1))
        mask = np.zeros((2, n, n), bool)
        mask[0, :, 0] = mask[1, :, -1] = True
        numbered = np.arange(2.0 * rows)[:, None]
        ours = rapt.attend(zero, zero, zero, mask=mask, relative={
            "value_rows": numbered, "center": rows - 1, "exact": rows // 2, "max_distance": last})
        query, keys = torch.arange(n), torch.tensor([0, n - 1])[:, None]
        for dtype in (torch.float32, torch.float64):  # models have it in float32
            torch.set_default_dtype(dtype)
            bucket = modeling_deberta_v2.make_log_bucket_position(query - keys, rows, last)
            wanted = 2 * rows - 1 - (bucket + rows).clamp(0, 2 * rows - 1)  # they count i - j
            compare.close(f"rows of {rows} buckets to {last}", ours["output"][..., 0], wanted, 0)


def deberta_scale(terms):
    return "--scale", repr(1 / float(np.sqrt(np.float32(terms * D))))


def deberta():
    """A row for each distance, clipped."""
    span = 8
    config = DebertaConfig(hidden_size=H * D, num_attention_heads=H, pos_att_type=["c2p", "p2c"],
                           relative_attention=True, max_relative_positions=span,
                           attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.0)
    layer = modeling_deberta.DisentangledSelfAttention(config).double().eval()
    hidden, positions = random(B, N, H * D), random(2 * span, H * D)
    allowed = (torch.rand(B, 1, N, N) < 0.6) | torch.eye(N, dtype=torch.bool)
    q, k, v = layer.transpose_for_scores(layer.in_proj(hidden)).chunk(3, dim=-1)
    made = {"query": q + layer.q_bias.view(H, 1, D), "key": k,
            "value": v + layer.v_bias.view(H, 1, D),
            "key_rows": heads(layer.pos_proj(positions[None])).flip(-2),
            "query_rows": heads(layer.pos_q_proj(positions[None])).flip(-2)}
    output = layer(hidden, allowed, rel_embeddings=positions,
                   relative_pos=modeling_deberta.build_relative_position(q, k))[0]
    agree("DeBERTa", heads(output), made,
          {"hidden": hidden, "positions": positions} | dict(layer.named_parameters()),
          *deberta_scale(3), numbers={"center": span - 1}, mask=allowed.numpy())


def deberta_v2(rows, last, shared, terms):
    """Distances on a log scale; tables made by projections of their own or those of the content."""
    config = DebertaV2Config(hidden_size=H * D, num_attention_heads=H, pos_att_type=terms,
                             relative_attention=True, position_buckets=rows,
                             max_relative_positions=last, share_att_key=shared,
                             attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.0)
    layer = modeling_deberta_v2.DisentangledSelfAttention(config).eval()
    hidden, positions = random(B, N, H * D), random(2 * rows, H * D)
    allowed = (torch.rand(B, 1, N, N) < 0.6) | torch.eye(N, dtype=torch.bool)
    made = {"query": heads(layer.query_proj(hidden)), "key": heads(layer.key_proj(hidden)),
            "value": heads(layer.value_proj(hidden))}
    if "c2p" in terms:
        project = layer.key_proj if shared else layer.pos_key_proj
        made["key_rows"] = heads(project(positions[None])).flip(-2)
    if "p2c" in terms:
        project = layer.query_proj if shared else layer.pos_query_proj
        made["query_rows"] = heads(project(positions[None])).flip(-2)
    output = layer(hidden, allowed, rel_embeddings=positions)[0]
    name = f"DeBERTa-v2, {' and '.join(terms)}, {rows} buckets to {last}{', shared' * shared}"
    agree(name, heads(output), made,
          {"hidden": hidden, "positions": positions} | dict(layer.named_parameters()),
          *deberta_scale(1 + len(terms)), mask=allowed.numpy(),
          numbers={"center": rows - 1, "exact": rows // 2, "max_distance": last})


def xlnet(attn_type, memory):
    """Rows for i - j from k_len down, i counted behind the memory; shifted as in Transformer-XL."""
    config = XLNetConfig(vocab_size=10, d_model=H * D, n_layer=1, n_head=H, d_inner=8, dropout=0.0,
                         attn_type=attn_type)
    model = modeling_xlnet.XLNetModel(config)
    layer = model.layer[0].rel_attn.double().eval()
    q, k, v = random(N, B, H, D), random(N + memory, B, H, D), random(N + memory, B, H, D)
    sinusoids = model.relative_positional_encoding(N, N + memory, B).double()
    learned = {"q": q, "k": k, "v": v, "r": layer.r, "r_w_bias": layer.r_w_bias,
               "r_r_bias": layer.r_r_bias}
    for parameter in (layer.r, layer.r_w_bias, layer.r_r_bias):
        torch.nn.init.normal_(parameter, std=0.3)
    rows = torch.einsum("pbx,xhd->pbhd", sinusoids, layer.r)
    allowed = torch.rand(B, 1, N, N + memory) < 0.6
    if attn_type == "uni":
        allowed &= torch.ones(N, N + memory, dtype=torch.bool).tril(memory)
    allowed[..., 0] = True
    output = layer.rel_attn_core(q, k, v, rows, attn_mask=(~allowed).permute(2, 3, 0, 1).double())
    by_head = lambda x: x.permute(1, 2, 0, 3)
    made = {"query": by_head(q), "key": by_head(k), "value": by_head(v), "key_rows": by_head(rows),
            "content_bias": layer.r_w_bias, "position_bias": layer.r_r_bias}
    agree(f"XLNet {attn_type}, memory {memory}", by_head(output), made, learned,
          numbers={"center": N + memory, "anchor": "bottom-right"}, mask=allowed.numpy())


def wav2vec2_bert(kind):
    """relative: Transformer-XL's, with rows for i - j from n - 1 to 1 - n. relative_key: one table,
    of which the distances j - i end at -5 and 3."""
    config = Wav2Vec2BertConfig(hidden_size=H * D, num_attention_heads=H, attention_dropout=0.0,
                                position_embeddings_type=kind, max_source_positions=64,
                                left_max_position_embeddings=5, right_max_position_embeddings=3)
    config._attn_implementation = "eager"
    layer = modeling_wav2vec2_bert.Wav2Vec2BertSelfAttention(config).eval()
    layer.linear_out = torch.nn.Identity()  # heads come out
    hidden, positions = random(B, N, H * D), None
    made = {"query": heads(layer.linear_q(hidden)), "key": heads(layer.linear_k(hidden)),
            "value": heads(layer.linear_v(hidden))}
    if kind == "relative":
        for bias in (layer.pos_bias_u, layer.pos_bias_v):
            torch.nn.init.normal_(bias)
        positions = modeling_wav2vec2_bert.Wav2Vec2BertRelPositionalEmbedding(config)(hidden)
        made |= {"key_rows": heads(layer.linear_pos(positions))[0],
                 "content_bias": layer.pos_bias_u, "position_bias": layer.pos_bias_v}
    else:
        made["key_rows"] = layer.distance_embedding.weight
    output = layer(hidden, relative_position_embeddings=positions)[0]
    agree(f"Wav2Vec2-BERT, {kind}", heads(output), made,
          {"hidden": hidden} | dict(layer.named_parameters()),
          numbers={"center": N - 1 if kind == "relative" else 5})


def vits():
    """Tables of keys and values for all heads; beyond the window there is nothing, not the end."""
    config = VitsConfig(hidden_size=H * D, num_attention_heads=H, window_size=4,
                        attention_dropout=0.0)
    layer = modeling_vits.VitsAttention(config).eval()
    layer.out_proj = torch.nn.Identity()  # heads come out
    hidden = random(B, N, H * D)
    ended = lambda rows: torch.nn.functional.pad(rows[0], (0, 0, 1, 1))
    made = {"query": heads(layer.q_proj(hidden)), "key": heads(layer.k_proj(hidden)),
            "value": heads(layer.v_proj(hidden)), "key_rows": ended(layer.emb_rel_k),
            "value_rows": ended(layer.emb_rel_v)}
    agree("VITS", heads(layer(hidden)[0]), made,
          {"hidden": hidden} | dict(layer.named_parameters()))


buckets()
deberta()
for bounds in ((6, 16), (8, 33), (16, 512)):
    for shared in (False, True):
        deberta_v2(*bounds, shared, ["c2p", "p2c"])
deberta_v2(6, 16, False, ["c2p"])
deberta_v2(6, 16, False, ["p2c"])
xlnet("bi", 0)
xlnet("bi", 9)
xlnet("uni", 9)
wav2vec2_bert("relative")
wav2vec2_bert("relative_key")
vits()
compare.exit()
