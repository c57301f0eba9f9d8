"""rapt for NumPy arrays, by the command line and files of a folder of its own.

Every test of this folder is called with the path of the built program and compares rapt with one
package. `./run peers` calls them with the packages of requirements.txt; a missing one is a failure.
"""
import json
import subprocess
import sys
import tempfile

import numpy as np
import torch

# With two threads, the first float64 logsumexp of a process is off by 1e-9 in the second thread's
# half: in 12 of 80 processes with PyTorch 2.13 on two Sapphire Rapids cores, against NumPy. The
# second call is right, and so is every call with one thread.
torch.set_num_threads(1)


class Rapt:
    def __init__(self, program):
        self.program = program

    def run(self, *arguments):
        done = subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise RuntimeError(f"rapt {' '.join(map(str, arguments))}: {done.stderr}")
        return done.stdout

    def attend(self, query, key, value, *options, bias=None, mask=None, relative=None,
               d_output=None, has_lse=None):
        """output, lse and, with d_output, the gradients d_query, d_key, d_value, d_bias, and those
        of single numbers by what they are of as "numbers".

        relative: the tensors and numbers of --relative by their names; d_key_rows and so on.
        has_lse: whether there is one to ask for; of softmax there is."""
        inputs = {"query": query, "key": key, "value": value}
        outputs = {"output": "output"}
        if has_lse or (has_lse is None and "--normalizer" not in options):
            outputs["lse"] = "lse"
        with tempfile.TemporaryDirectory() as folder:
            file = lambda name: f"{folder}/{name}.npy"
            arguments = ["attend", "--json", *options]
            if bias is not None:
                inputs["bias"] = bias
            if d_output is not None:
                inputs["grad-output"] = d_output
                outputs |= {"d_" + name: "grad-" + name for name in ("query", "key", "value")}
                if bias is not None:
                    outputs["d_bias"] = "grad-bias"
            for name, array in inputs.items():
                np.save(file(name), np.ascontiguousarray(array))
                arguments += [f"--{name}", file(name)]
            if mask is not None:
                np.save(file("mask"), mask)
                arguments += ["--mask", f"file:{file('mask')}"]
            if relative is not None:
                given = dict(relative)
                for name in (name for name in given if isinstance(given[name], np.ndarray)):
                    np.save(file(name), np.ascontiguousarray(given[name]))
                    given[name] = file(name)
                arguments += ["--relative", ",".join(f"{n}={what}" for n, what in given.items())]
                if d_output is not None:
                    arguments += ["--grad-relative", f"{folder}/relative-out.npz"]
            for name in outputs.values():
                arguments += [f"--{name}", file(name + "-out")]
            summary = json.loads(self.run(*arguments))
            result = {member: np.load(file(name + "-out")) for member, name in outputs.items()}
            if d_output is not None:
                numbers = summary["gradients"]["numbers"]
                result["numbers"] = {one["of"]: one["value"] for one in numbers}
                if relative is not None:
                    with np.load(f"{folder}/relative-out.npz") as tables:
                        result |= {"d_" + name: tables[name] for name in tables}
            return result


class Comparison:
    """Counts what differs; at the end the exit code."""

    def __init__(self):
        self.compared = self.failed = 0

    def close(self, what, got, wanted, tolerance):
        """|got - wanted| <= tolerance, for numbers of size 1; -inf agrees with itself."""
        got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
        self.compared += 1
        error = np.inf
        if got.shape == wanted.shape:
            differs = got != wanted
            error = np.abs(got[differs] - wanted[differs]).max(initial=0)
        if not error <= tolerance:
            self.failed += 1
            print(f"FAILED {what}: {got.shape} and {wanted.shape}, largest difference {error}")

    def gradients(self, what, ours, tolerance, **leaves):
        """Those of leaves of PyTorch, by what they are called here: d_query=q."""
        for member, leaf in leaves.items():
            self.close(f"{what}: {member}", ours[member], leaf.grad, tolerance)

    def exit(self):
        print(f"{self.compared - self.failed} of {self.compared} agree")
        sys.exit(1 if self.failed or not self.compared else 0)
