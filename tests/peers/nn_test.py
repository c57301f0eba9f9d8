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


if not PROGRAM.exists():
    print(f"{PROGRAM} is not there: build the tests first")
    sys.exit(77)
for dtype in (torch.float32, torch.float64):
    torch.manual_seed(1)
    linear(dtype)
    adam(dtype)
print(f"{compared - len(failed)} of {compared} cases agree with PyTorch {torch.__version__}")
sys.exit(bool(failed))
