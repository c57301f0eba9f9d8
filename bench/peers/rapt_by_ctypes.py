"""rapt for NumPy arrays, through include/rapt/rapt_c.h and ctypes: as little as timing needs.

The structures are those of rapt_c.h, field by field; the size field tells the library which version
of them this file knows.
"""
import ctypes
import weakref
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int32, c_int64, c_size_t
from ctypes import c_void_p

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


class COptions(Sized):  # up to what is used here; the library takes the rest as zero
    _fields_ = [("size", c_size_t), ("scale", POINTER(c_double)), ("mask_count", c_size_t),
                ("masks", POINTER(POINTER(CVariant))), ("bias", POINTER(CTensor)),
                ("normalizer", POINTER(CVariant)), ("weights", c_void_p)]


class CResults(Sized):
    _fields_ = [("size", c_size_t), ("output", POINTER(CTensor)), ("statistic", POINTER(CTensor)),
                ("weights", POINTER(CTensor))]


class CContext(Sized):
    _fields_ = [("size", c_size_t), ("executor", c_void_p), ("cancel", c_void_p),
                ("progress", c_void_p), ("progress_user", c_void_p), ("memory_limit", c_int64),
                ("threads", c_int32), ("reserved", c_int32)]


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
        tensors = [POINTER(CTensor)] * 3
        self.library.rapt_prepare.argtypes = [POINTER(COptions), POINTER(CContext),
                                              POINTER(c_void_p)]
        self.library.rapt_prepared_destroy.argtypes = [c_void_p]
        self.library.rapt_prepared_workspace_bytes.argtypes = [c_void_p, *tensors,
                                                               POINTER(c_size_t)]
        self.library.rapt_prepared_forward.argtypes = [c_void_p, *tensors, POINTER(CResults),
                                                       c_void_p, c_size_t]

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
        # The thread whose time is taken does all the work.
        prepared = c_void_p()
        self.check(self.library.rapt_prepare(byref(options), byref(CContext(threads=1)),
                                             byref(prepared)))
        workspace_bytes = c_size_t()
        self.check(self.library.rapt_prepared_workspace_bytes(prepared, *inputs,
                                                              byref(workspace_bytes)))
        workspace = np.empty(workspace_bytes.value, np.uint8)
        shape = query.shape[:-1] + value.shape[-1:]
        out = describe(np.empty(shape, query.dtype), read_only=False)
        results = CResults(output=ctypes.pointer(out))
        forward = self.library.rapt_prepared_forward
        arguments = (prepared, *map(byref, inputs), byref(results), workspace.ctypes.data,
                     workspace.nbytes)

        def call(_keep_alive=(inputs, results, workspace, query, key, value, mask_tensors)):
            output = np.empty(shape, query.dtype)
            out.data = output.ctypes.data
            status = forward(*arguments)
            if status != 0:
                self.check(status)
            return output

        weakref.finalize(call, self.library.rapt_prepared_destroy, prepared)
        return call
