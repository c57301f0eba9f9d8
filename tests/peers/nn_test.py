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


if not PROGRAM.exists():
    print(f"{PROGRAM} is not there: build the tests first")
    sys.exit(77)
for dtype in (torch.float32, torch.float64):
    torch.manual_seed(1)
    linear(dtype)
    conv1d(dtype)
    gru(dtype)
    glu(dtype)
    patches(dtype)
print(f"{compared - len(failed)} of {compared} layers agree with PyTorch {torch.__version__}")
sys.exit(bool(failed))
