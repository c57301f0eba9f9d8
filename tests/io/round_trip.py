#!/usr/bin/env python3
"""Files of other libraries through rapt and back, bit by bit: all dtypes, shapes and orders.

usage: round_trip.py CONVERT_TENSORS      exit 77 (skipped): numpy or safetensors is not installed

Each entry of FORMATS says how the other library writes and reads a format. rapt converts every
format into itself and into every other one. bfloat16 is tested where ml_dtypes is installed.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import safetensors
    import safetensors.numpy
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
try:
    from ml_dtypes import bfloat16
except ImportError:
    bfloat16 = None

# NumPy's name -> .safetensors name, largest alignment first, which is the order in the reference's
# files.
DTYPES = {"int64": "I64", "float64": "F64", "float32": "F32", "int32": "I32", "bfloat16": "BF16",
          "float16": "F16", "uint8": "U8", "bool": "BOOL"}
SHAPES = [(), (1,), (7,), (3, 5), (2, 3, 4), (2, 1, 3, 2), (1, 2, 1, 3, 2),
          (0,), (0, 4), (4, 0), (2, 0, 3)]


def dtype_of(name):
    return np.dtype(bfloat16 if name == "bfloat16" else name)


def sample(name, shape):
    """Random bits, so that NaN payloads, subnormals and extremes occur; booleans are 0 or 1."""
    dtype = dtype_of(name)
    count = int(np.prod(shape, dtype=np.int64))
    bits = np.random.default_rng(count).integers(0, 256, count * dtype.itemsize, dtype=np.uint8)
    if name == "bool":
        bits &= 1
    return np.frombuffer(bits.tobytes(), dtype).reshape(shape)


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def write_safetensors(path, arrays):
    safetensors.numpy.save_file(arrays, path)


def read_safetensors(path):
    names = {other: name for name, other in DTYPES.items()}
    return {name: np.frombuffer(bytes(tensor["data"]), dtype_of(names[tensor["dtype"]]))
            .reshape(tensor["shape"])
            for name, tensor in safetensors.deserialize(path.read_bytes())}


def npy_writer(change=lambda array: array, version=None):
    """A writer of one array; NumPy has no bfloat16 of its own and writes '<V2'."""
    def write(path, arrays):
        (array,) = arrays.values()
        with open(path, "wb") as file:
            np.lib.format.write_array(file, change(array), version)
    return write


def read_npy(path):
    array = np.load(path)
    return {"x": array.view(bfloat16) if array.dtype == np.dtype("V2") else array}


def swapped(array):
    # '<V2' has no byte order to swap.
    return array if array.dtype.kind == "V" else array.astype(array.dtype.newbyteorder("S"))


def fortran(array):
    return np.asarray(array, order="F")  # asfortranarray would give scalars rank 1


class Format:
    def __init__(self, ending, write, read, holds_many, variants=()):
        self.ending, self.read, self.holds_many = ending, read, holds_many
        self.writers = [write, *variants]  # all variants must read like the first writer


FORMATS = [
    Format(".safetensors", write_safetensors, read_safetensors, True),
    Format(".npy", npy_writer(), read_npy, False,
           [npy_writer(version=(2, 0)), npy_writer(version=(3, 0)),
            npy_writer(fortran), npy_writer(swapped),
            npy_writer(lambda array: fortran(swapped(array)))]),
]


def groups(arrays, holds_many):
    """All arrays in one group if a file can hold many; else one per group, named "x" as rapt does."""
    return [arrays] if holds_many else [{"x": array} for array in arrays.values()]


def converted(convert, source, target):
    done = subprocess.run([convert, "--v2", source, target], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{source.name} -> {target.name}: exit {done.returncode}: {done.stderr}")


def check_routes(convert, folder, arrays):
    trips = 0
    for source in FORMATS:
        for target in FORMATS:
            for group in groups(arrays, source.holds_many and target.holds_many):
                for writer in source.writers:
                    start, end = folder / f"in{source.ending}", folder / f"out{target.ending}"
                    writer(start, group)
                    converted(convert, start, end)
                    came = target.read(end)
                    if came.keys() != group.keys():
                        sys.exit(f"{start.name} -> {end.name}: {sorted(came)}")
                    for name, array in group.items():
                        trips += 1
                        if not same(came[name], array):
                            sys.exit(f"{start.name} -> {end.name}: {array.dtype} {array.shape} "
                                     f"{array!r} came as {came[name]!r}")
    return trips


def check_header(convert, folder, arrays):
    """rapt writes the package's header, except for the blanks behind it."""
    package, ours = folder / "package.safetensors", folder / "ours.safetensors"
    write_safetensors(package, arrays)
    converted(convert, package, ours)

    def parts(path):
        content = path.read_bytes()
        begin = 8 + int.from_bytes(content[:8], "little")
        return content[8:begin].rstrip(b" "), content[begin:], begin
    (theirs, elements, _), (header, our_elements, begin) = parts(package), parts(ours)
    if header != theirs or our_elements != elements or begin % 64 != 0:
        sys.exit(f"the package writes {theirs!r}, rapt {header!r}, elements from byte {begin}")
    json.loads(header)


def main():
    convert = sys.argv[1]
    names = [name for name in DTYPES if name != "bfloat16" or bfloat16]
    arrays = {f"{name} {list(shape)}": sample(name, shape) for name in names for shape in SHAPES}
    with tempfile.TemporaryDirectory(prefix="rapt-round-trip-") as folder:
        trips = check_routes(convert, pathlib.Path(folder), arrays)
        check_header(convert, pathlib.Path(folder), arrays)
    print(f"{trips} tensors came back with their bits: numpy {np.__version__}, safetensors "
          f"{safetensors.__version__}, {'with' if bfloat16 else 'without'} bfloat16")


main()
