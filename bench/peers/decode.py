"""rapt beside PyTorch and ONNX Runtime where a model writes: one query per head against all keys of
a cache. The problems, the goals and the table's rows.

PyTorch is called with enable_gqa. ONNX Runtime has GroupQueryAttention for f32, which appends the
newest key to the cache that it is given; rapt and PyTorch find it there. Time is wall time, because
some rows have two threads.
"""
import statistics
import time

import numpy as np
import onnxruntime
import torch
from onnx import TensorProto, helper

import bf16

FROM_MEMORY = 16384  # keys: 128 MiB of f32 keys and values with 8 key heads of 128 dimensions
FROM_CACHE = 2048


class Case:
    """goal: how many times as fast as the faster of the others."""

    def __init__(self, heads, kv_heads, head_dim, dtype, n, goal, threads=1):
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.dtype, self.n, self.goal, self.threads = dtype, n, goal, threads
        self.name = (f"decode {heads}/{kv_heads} heads d={head_dim} {dtype} n={n}" +
                     (f", {threads} threads" if threads > 1 else ""))


CASES = ([Case(32, 8, 128, dtype, FROM_MEMORY, 2) for dtype in ("f32", "bf16")] +
         [Case(8, 2, d, "bf16", FROM_CACHE, 2.5) for d in (64, 128)] +
         [Case(4, 1, 128, "f32", FROM_MEMORY, 2, threads=2)])


def onnx_runtime(case, query, key, value):
    """GroupQueryAttention with a buffer of n keys, to which it appends the last one in place."""
    group = {"q": query.reshape(1, 1, -1)}
    last = {"k": np.ascontiguousarray(key[:, :, -1]).reshape(1, 1, -1),
            "v": np.ascontiguousarray(value[:, :, -1]).reshape(1, 1, -1)}
    lengths = {"last_key": np.full(1, case.n - 1, np.int32), "total": np.array([case.n], np.int32)}
    past = {"past_key": key.copy(), "past_value": value.copy()}
    inputs = group | last | past | lengths
    node = helper.make_node("GroupQueryAttention", list(inputs),
                            ["output", "present_key", "present_value"], domain="com.microsoft",
                            num_heads=case.heads, kv_num_heads=case.kv_heads)
    model = helper.make_model(
        helper.make_graph(
            [node], "decode",
            [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
             for name, x in inputs.items()],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in node.output]),
        opset_imports=[helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)],
        ir_version=11)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = case.threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(x) for name, x in inputs.items()}
    for name, x in values.items():
        binding.bind_ortvalue_input(name, x)
    binding.bind_output("output")
    for name in ("key", "value"):  # the same memory, so that nothing is copied
        binding.bind_ortvalue_output(f"present_{name}", values[f"past_{name}"])

    def call():
        session.run_with_iobinding(binding)
        return binding.get_outputs()[0]

    return call, lambda output: output.numpy().reshape(query.shape)


def prepare(case, rapt):
    """name -> call, and the largest difference of the others' outputs from rapt's, as a share of
    the largest element."""
    generator = np.random.default_rng(1)

    def normal(heads, rows):
        x = generator.standard_normal((1, heads, rows, case.head_dim), dtype=np.float32)
        return x if case.dtype == "f32" else bf16.as_bf16(x)

    query, key, value = (normal(case.heads, 1), normal(case.kv_heads, case.n),
                         normal(case.kv_heads, case.n))
    tensors = [torch.from_numpy(x) if case.dtype == "f32" else bf16.as_torch(x)
               for x in (query, key, value)]

    def pytorch():
        with torch.inference_mode():
            return torch.nn.functional.scaled_dot_product_attention(*tensors, enable_gqa=True)

    def floats(x):
        return bf16.as_floats(x) if case.dtype == "bf16" else x

    calls = {"rapt": (rapt.attention(query, key, value, threads=case.threads), floats),
             "PyTorch": (pytorch, lambda x: x.float().numpy())}
    if case.dtype == "f32":
        calls["ONNX Runtime"] = onnx_runtime(case, query, key, value)
    outputs = {name: output_of(call()) for name, (call, output_of) in calls.items()}
    difference = max(float(np.abs(x - outputs["rapt"]).max() / np.abs(x).max())
                     for name, x in outputs.items() if name != "rapt")
    return {name: call for name, (call, _) in calls.items()}, difference


def largest_difference(case):
    return 1e-4 if case.dtype == "f32" else bf16.LARGEST_DIFFERENCE


def measure(case, calls, rounds):
    """name -> seconds per call, of each round, in turn."""
    torch.set_num_threads(case.threads)
    names = list(calls)
    seconds = {name: [] for name in names}
    for name in names:
        calls[name]()
    for i in range(rounds):
        turn = i % len(names)
        for name in names[turn:] + names[:turn]:
            start = time.perf_counter()
            calls[name]()
            seconds[name].append(time.perf_counter() - start)
    torch.set_num_threads(1)
    return seconds


HEAD = ["",
        "One query per head against a cache; wall time. GB/s: keys and values once. The ratio is "
        "that to the faster of the others.",
        "",
        "| case | rapt ms | rapt GB/s | PyTorch ms | ONNX Runtime ms | ratio | goal | | "
        "largest difference |",
        "|---|---:|---:|---:|---:|---:|---:|---|---:|"]


def row(case, seconds, difference):
    others = [name for name in seconds if name != "rapt"]
    ratio = min(statistics.median(x / r for x, r in zip(seconds[name], seconds["rapt"]))
                for name in others)
    best = min(seconds["rapt"])
    number_bytes = 4 if case.dtype == "f32" else 2
    rate = 2 * case.kv_heads * case.n * case.head_dim * number_bytes / best / 1e9
    verdict = "met" if ratio >= case.goal else f"short by {100 * (1 - ratio / case.goal):.1f} %"
    onnx = f"{1e3 * min(seconds['ONNX Runtime']):.3f}" if "ONNX Runtime" in seconds else "-"
    return (f"| {case.name} | {1e3 * best:.3f} | {rate:.1f} "
            f"| {1e3 * min(seconds['PyTorch']):.3f} | {onnx} | {ratio:.2f} | {case.goal} "
            f"| {verdict} | {difference:.1e} |")
