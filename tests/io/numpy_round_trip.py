#!/usr/bin/env python3
"""NumPy's .npy and .npz through rapt and back, bit by bit: dtypes, orders, shapes, versions.

usage: numpy_round_trip.py CONVERT_TENSORS      exit 77 (skipped): numpy is not installed

NumPy writes files in every way it can; rapt converts them to .npy and to stored and deflated .npz,
and NumPy reads the results. rapt also converts its own files once more. bf16 is '<V2' in NumPy.
"""
import io
import pathlib
import subprocess
import sys
import tempfile
import warnings
import zipfile

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

DTYPES = ["<f4", "<f8", "<f2", "<i4", "<i8", "|u1", "|b1", "<V2"]
SHAPES = [(), (1,), (7,), (3, 5), (2, 3, 4), (2, 1, 3, 2), (0,), (0, 4), (4, 0), (2, 0, 3),
          (1,) * 31 + (2,)]
NPZ_TARGETS = ["out.npz", "out.deflated.npz"]


def sample(dtype, shape):
    """Random bits, so that NaN payloads, subnormals and extremes occur; booleans are 0 or 1."""
    count = int(np.prod(shape, dtype=np.int64))
    bits = np.random.default_rng(count).integers(0, 256, count * np.dtype(dtype).itemsize, np.uint8)
    if dtype == "|b1":
        bits &= 1
    return np.frombuffer(bits.tobytes(), dtype).reshape(shape)


def fortran(array):
    return np.asarray(array, order="F")  # asfortranarray would give scalars rank 1


def big_endian(array):
    return array if array.dtype.kind == "V" else array.astype(array.dtype.newbyteorder(">"))


CHANGES = {"C": lambda array: array, "Fortran": fortran, "big-endian": big_endian,
           "big-endian Fortran": lambda array: fortran(big_endian(array))}


def npy_bytes(array, version=None):
    buffer = io.BytesIO()
    with warnings.catch_warnings():  # NumPy warns that old versions cannot read 2.0 and 3.0
        warnings.simplefilter("ignore")
        np.lib.format.write_array(buffer, array, version, allow_pickle=False)
    return buffer.getvalue()


class Pipe(io.RawIOBase):
    """A stream that cannot seek: zipfile writes CRC and sizes behind each member."""

    def __init__(self):
        super().__init__()
        self.content = bytearray()

    def writable(self):
        return True

    def seekable(self):
        return False

    def write(self, data):
        self.content += data
        return len(data)


def streamed(save, arrays):
    pipe = Pipe()
    save(pipe, **arrays)
    return bytes(pipe.content)


def saved(save, arrays):
    buffer = io.BytesIO()
    save(buffer, **arrays)
    return buffer.getvalue()


def zipped(arrays, method):
    """Written by zipfile alone, without the ZIP64 fields that numpy.savez always writes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.comment = b"a comment"
        for name, array in arrays.items():
            archive.writestr(name + ".npy", npy_bytes(array))
    return buffer.getvalue()


NPZ_WRITERS = {
    "savez": lambda arrays: saved(np.savez, arrays),
    "savez_compressed": lambda arrays: saved(np.savez_compressed, arrays),
    "streamed savez": lambda arrays: streamed(np.savez, arrays),
    "streamed savez_compressed": lambda arrays: streamed(np.savez_compressed, arrays),
    "zipfile, stored": lambda arrays: zipped(arrays, zipfile.ZIP_STORED),
    "zipfile, deflated": lambda arrays: zipped(arrays, zipfile.ZIP_DEFLATED),
}


class Trips:
    def __init__(self, convert, folder):
        self.convert, self.folder, self.count = convert, pathlib.Path(folder), 0

    def run(self, source, target):
        return subprocess.run([self.convert, "--v2", self.folder / source, self.folder / target],
                              capture_output=True, text=True)

    def converted(self, what, source, target):
        done = self.run(source, target)
        if done.returncode != 0:
            sys.exit(f"{what}: {source} -> {target}: exit {done.returncode}: {done.stderr}")
        return self.folder / target

    def expect_same(self, what, came, want):
        self.count += 1
        same = came.dtype.str.replace("|V2", "<V2") == want.dtype.newbyteorder("<").str.replace(
            "|V2", "<V2") and came.shape == want.shape
        if not same or came.tobytes() != want.astype(came.dtype).tobytes():
            sys.exit(f"{what}: {want.dtype} {want.shape} {want!r} came as {came!r}")

    def expect_npz(self, what, path, arrays):
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
            if broken is not None:
                sys.exit(f"{what}: zipfile finds {broken} damaged")
        with np.load(path) as came:
            if sorted(came.files) != sorted(arrays):
                sys.exit(f"{what}: {came.files}")
            for name, array in arrays.items():
                self.expect_same(f"{what}: {name}", came[name], array)

    def npy(self, arrays):
        for name, array in arrays.items():
            for order, change in CHANGES.items():
                for version in [(1, 0), (2, 0), (3, 0)]:
                    what = f".npy {name}, {order}, version {version[0]}"
                    (self.folder / "in.npy").write_bytes(npy_bytes(change(array), version))
                    path = self.converted(what, "in.npy", "out.npy")
                    self.expect_same(what, np.load(path), array)
                    if version == (1, 0) and path.read_bytes() != npy_bytes(array).replace(
                            b"'|V2'", b"'<V2'"):
                        sys.exit(f"{what}: not the bytes of numpy.save")

    def npz(self, arrays):
        for order, change in CHANGES.items():
            changed = {name: change(array) for name, array in arrays.items()}
            for writer, write in NPZ_WRITERS.items():
                (self.folder / "in.npz").write_bytes(write(changed))
                for target in NPZ_TARGETS:
                    what = f"{writer}, {order} -> {target}"
                    self.expect_npz(what, self.converted(what, "in.npz", target), arrays)
        for source in NPZ_TARGETS:
            for target in ["again.npz", "again.deflated.npz"]:
                what = f"{source} -> {target}"
                self.expect_npz(what, self.converted(what, source, target), arrays)

    def refusals(self):
        for what, array, says in [("text", np.array(["ab"]), "'<U2' is not supported"),
                                  ("an object", np.array([None]), "is a pickle")]:
            np.savez(self.folder / "in.npz", good=np.zeros(3), bad=array)
            done = self.run("in.npz", "refused.npz")
            if done.returncode != 1 or "'bad'" not in done.stderr or says not in done.stderr:
                sys.exit(f"{what}: exit {done.returncode}: {done.stderr}")
            if (self.folder / "refused.npz").exists():
                sys.exit(f"{what}: something was written")


def main():
    arrays = {f"{dtype[1:]} {list(shape)[-4:]} rank {len(shape)}": sample(dtype, shape)
              for dtype in DTYPES for shape in SHAPES}
    with tempfile.TemporaryDirectory(prefix="rapt-numpy-") as folder:
        trips = Trips(sys.argv[1], folder)
        trips.npy(arrays)
        trips.npz({**arrays, "a/b ∇.npy": sample("<f4", (2, 3))})
        trips.refusals()
    print(f"{trips.count} arrays came back with their bits: numpy {np.__version__}")


main()
