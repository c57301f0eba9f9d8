"""rapt for NumPy arrays, through include/rapt/rapt_c.h and ctypes: as little as timing needs.

The structures are those of rapt_c.h, field by field; the size field tells the library which version
of them this file knows.
"""
import ctypes
import weakref
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int32, c_int64, c_size_t
from ctypes import c_uint64, c_void_p

import numpy as np

# rapt_dtype; NumPy has no bf16, so that uint16 holds its bits
DTYPES = {"float32": 1, "float64": 2, "uint16": 3, "int64": 5, "bool": 8}


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
                ("normalizer", POINTER(CVariant)), ("weights", c_void_p), ("score_count", c_size_t),
                ("scores", c_void_p), ("output_dtype", c_int32), ("precision", c_int32),
                ("query_starts", c_void_p), ("key_starts", c_void_p), ("map", c_void_p),
                ("top_k", c_int64), ("entropy", c_int32), ("received", c_int32),
                ("invariant", c_int32), ("reserved", c_int32), ("dropout", c_double),
                ("dropout_seed", c_uint64), ("rotary", c_void_p),
                ("rotary_query_positions", c_void_p), ("rotary_key_positions", c_void_p),
                ("rotary_query_start", c_int64), ("rotary_key_start", c_int64),
                ("cosine_epsilon", c_double), ("relative", c_void_p), ("bias_order", c_int32),
                ("rotary_keys_are_rotated", c_int32), ("rotary_query_step", c_int64),
                ("rotary_key_step", c_int64), ("cache_lengths", c_void_p),
                ("cache_block_table", c_void_p), ("cache_starts", c_void_p),
                ("add_received", c_int32), ("reserved_at_end", c_int32),
                ("method", POINTER(CVariant))]


class CResults(Sized):  # up to what is used here; the library takes the rest as zero
    _fields_ = [("size", c_size_t), ("output", POINTER(CTensor)), ("statistic", POINTER(CTensor)),
                ("weights", POINTER(CTensor))]


class CBackwardInputs(Sized):
    _fields_ = [("size", c_size_t), ("output", POINTER(CTensor)), ("statistic", POINTER(CTensor)),
                ("d_output", POINTER(CTensor)), ("d_statistic", POINTER(CTensor)),
                ("d_weights", POINTER(CTensor))]


class CGradients(Sized):
    _fields_ = [("size", c_size_t), ("d_query", POINTER(CTensor)), ("d_key", POINTER(CTensor)),
                ("d_value", POINTER(CTensor)), ("d_bias", POINTER(CTensor)),
                ("d_scale", POINTER(CTensor)), ("d_score_parameters", POINTER(CTensor)),
                ("passes", c_int32), ("reserved", c_int32),
                ("d_normalizer_parameters", POINTER(CTensor))]


class CContext(Sized):
    _fields_ = [("size", c_size_t), ("executor", c_void_p), ("cancel", c_void_p),
                ("progress", c_void_p), ("progress_user", c_void_p), ("memory_limit", c_int64),
                ("threads", c_int32), ("memory", c_int32)]


def describe(array, read_only=True):
    """A descriptor of a NumPy array's memory, with its strides. The array must outlive it."""
    lengths = c_int64 * array.ndim
    return CTensor(data=array.ctypes.data, dtype=DTYPES[array.dtype.name], read_only=read_only,
                   rank=array.ndim, shape=lengths(*array.shape),
                   strides=lengths(*(s // array.itemsize for s in array.strides)))


def variant_of(spec, tensors):
    """A variant of a text with its tensors by name. The arrays must outlive it."""
    named = [CNamedTensor(name=name.encode(), tensor=ctypes.pointer(describe(array)))
             for name, array in tensors.items()]
    return CVariant(spec=spec.encode(), tensor_count=len(named),
                    tensors=(CNamedTensor * len(named))(*named))


class CInstructionSet(Structure):
    _fields_ = [("name", c_char_p), ("available", c_int32), ("chosen", c_int32),
                ("note", c_char_p)]


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
        self.library.rapt_prepared_backward_workspace_bytes.argtypes = [
            c_void_p, *tensors, POINTER(CGradients), POINTER(c_size_t)]
        self.library.rapt_prepared_backward.argtypes = [
            c_void_p, *tensors, POINTER(CBackwardInputs), POINTER(CGradients), c_void_p, c_size_t]
        self.library.rapt_dropout_mask.argtypes = [c_double, c_uint64, POINTER(CTensor)]

    def build_info(self):
        return self.library.rapt_build_info().decode()

    def instruction_set(self):
        """The one that is used."""
        count = c_size_t()
        self.check(self.library.rapt_instruction_sets(None, c_size_t(0), byref(count)))
        sets = (CInstructionSet * count.value)()
        self.check(self.library.rapt_instruction_sets(sets, count, byref(count)))
        return next(one.name.decode() for one in sets if one.chosen)

    def check(self, status):
        if status != 0:
            name = self.library.rapt_status_name(status).decode()
            raise RaptError(f"{name}: {self.library.rapt_last_error().decode()}")

    def _prepare(self, mask, mask_tensors, normalizer, scale, threads=1, **more):
        """A rapt_prepared. mask and normalizer: as in rapt_variant.spec, or none, as
        scale; more: members of rapt_options."""
        options = COptions(**more)
        if mask:
            variant = variant_of(mask, mask_tensors)
            options.masks = (POINTER(CVariant) * 1)(ctypes.pointer(variant))
            options.mask_count = 1
        if normalizer:
            options.normalizer = ctypes.pointer(CVariant(spec=normalizer.encode()))
        if scale is not None:
            options.scale = ctypes.pointer(c_double(scale))
        # With one thread, that whose time is taken does all the work.
        prepared = c_void_p()
        self.check(self.library.rapt_prepare(byref(options), byref(CContext(threads=threads)),
                                             byref(prepared)))
        return prepared

    def dropout_mask(self, probability, seed, shape):
        """The pairs that a call keeps: booleans [..., q_len, k_len]."""
        kept = np.empty(shape, bool)
        self.check(self.library.rapt_dropout_mask(probability, seed,
                                                  byref(describe(kept, read_only=False))))
        return kept

    def gradients(self, query, key, value, bias=None, *, d_output, mask=None, normalizer=None,
                  scale=None, dropout=0.0, seed=0, forward=False):
        """Prepares one problem; returns a function without arguments that computes the gradients of
        query, key, value and bias, if there is one, into new arrays, with a workspace that it
        keeps: from the state of a forward pass that it begins with, if `forward`, into new arrays
        too, or that is computed here.
        """
        views = [describe(x) for x in (query, key, value)]
        more = {"bias": ctypes.pointer(describe(bias))} if bias is not None else {}
        prepared = self._prepare(mask, {}, normalizer, scale, dropout=dropout, dropout_seed=seed,
                                 **more)
        inputs = [query, key, value] + ([bias] if bias is not None else [])
        shapes = [x.shape for x in inputs]
        places = [describe(np.empty(shape, query.dtype), read_only=False) for shape in shapes]
        gradients = CGradients(**{name: ctypes.pointer(place) for name, place in
                                  zip(("d_query", "d_key", "d_value", "d_bias"), places)})
        state_shapes = query.shape[:-1] + value.shape[-1:], query.shape[:-1]  # output, lse
        state_dtypes = query.dtype, np.float32 if query.dtype == np.uint16 else query.dtype
        state = [describe(np.empty(shape, dtype), read_only=False)
                 for shape, dtype in zip(state_shapes, state_dtypes)]
        results = CResults(output=ctypes.pointer(state[0]), statistic=ctypes.pointer(state[1]))
        behind = CBackwardInputs(output=results.output, statistic=results.statistic,
                                 d_output=ctypes.pointer(describe(d_output)))
        bytes_forward, bytes_backward = c_size_t(), c_size_t()
        self.check(self.library.rapt_prepared_workspace_bytes(prepared, *map(byref, views),
                                                              byref(bytes_forward)))
        self.check(self.library.rapt_prepared_backward_workspace_bytes(
            prepared, *map(byref, views), byref(gradients), byref(bytes_backward)))
        workspace = np.empty(max(bytes_forward.value, bytes_backward.value), np.uint8)

        def new_arrays(shapes, dtypes, descriptors):
            arrays = [np.empty(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
            for descriptor, array in zip(descriptors, arrays, strict=True):
                descriptor.data = array.ctypes.data
            return arrays

        def computed_state():
            arrays = new_arrays(state_shapes, state_dtypes, state)
            self.check(self.library.rapt_prepared_forward(
                prepared, *map(byref, views), byref(results), workspace.ctypes.data,
                workspace.nbytes))
            return arrays

        kept_state = None if forward else computed_state()

        def call(_keep_alive=(inputs, d_output, kept_state)):
            own_state = computed_state() if forward else None  # until this call ends
            arrays = new_arrays(shapes, [query.dtype] * len(shapes), places)
            self.check(self.library.rapt_prepared_backward(
                prepared, *map(byref, views), byref(behind), byref(gradients),
                workspace.ctypes.data, workspace.nbytes))
            return arrays

        weakref.finalize(call, self.library.rapt_prepared_destroy, prepared)
        return call

    def attention(self, query, key, value, mask=None, normalizer=None, scale=None, threads=1,
                  method=None, **mask_tensors):
        """Prepares one problem; returns a function without arguments that computes it into a new
        array [..., q_len, value_dim], with a workspace that it keeps.

        mask and normalizer: as in rapt_variant.spec, the mask's tensors by keyword:
        mask="boolean(m)", m=array. method: made by variant_of().
        """
        inputs = [describe(x) for x in (query, key, value)]
        more = {"method": ctypes.pointer(method)} if method is not None else {}
        prepared = self._prepare(mask, mask_tensors, normalizer, scale, threads, **more)
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

        def call(_keep_alive=(inputs, results, workspace, query, key, value, mask_tensors,
                              method)):
            output = np.empty(shape, query.dtype)
            out.data = output.ctypes.data
            status = forward(*arguments)
            if status != 0:
                self.check(status)
            return output

        weakref.finalize(call, self.library.rapt_prepared_destroy, prepared)
        return call
