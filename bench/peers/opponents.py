"""The same problem for PyTorch and for ONNX Runtime, one thread each.

Each function takes query [batch, heads, n, d], key, value [batch, heads, n, d_v] as float32, a mask
kind ("none", "causal", "boolean") and the boolean mask [n, n] (true = may attend), and returns a
function without arguments that computes the output. What a library wants in another layout is
converted before the clock runs; an output that comes in another layout is turned after it.
"""
import numpy as np
import onnxruntime
import torch
from onnx import TensorProto, helper

torch.set_num_threads(1)


def pytorch(query, key, value, mask, allowed):
    """scaled_dot_product_attention as anyone would call it."""
    q, k, v = (torch.from_numpy(x) for x in (query, key, value))
    attn_mask = torch.from_numpy(allowed) if mask == "boolean" else None

    def call():
        with torch.inference_mode():
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, attn_mask=attn_mask, is_causal=mask == "causal")

    return call, lambda output: output.numpy()


def onnx_operator(mask):
    """The operator of ONNX Runtime that computes this fastest on a CPU: MultiHeadAttention has a
    flash path without masks, GroupQueryAttention one for causal; boolean masks are understood by
    the standard's Attention only."""
    return {"none": "MultiHeadAttention", "causal": "GroupQueryAttention",
            "boolean": "Attention-23"}[mask]


def packed(x):
    """[batch, heads, n, d] -> [batch, n, heads * d], what the operators of com.microsoft take."""
    batch, heads, n, d = x.shape
    return np.ascontiguousarray(x.transpose(0, 2, 1, 3).reshape(batch, n, heads * d))


def onnx_runtime(query, key, value, mask, allowed):
    batch, heads, n = query.shape[:3]
    operator = onnx_operator(mask)
    if operator == "Attention-23":
        inputs = {"query": query, "key": key, "value": value, "mask": allowed}
        node = helper.make_node("Attention", list(inputs), ["output"])
    else:
        inputs = {"query": packed(query), "key": packed(key), "value": packed(value)}
        if operator == "MultiHeadAttention":
            node = helper.make_node(operator, list(inputs), ["output"], domain="com.microsoft",
                                    num_heads=heads)
        else:  # prompts of n tokens, nothing cached before them
            inputs |= {"last_key": np.full(batch, n - 1, np.int32), "total": np.array(n, np.int32)}
            node = helper.make_node(
                operator, ["query", "key", "value", "", "", "last_key", "total"],
                ["output", "present_key", "present_value"], domain="com.microsoft",
                num_heads=heads, kv_num_heads=heads)
    model = helper.make_model(
        helper.make_graph(
            [node], "attention",
            [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
             for name, x in inputs.items()],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in node.output]),
        opset_imports=[helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)],
        ir_version=11)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    binding = session.io_binding()  # no copies of inputs and outputs
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(x) for name, x in inputs.items()}
    for name, x in values.items():
        binding.bind_ortvalue_input(name, x)

    def call():
        for name in node.output:
            binding.bind_output(name)
        session.run_with_iobinding(binding)
        return binding.get_outputs()[0]

    def output_of(result):
        x = result.numpy()
        if operator == "Attention-23":
            return x
        return x.reshape(batch, n, heads, -1).transpose(0, 2, 1, 3)

    return call, output_of
