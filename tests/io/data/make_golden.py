#!/usr/bin/env python3
"""Writes the golden .npy files of this folder with NumPy, or compares them with NumPy's output.

usage: make_golden.py [--check]      exit 77 (skipped): NumPy is missing, or too old: it pads less
"""
import io
import pathlib
import sys
import warnings

try:
    import numpy as np
    from numpy.lib import format as npy_format
    npy_format.GROWTH_AXIS_MAX_DIGITS
except (ImportError, AttributeError):
    sys.exit(77)


def ramp(shape, dtype):
    """0, 1, 2, ... in row-major order, halved for floats so that fractions occur."""
    values = np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)
    return (values / 2 if np.dtype(dtype).kind == "f" else values).astype(dtype)


def saved(array, version=None):
    buffer = io.BytesIO()
    with warnings.catch_warnings():  # NumPy warns that old versions cannot read 2.0 and 3.0
        warnings.simplefilter("ignore")
        npy_format.write_array(buffer, array, version=version)
    return buffer.getvalue()


FILES = {
    # rapt must write exactly these bytes.
    "f4_2x3.npy": saved(ramp((2, 3), "<f4")),
    "f8_2x3x4.npy": saved(ramp((2, 3, 4), "<f8")),
    "f2_5.npy": saved(ramp((5,), "<f2")),
    "i4_5.npy": saved(ramp((5,), "<i4")),
    "i8_scalar.npy": saved(np.array(-7, "<i8")),
    "u1_3x2.npy": saved(ramp((3, 2), "|u1")),
    "b1_4.npy": saved(np.array([True, False, False, True])),
    "f4_empty_0x4.npy": saved(np.zeros((0, 4), "<f4")),
    "f4_9dims.npy": saved(ramp((1, 2, 1, 1, 2, 1, 1, 1, 3), "<f4")),
    "f4_1000000x0.npy": saved(np.zeros((1000000, 0), "<f4")),
    # rapt must also read these.
    "fortran_f4_2x3.npy": saved(np.asfortranarray(ramp((2, 3), "<f4"))),
    "fortran_big_f8_2x3x4.npy": saved(np.asfortranarray(ramp((2, 3, 4), ">f8"))),
    "big_f4_2x3.npy": saved(ramp((2, 3), ">f4")),
    "big_i4_5.npy": saved(ramp((5,), ">i4")),
    "big_i8_5.npy": saved(ramp((5,), ">i8")),
    "version2_f4_2x3.npy": saved(ramp((2, 3), "<f4"), (2, 0)),
    "version3_f4_2x3.npy": saved(ramp((2, 3), "<f4"), (3, 0)),
    # rapt must reject these with an error that names the type.
    "refused_v2.npy": saved(np.zeros(2, "V2")),
    "refused_i2.npy": saved(ramp((2,), "<i2")),
    "refused_c8.npy": saved(ramp((2,), "<c8")),
    "refused_text.npy": saved(np.array(["ab"])),
    "refused_object.npy": saved(np.array([None])),
    "refused_fields.npy": saved(np.zeros(1, [("a", "<f4"), ("b", "<i4")])),
}

folder = pathlib.Path(__file__).parent
wrong = []
for name, content in FILES.items():
    path = folder / name
    if "--check" not in sys.argv:
        path.write_bytes(content)
    elif "object" not in name and path.read_bytes() != content:  # pickles differ by Python version
        wrong.append(name)
if wrong:
    sys.exit("NumPy " + np.__version__ + " writes other bytes for: " + ", ".join(wrong))
