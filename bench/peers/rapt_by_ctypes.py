"""rapt for NumPy arrays, through include/rapt/rapt_c.h and ctypes: as little as timing needs.

The structures are those of rapt_c.h, field by field; the size field tells the library which version
of them this file knows.
"""
import ctypes
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int32, c_int64, c_size_t
from ctypes import c_uint64, c_void_p

import numpy as np

DTYPES = {"float32": 1, "float64": 2, "int64": 5, "bool": 8}  # rapt_dtype


class RaptError(RuntimeError):
    """Carries the library's own sentence."""


class Sized(Structure):
    """A descriptor that knows its size, all else zero."""

    def __init__(self, **fields):
        super().__init__(size=ctypes.sizeof(self), **fields)


class CTensor(Sized):
    _fields_ = [("size", c_size_t), ("data", c_void_p), ("dtype", c_int32), ("device", c_int32),
                ("read_only", c_int32), ("rank", c_int32), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64))]


class CNamedTensor(Structure):
    _fields_ = [("name", c_char_p), ("tensor", POINTER(CTensor))]


class CVariant(Sized):
    _fields_ = [("size", c_size_t), ("spec", c_char_p), ("tensor_count", c_size_t),
                ("tensors", POINTER(CNamedTensor))]


class COptions(Sized):
    _fields_ = [("size", c_size_t), ("scale", POINTER(c_double)), ("mask_count", c_size_t),
                ("masks", POINTER(POINTER(CVariant))), ("bias", POINTER(CTensor)),
                ("normalizer", POINTER(CVariant)), ("weights", c_void_p)]


class CResults(Sized):
    _fields_ = [("size", c_size_t), ("output", POINTER(CTensor)), ("statistic", POINTER(CTensor)),
                ("weights", POINTER(CTensor))]


class CPlan(Sized):
    _fields_ = [("size", c_size_t), ("isa", c_char_p), ("kernel", c_char_p), ("statistic", c_int32),
                ("reserved", c_int32), ("tile_queries", c_int64), ("block_keys", c_int64),
                ("tiles_computed", c_int64), ("tiles_partial", c_int64), ("tiles_skipped", c_int64),
                ("allowed_scores", c_int64), ("workspace_bytes", c_uint64),
                ("result_bytes", c_uint64), ("matrix_bytes", c_uint64)]


def describe(array, read_only=True):
    """A descriptor of a NumPy array's memory, with its strides. The array must outlive it."""
    lengths = c_int64 * array.ndim
    return CTensor(data=array.ctypes.data, dtype=DTYPES[array.dtype.name], read_only=read_only,
                   rank=array.ndim, shape=lengths(*array.shape),
                   strides=lengths(*(s // array.itemsize for s in array.strides)))


class Rapt:
    """The shared library."""

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        for name in ("rapt_build_info", "rapt_last_error", "rapt_status_name"):
            getattr(self.library, name).restype = c_char_p
        self.library.rapt_plan.argtypes = [POINTER(CTensor)] * 3 + [POINTER(COptions), c_void_p,
                                                                    POINTER(CPlan)]
        self.library.rapt_attention_forward.argtypes = [POINTER(CTensor)] * 3 + [
            POINTER(COptions), POINTER(CResults), c_void_p, c_size_t, c_void_p]

    def build_info(self):
        return self.library.rapt_build_info().decode()

    def check(self, status):
        if status != 0:
            name = self.library.rapt_status_name(status).decode()
            raise RaptError(f"{name}: {self.library.rapt_last_error().decode()}")

    def attention(self, query, key, value, mask=None, **mask_tensors):
        """Prepares one problem; returns a function without arguments that computes it into a new
        array [..., q_len, value_dim], with a workspace that it keeps.

        mask: as in rapt_variant.spec, its tensors by keyword: mask="boolean(m)", m=array.
        """
        inputs = [describe(x) for x in (query, key, value)]
        named = [CNamedTensor(name=name.encode(), tensor=ctypes.pointer(describe(array)))
                 for name, array in mask_tensors.items()]
        options = COptions()
        if mask:
            variant = CVariant(spec=mask.encode(), tensor_count=len(named),
                               tensors=(CNamedTensor * len(named))(*named))
            options.masks = (POINTER(CVariant) * 1)(ctypes.pointer(variant))
            options.mask_count = 1
        plan = CPlan()
        self.check(self.library.rapt_plan(*inputs, byref(options), None, byref(plan)))
        workspace = np.empty(plan.workspace_bytes, np.uint8)
        shape = query.shape[:-1] + value.shape[-1:]

        def call(_keep_alive=(query, key, value, mask_tensors)):
            output = np.empty(shape, query.dtype)
            results = CResults(output=ctypes.pointer(describe(output, read_only=False)))
            self.check(self.library.rapt_attention_forward(
                *inputs, byref(options), byref(results), workspace.ctypes.data, workspace.nbytes,
                None))
            return output

        return call
