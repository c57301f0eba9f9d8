#!/usr/bin/env python3
"""nn_test.py RAPT: layers, values and gradients, with torch.nn in float32 and float64; optimisers.

PyTorch computes; a file holds its inputs, parameters, outputs and gradients; the program nn_parity,
built beside the command line, computes the same with rapt and compares: 1e-12 of the largest element
in float64, 1e-5 in float32. Exits with 77 where nn_parity was not built.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file

PROGRAM = Path(sys.argv[1]).resolve().parents[1] / "tests" / "nn" / "nn_parity"
failed, compared = [], 0


def compare(kind, name, inputs, outputs, module, numbers=None, seed=0):
    """inputs, outputs: {name: tensor}; inputs that require a gradient, and outputs, get d_NAME.
    module: the nn.Module whose parameters and gradients are written; numbers: of the layer."""
    torch.manual_seed(seed)
    tensors = {f"n.{key}": torch.tensor(float(value), dtype=torch.float64)
               for key, value in (numbers or {}).items()}
    d_outputs = {f"d_{key}": torch.randn_like(y) for key, y in outputs.items()}
    torch.autograd.backward(list(outputs.values()), list(d_outputs.values()))
    tensors |= {key: x.detach() for key, x in (inputs | outputs).items()} | d_outputs
    tensors |= {f"d_{key}": x.grad for key, x in inputs.items() if x.grad is not None}
    if module is not None:
        for key, p in module.named_parameters():
            tensors[f"p.{key}"] = p.detach()
            if p.grad is not None:
                tensors[f"g.{key}"] = p.grad
    run(kind, name, tensors)


def run(kind, name, tensors):
    """Has nn_parity compute and compare what a file of these tensors says."""
    global compared
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "given.safetensors"
        save_file({key: x.contiguous().clone() for key, x in tensors.items()}, file)
        done = subprocess.run([PROGRAM, kind, file], capture_output=True, text=True)
    compared += 1
    if done.returncode != 0:
        failed.append(name)
        print(f"{name}: nn_parity {kind} exited with {done.returncode}\n{done.stdout}{done.stderr}")


def leaf(*shape, dtype):
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def linear(dtype):
    forms = [lambda z: z, torch.relu, torch.nn.functional.gelu,
             lambda z: torch.nn.functional.gelu(z, approximate="tanh"), torch.nn.functional.silu]
    for activation, form in enumerate(forms):
        for rows, inside, outside, bias in ((3, 5, 7, True), (64, 300, 33, False)):
            module = torch.nn.Linear(inside, outside, bias=bias, dtype=dtype)
            x = leaf(2, rows, inside, dtype=dtype)
            compare("linear", f"linear {inside} to {outside}, activation {activation}, {dtype}",
                    {"x": x}, {"y": form(module(x))}, module, {"activation": activation})


def norms(dtype):
    for shape in ((3, 5), (2, 70, 130), (1, 3), (4, 1000)):
        for affine, bias in ((True, True), (True, False), (False, False)):
            module = torch.nn.LayerNorm(shape[-1], eps=1e-4, elementwise_affine=affine, bias=bias,
                                        dtype=dtype)
            x = leaf(*shape, dtype=dtype)
            if affine:
                torch.nn.init.normal_(module.weight)
            if bias:
                torch.nn.init.normal_(module.bias)
            compare("layer_norm", f"layer_norm {shape}, affine {affine}, bias {bias}, {dtype}",
                    {"x": x}, {"y": module(x)}, module, {"epsilon": 1e-4})
        for affine in (True, False):
            module = torch.nn.RMSNorm(shape[-1], eps=1e-6, elementwise_affine=affine, dtype=dtype)
            x = leaf(*shape, dtype=dtype)
            if affine:
                torch.nn.init.normal_(module.weight)
            compare("rms_norm", f"rms_norm {shape}, affine {affine}, {dtype}", {"x": x},
                    {"y": module(x)}, module, {"epsilon": 1e-6})


def embedding(dtype):
    for count, features, shape in ((7, 5, (2, 9)), (1, 1, (1,)), (50, 33, (700,))):
        module = torch.nn.Embedding(count, features, dtype=dtype)
        tokens = torch.randint(count, shape)
        compare("embedding", f"embedding {count} by {features}, {dtype}", {"tokens": tokens},
                {"y": module(tokens)}, module)


def gated(dtype):
    functions = torch.nn.functional
    forms = [lambda z: z, torch.relu, functions.gelu,
             lambda z: functions.gelu(z, approximate="tanh"), functions.silu]
    for activation, form in enumerate(forms):
        for rows, n in ((3, 5), (64, 37)):
            x = leaf(2, rows, 2 * n, dtype=dtype)
            gate, up = x.chunk(2, dim=-1)
            compare("gated", f"gated activation {activation}, {n}, {dtype}", {"x": x},
                    {"y": form(gate) * up}, None, {"activation": activation})


def losses(dtype):
    functions = torch.nn.functional
    for classes in (1, 2, 33, 5000):
        for ignore, smoothing, reduction in ((-100, 0, "mean"), (0, 0.1, "mean"), (1, 0.3, "sum")):
            options = {"ignore_index": ignore, "label_smoothing": smoothing, "reduction": reduction}
            numbers = {"ignore_index": ignore, "label_smoothing": smoothing,
                       "sum": reduction == "sum"}
            targets = torch.randint(classes, (2, 20))
            targets[0, 0], targets[1, 1] = ignore, classes - 1
            if ignore == classes - 1:  # a mean of no rows
                continue
            name = f"of {classes} classes, {options}, {dtype}"
            x = leaf(2, 20, classes, dtype=dtype)
            loss = functions.cross_entropy(x.flatten(0, 1), targets.flatten(), **options)
            compare("cross_entropy", "cross_entropy " + name, {"x": x, "targets": targets},
                    {"loss": loss}, None, numbers)
            x = leaf(2, 20, 24, dtype=dtype)
            module = torch.nn.Linear(24, classes, bias=False, dtype=dtype)
            loss = functions.cross_entropy(module(x).flatten(0, 1), targets.flatten(), **options)
            compare("linear_cross_entropy", "linear_cross_entropy " + name,
                    {"x": x, "targets": targets}, {"loss": loss}, module, numbers)
    for shape in ((1,), (3, 7), (2, 20000)):
        x, target = leaf(*shape, dtype=dtype), torch.randn(*shape, dtype=dtype)
        compare("mean_squared_error", f"mse_loss {shape}, {dtype}", {"x": x, "target": target},
                {"loss": functions.mse_loss(x, target)}, None)


def adam(dtype):
    """20 steps with clipped gradients, a group each for weight and bias, rates that change."""
    forms = [(torch.optim.Adam, {}), (torch.optim.AdamW, {}),
             (torch.optim.Adam, {"weight_decay": 0.1, "betas": (0.8, 0.95), "eps": 1e-5}),
             (torch.optim.AdamW, {"weight_decay": 0.1, "betas": (0.0, 0.9)})]
    for optimiser, options in forms:
        module = torch.nn.Linear(33, 7, dtype=dtype)
        tensors = {"x": torch.zeros(1, dtype=dtype)}
        tensors |= {f"p.{key}": p.detach().clone() for key, p in module.named_parameters()}
        stepped = optimiser([{"params": [module.weight]},
                             {"params": [module.bias], "weight_decay": 0.0}], **options)
        group = stepped.param_groups[0]
        numbers = {"decoupled": optimiser is torch.optim.AdamW, "eps": group["eps"],
                   "beta1": group["betas"][0], "beta2": group["betas"][1],
                   "weight_decay": group["weight_decay"], "max_norm": 15.0}
        norms = []
        for step in range(20):
            numbers[f"rate.{step}"] = 0.01 / (1 + step)
            for key, p in module.named_parameters():
                p.grad = torch.randn_like(p) * (1 + step % 3) / 2
                tensors[f"gradient.{step}.{key}"] = p.grad.clone()
            norms.append(torch.nn.utils.clip_grad_norm_(module.parameters(), 15.0))
            for each in stepped.param_groups:
                each["lr"] = numbers[f"rate.{step}"]
            stepped.step()
        tensors["norms"] = torch.stack(norms)
        for key, p in module.named_parameters():
            tensors |= {key: p.detach(), f"{key}.exp_avg": stepped.state[p]["exp_avg"],
                        f"{key}.exp_avg_sq": stepped.state[p]["exp_avg_sq"]}
        tensors |= {f"n.{key}": torch.tensor(float(value), dtype=torch.float64)
                    for key, value in numbers.items()}
        run("adam", f"{optimiser.__name__} {options} {dtype}", tensors)
def numbers_of_heads(heads, kv_heads=None, causal=False, add_zero_attn=False):
    return {"num_heads": heads, "num_kv_heads": kv_heads or heads, "causal": causal,
            "add_zero_attn": add_zero_attn}


def multi_head_attention(dtype):
    """nn.MultiheadAttention. True in its masks means masked, in rapt's that a query may attend."""
    batch, length, k_len, width, heads = 2, 7, 9, 12, 3
    forms = {"self": {}, "without biases": {"bias": False}, "bias_k": {"add_bias_kv": True},
             "zero_attn": {"add_zero_attn": True}, "cross": {"cross": True},
             "cross with bias_k": {"cross": True, "add_bias_kv": True},
             "kdim and vdim": {"cross": True, "kdim": 5, "vdim": 10},
             "kdim, vdim, bias_k": {"cross": True, "kdim": 5, "vdim": 10, "add_bias_kv": True}}
    for form, arguments in forms.items():
        cross = arguments.pop("cross", False)
        for mask in ("none", "attn_mask", "key_padding_mask", "both"):
            module = torch.nn.MultiheadAttention(width, heads, batch_first=True, dtype=dtype, **arguments)
            for p in module.parameters():
                torch.nn.init.normal_(p, std=0.4)
            inputs = {"x": leaf(batch, length, width, dtype=dtype)}
            if cross:
                inputs["key_value"] = leaf(batch, k_len, arguments.get("kdim", width), dtype=dtype)
                if "vdim" in arguments:
                    inputs["value"] = leaf(batch, k_len, arguments["vdim"], dtype=dtype)
            key = inputs.get("key_value", inputs["x"])
            keys = key.shape[1]
            masks = {}
            if mask in ("attn_mask", "both"):
                inputs["allowed"] = torch.rand(length, keys) < 0.6
                inputs["allowed"][:, 0] = True  # PyTorch gives NaN for a query that attends to nothing
                masks["attn_mask"] = ~inputs["allowed"]
            if mask in ("key_padding_mask", "both"):
                inputs["padding"] = torch.arange(keys) >= torch.tensor([keys, keys - 3])[:, None]
                masks["key_padding_mask"] = inputs["padding"]
            y, weights = module(inputs["x"], key, inputs.get("value", key), need_weights=True,
                                average_attn_weights=False, **masks)
            if not arguments.get("add_zero_attn"):  # whose weights have a column for the key of zeros
                inputs["weights"] = weights.detach()
            compare("multi_head_attention", f"MHA {form}, mask {mask}, {dtype}", inputs, {"y": y},
                    module, numbers_of_heads(heads, add_zero_attn=arguments.get("add_zero_attn", False)))


class GroupedAttention(torch.nn.Module):
    """Projections around F.scaled_dot_product_attention with fewer key heads."""

    def __init__(self, width, heads, kv_heads, bias, dtype):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, width // heads
        kv = kv_heads * self.head_dim
        make = lambda *shape: torch.nn.Parameter(0.4 * torch.randn(*shape, dtype=dtype))
        self.in_proj_weight = make(width + 2 * kv, width)
        self.in_proj_bias = make(width + 2 * kv) if bias else None
        self.out_proj = torch.nn.Linear(width, width, bias=bias, dtype=dtype)

    def forward(self, x, causal):
        kv = self.kv_heads * self.head_dim
        q, k, v = torch.nn.functional.linear(x, self.in_proj_weight, self.in_proj_bias).split(
            [x.shape[-1], kv, kv], dim=-1)
        split = lambda t: t.unflatten(-1, (-1, self.head_dim)).transpose(-2, -3)
        o = torch.nn.functional.scaled_dot_product_attention(
            split(q), split(k), split(v), is_causal=causal, enable_gqa=True)
        return self.out_proj(o.transpose(-2, -3).flatten(-2))


def grouped_attention(dtype):
    for heads, kv_heads in ((4, 4), (4, 2), (6, 1)):
        for causal in (False, True):
            for length in (1, 5, 130):
                module = GroupedAttention(24, heads, kv_heads, kv_heads != 1, dtype)
                x = leaf(2, length, 24, dtype=dtype)
                compare("multi_head_attention",
                        f"SDPA {heads}/{kv_heads} heads, causal {causal}, length {length}, {dtype}",
                        {"x": x}, {"y": module(x, causal)}, module,
                        numbers_of_heads(heads, kv_heads, causal))


def conv1d(dtype):
    F = torch.nn.functional
    # in, out, kernel, groups, stride, dilation, bias, zeros before and after a sequence
    for inside, outside, kernel, groups, stride, dilation, bias, left, right in (
            (5, 7, 3, 1, 1, 1, True, 1, 1), (4, 6, 4, 1, 1, 2, False, 3, 3),
            (8, 6, 3, 2, 2, 1, True, 2, 0), (9, 9, 1, 1, 1, 1, True, 0, 0),
            (40, 40, 31, 40, 1, 1, True, 15, 15), (6, 6, 4, 6, 1, 3, False, 9, 0),
            (5, 5, 5, 5, 2, 1, True, 0, 0), (80, 64, 3, 1, 2, 1, True, 1, 1)):
        module = torch.nn.Conv1d(inside, outside, kernel, stride=stride, dilation=dilation,
                                 groups=groups, bias=bias, dtype=dtype)
        x = leaf(3, 45, inside, dtype=dtype)
        y = module(F.pad(x.transpose(1, 2), (left, right))).transpose(1, 2)
        compare("conv1d", f"conv1d {inside} to {outside}, kernel {kernel}, groups {groups}, {dtype}",
                {"x": x}, {"y": y}, module,
                {"groups": groups, "stride": stride, "dilation": dilation, "left": left,
                 "right": right})


def gru(dtype):
    for inside, hidden, layers, both, bias, begins in (
            (5, 7, 1, False, True, False), (16, 24, 1, True, True, True),
            (6, 9, 3, False, False, True), (10, 33, 2, True, True, True)):
        module = torch.nn.GRU(inside, hidden, num_layers=layers, bidirectional=both, bias=bias,
                              batch_first=True, dtype=dtype)
        x = leaf(3, 20, inside, dtype=dtype)
        h0 = leaf(layers * (1 + both), 3, hidden, dtype=dtype) if begins else None
        y, h_n = module(x, h0)
        compare("gru", f"gru {inside} to {hidden}, {layers} layers, bidirectional {both}, {dtype}",
                {"x": x} | ({"h0": h0} if begins else {}), {"y": y, "h_n": h_n}, module,
                {"layers": layers, "bidirectional": both, "bias": bias})


def glu(dtype):
    x = leaf(4, 9, 38, dtype=dtype)
    compare("glu", f"glu {dtype}", {"x": x}, {"y": torch.nn.functional.glu(x)}, None)


def patches(dtype):
    x = leaf(2, 3, 12, 20, dtype=dtype)
    y = torch.nn.functional.unfold(x, (4, 5), stride=(4, 5)).transpose(1, 2)
    compare("patches", f"patches {dtype}", {"x": x}, {"y": y}, None, {"height": 4, "width": 5})


def blocks(dtype):
    for norm_first in (False, True):
        for activation in ("relu", "gelu"):
            numbers = {"heads": 3, "norm_first": norm_first, "gelu": activation == "gelu"}
            arguments = dict(dropout=0.0, activation=activation, batch_first=True,
                             norm_first=norm_first, dtype=dtype)
            name = f"{activation}, norm {'first' if norm_first else 'last'}, {dtype}"
            for causal in (False, True):
                module = torch.nn.TransformerEncoderLayer(24, 3, 40, **arguments)
                x = leaf(2, 19, 24, dtype=dtype)
                masked = torch.triu(torch.ones(19, 19, dtype=torch.bool), 1) if causal else None
                compare("encoder_layer", f"encoder layer, {name}", {"x": x},
                        {"y": module(x, src_mask=masked)}, module, numbers | {"causal": causal})
            module = torch.nn.TransformerDecoderLayer(24, 3, 40, **arguments)
            x, memory = leaf(2, 19, 24, dtype=dtype), leaf(2, 11, 24, dtype=dtype)
            masked = torch.triu(torch.ones(19, 19, dtype=torch.bool), 1)
            compare("decoder_layer", f"decoder layer, {name}", {"x": x, "memory": memory},
                    {"y": module(x, memory, tgt_mask=masked)}, module, numbers)


def sinusoids(length, features, dtype):
    """Vaswani et al. 2017, section 3.5."""
    even = torch.arange(0, features, 2, dtype=torch.float64)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * 10000.0 ** (-even / features)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2).to(dtype)


class Translator(torch.nn.Module):
    """nn.Transformer between tables of tokens and a head."""

    def __init__(self, layers, learned, shared, tied, scaled, dtype, **arguments):
        super().__init__()
        width = 24
        transformer = torch.nn.Transformer(width, 3, *layers, 40, dropout=0.0, batch_first=True,
                                           dtype=dtype, **arguments)
        self.encoder, self.decoder = transformer.encoder, transformer.decoder
        self.transformer = [transformer]  # in a list: its parameters have one name each
        table = lambda count: torch.nn.Embedding(count, width, dtype=dtype)
        self.target_embedding = table(13)
        self.source_embedding = self.target_embedding if shared else table(17)
        self.source_positions = table(64) if learned else None
        self.target_positions = table(64) if learned else None
        self.head = None if tied else torch.nn.Linear(width, 13, dtype=dtype)
        self.scale = width ** 0.5 if scaled else 1
        for name, p in self.named_parameters():
            if p.dim() == 1:  # biases, and norms, whose weights stay near 1
                p.data += 0.2 * torch.randn_like(p)
            elif "coder" not in name:  # the tables; matrices of nn.Transformer stay as they are
                torch.nn.init.normal_(p, std=0.4)

    def rows(self, table, positions, tokens):
        x = self.scale * table(tokens)
        if positions is None:
            return x + sinusoids(tokens.shape[1], x.shape[2], x.dtype)
        return x + positions(torch.arange(tokens.shape[1]))

    def forward(self, source, target, lengths):
        length = target.shape[1]
        padding = torch.arange(source.shape[1]) >= lengths[:, None]
        y = self.transformer[0](
            self.rows(self.source_embedding, self.source_positions, source),
            self.rows(self.target_embedding, self.target_positions, target),
            tgt_mask=torch.triu(torch.ones(length, length, dtype=torch.bool), 1),
            src_key_padding_mask=padding, memory_key_padding_mask=padding)
        if self.head is None:
            return torch.nn.functional.linear(y, self.target_embedding.weight)
        return self.head(y)


def encoder_decoder(dtype):
    for layers in ((1, 1), (2, 3)):
        for norm_first in (False, True):
            for learned, shared, tied, scaled in ((False, False, True, True), (True, True, True, False),
                                                  (True, False, False, True)):
                activation = "gelu" if learned else "relu"
                module = Translator(layers, learned, shared, tied, scaled, dtype,
                                    activation=activation, norm_first=norm_first)
                inputs = {"source": torch.randint(13, (2, 19)), "target": torch.randint(13, (2, 11)),
                          "lengths": torch.tensor([19, 12])}
                numbers = {"encoder_layers": layers[0], "decoder_layers": layers[1], "heads": 3,
                           "norm_first": norm_first, "gelu": learned, "learned": learned,
                           "shared": shared, "tied": tied, "scaled": scaled}
                compare("encoder_decoder", f"encoder and decoder, {numbers}, {dtype}", inputs,
                        {"logits": module(**inputs)}, module, numbers)


class ConvolutionModule(torch.nn.Module):
    """Gulati et al. 2020, figure 2, with a LayerNorm over channels instead of batch normalisation."""

    def __init__(self, channels, kernel, causal, dtype):
        super().__init__()
        reach = kernel - 1
        self.zeros = (reach, 0) if causal else (reach // 2, reach // 2)
        self.layer_norm = torch.nn.LayerNorm(channels, dtype=dtype)
        self.pointwise_conv1 = torch.nn.Conv1d(channels, 2 * channels, 1, dtype=dtype)
        self.depthwise_conv = torch.nn.Conv1d(channels, channels, kernel, groups=channels, dtype=dtype)
        self.norm = torch.nn.LayerNorm(channels, dtype=dtype)
        self.pointwise_conv2 = torch.nn.Conv1d(channels, channels, 1, dtype=dtype)

    def forward(self, x):
        rows = self.pointwise_conv1(self.layer_norm(x).transpose(1, 2))  # [batch, 2 channels, length]
        gated = torch.nn.GLU(dim=1)(rows)
        mixed = self.depthwise_conv(torch.nn.functional.pad(gated, self.zeros))
        hidden = torch.nn.SiLU()(self.norm(mixed.transpose(1, 2)))
        return self.pointwise_conv2(hidden.transpose(1, 2)).transpose(1, 2)


class ConformerBlock(torch.nn.Module):
    """Gulati et al. 2020, section 2.4, without dropout."""

    def __init__(self, width, heads, hidden, kernel, causal, dtype):
        super().__init__()
        norm = lambda: torch.nn.LayerNorm(width, dtype=dtype)
        network = lambda: torch.nn.ModuleDict({
            "linear1": torch.nn.Linear(width, hidden, dtype=dtype),
            "linear2": torch.nn.Linear(hidden, width, dtype=dtype)})
        self.ffn1_layer_norm, self.ffn1 = norm(), network()
        self.self_attn_layer_norm = norm()
        self.self_attn = torch.nn.MultiheadAttention(width, heads, batch_first=True, dtype=dtype)
        self.conv_module = ConvolutionModule(width, kernel, causal, dtype)
        self.ffn2_layer_norm, self.ffn2 = norm(), network()
        self.final_layer_norm = norm()
        for p in self.parameters():
            torch.nn.init.normal_(p, std=0.4)

    def forward(self, x, masked, padding):
        run = lambda network, z: network["linear2"](
            torch.nn.functional.silu(network["linear1"](z)))
        a = x + 0.5 * run(self.ffn1, self.ffn1_layer_norm(x))
        z = self.self_attn_layer_norm(a)
        b = a + self.self_attn(z, z, z, attn_mask=masked, key_padding_mask=padding,
                               need_weights=False)[0]
        c = b + self.conv_module(b)
        return self.final_layer_norm(c + 0.5 * run(self.ffn2, self.ffn2_layer_norm(c)))


def conformer(dtype):
    for kernel, causal in ((3, False), (7, False), (31, False), (1, True), (4, True), (31, True)):
        for lengths in ((21, 21), (21, 13)):
            module = ConformerBlock(24, 3, 40, kernel, causal, dtype)
            x = leaf(2, 21, 24, dtype=dtype)
            masked = torch.triu(torch.ones(21, 21, dtype=torch.bool), 1) if causal else None
            padding = torch.arange(21) >= torch.tensor(lengths)[:, None]
            compare("conformer_layer",
                    f"Conformer, kernel {kernel}, causal {causal}, lengths {lengths}, {dtype}",
                    {"x": x, "lengths": torch.tensor(lengths)}, {"y": module(x, masked, padding)},
                    module, {"heads": 3, "causal": causal})


if not PROGRAM.exists():
    print(f"{PROGRAM} is not there: build the tests first")
    sys.exit(77)
for dtype in (torch.float32, torch.float64):
    torch.manual_seed(1)
    linear(dtype)
    norms(dtype)
    embedding(dtype)
    gated(dtype)
    losses(dtype)
    adam(dtype)
    multi_head_attention(dtype)
    grouped_attention(dtype)
    conv1d(dtype)
    gru(dtype)
    glu(dtype)
    patches(dtype)
    blocks(dtype)
    conformer(dtype)
    encoder_decoder(dtype)
print(f"{compared - len(failed)} of {compared} cases agree with PyTorch {torch.__version__}")
sys.exit(bool(failed))
