"""rapt for NumPy arrays, by the command line and files of a folder of its own.

Every test of this folder is called with the path of the built program, compares rapt with one
package, and exits with 77, saying so, where the package is not installed.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77  # what CMake's SKIP_RETURN_CODE says


def skip(reason):
    print("skipped:", reason)
    sys.exit(SKIPPED)


try:
    import numpy as np
except ImportError as error:
    skip(error)


class Rapt:
    def __init__(self, program):
        self.program = program

    def run(self, *arguments):
        done = subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise RuntimeError(f"rapt {' '.join(map(str, arguments))}: {done.stderr}")
        return done.stdout

    def names(self, kind):
        """What `rapt list` knows: normalizers, scores, masks."""
        return [one["name"] for one in json.loads(self.run("list", kind, "--json"))[kind]]

    def attend(self, query, key, value, *options, bias=None, mask=None, d_output=None):
        """output, lse and, with d_output, the gradients d_query, d_key, d_value, d_bias; the
        summary in numbers as "summary"."""
        inputs = {"query": query, "key": key, "value": value}
        outputs = {"output": "output"}
        if "--normalizer" not in options:
            outputs["lse"] = "lse"
        with tempfile.TemporaryDirectory() as folder:
            arguments = ["attend", "--json", *options]
            if bias is not None:
                inputs["bias"] = bias
            if d_output is not None:
                inputs["grad-output"] = d_output
                outputs |= {"d_" + name: "grad-" + name for name in ("query", "key", "value")}
                if bias is not None:
                    outputs["d_bias"] = "grad-bias"
            for name, array in inputs.items():
                np.save(Path(folder) / f"{name}.npy", np.ascontiguousarray(array))
                arguments += [f"--{name}", Path(folder) / f"{name}.npy"]
            if mask is not None:
                np.save(Path(folder) / "mask.npy", mask)
                arguments += ["--mask", f"file:{folder}/mask.npy"]
            for name in outputs.values():
                arguments += [f"--{name}", Path(folder) / f"{name}-out.npy"]
            summary = json.loads(self.run(*arguments))
            result = {member: np.load(Path(folder) / f"{name}-out.npy")
                      for member, name in outputs.items()}
            return result | {"summary": summary}


class Comparison:
    """Counts what differs; at the end the exit code."""

    def __init__(self):
        self.compared = self.failed = 0

    def close(self, what, got, wanted, tolerance):
        """|got - wanted| <= tolerance, for numbers of size 1."""
        got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
        self.compared += 1
        error = np.abs(got - wanted).max(initial=0) if got.shape == wanted.shape else np.inf
        if not error <= tolerance:
            self.failed += 1
            print(f"FAILED {what}: {got.shape} and {wanted.shape}, largest difference {error}")

    def exit(self):
        print(f"{self.compared - self.failed} of {self.compared} agree")
        sys.exit(1 if self.failed or not self.compared else 0)
