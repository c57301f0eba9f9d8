#!/usr/bin/env python3
"""nn_test.py RAPT: layers, values and gradients, with torch.nn in float32 and float64.

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
    global compared
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
print(f"{compared - len(failed)} of {compared} layers agree with PyTorch {torch.__version__}")
sys.exit(bool(failed))
