#!/usr/bin/env python3
"""transformers_bigbird_test.py RAPT: BigBird's block-sparse attention, by Hugging Face's own code of
its layer, beside the mask `blocks` with the lists of the same layout, float64: values, and gradients
of query, key and value.

The random blocks are drawn here, none that a row attends to already: the layer would count it twice.
Its padding adds -10000 to scores; there is none here. Sums are of at most 160 terms of size 1 to 16:
what is allowed is that of transformers_test.
"""
import sys
import tempfile

import numpy as np
import torch
from transformers import BigBirdConfig
from transformers.models.big_bird import modeling_big_bird

from rapt_by_files import Comparison, Rapt

torch.set_default_dtype(torch.float64)
torch.manual_seed(7)
draw = np.random.default_rng(7)
rapt, compare = Rapt(sys.argv[1]), Comparison()
B, H, D, BLOCK = 2, 3, 12, 8


def near(row, blocks):
    """The blocks of a row but for random ones (docs/variants/bigbird.md)."""
    if row in (0, blocks - 1):
        return list(range(blocks))
    return sorted({0, row - 1, row, row + 1, blocks - 1})


def lists(random_blocks, blocks):
    """starts [1, H, blocks + 1] and indices of random_blocks [H, blocks - 2, r]."""
    starts, indices = np.zeros((1, H, blocks + 1), np.int64), []
    for head in range(H):
        starts[0, head, 0] = len(indices)
        for row in range(blocks):
            drawn = random_blocks[head, row - 1] if 0 < row < blocks - 1 else []
            indices += sorted(near(row, blocks) + [int(block) for block in drawn])
            starts[0, head, row + 1] = len(indices)
    return starts, np.array(indices)


def bigbird(blocks, random):
    n = blocks * BLOCK
    config = BigBirdConfig(hidden_size=H * D, num_attention_heads=H, block_size=BLOCK,
                           num_random_blocks=random, max_position_embeddings=n)
    layer = modeling_big_bird.BigBirdBlockSparseAttention(config).double().eval()
    adjacency = np.array([[draw.permutation([b for b in range(blocks) if b not in near(row, blocks)])
                           [:random] for row in range(1, blocks - 1)] for _ in range(H)])
    layer._bigbird_block_rand_mask_with_head = lambda **_: adjacency
    layer._get_rand_attn_plan = lambda *_: ([n], [random])
    model = modeling_big_bird.BigBirdModel
    blocked, band, of_queries, of_keys = model.create_masks_for_block_sparse_attn(
        torch.ones(B, n), BLOCK)
    query, key, value = (torch.randn(B, H, n, D).requires_grad_() for _ in range(3))
    output, _ = layer.bigbird_block_sparse_attention(
        query, key, value, band, of_queries, of_keys, blocked, blocked, H, random, D, BLOCK, BLOCK,
        B, n, n, seed=None, plan_from_length=None, plan_num_rand_blocks=None)
    output = output.transpose(1, 2)
    d_output = torch.randn(output.shape)
    output.backward(d_output)
    with tempfile.TemporaryDirectory() as folder:
        for name, array in zip(("starts", "indices"), lists(adjacency, blocks)):
            np.save(f"{folder}/{name}.npy", array)
        ours = rapt.attend(
            query.detach().numpy(), key.detach().numpy(), value.detach().numpy(), "--mask",
            f"blocks({BLOCK},{BLOCK},{folder}/starts.npy,{folder}/indices.npy)",
            d_output=d_output.numpy())
    name = f"{blocks} blocks, {random} random"
    compare.close(f"{name}: output", ours["output"], output.detach(), 1e-11)
    compare.gradients(name, ours, 1e-10, d_query=query, d_key=key, d_value=value)


for count, of_them in ((10, 1), (13, 3), (20, 3)):
    bigbird(count, of_them)
compare.exit()
