"""The command under test, in a folder of its own."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

COMMAND = os.environ["SOFTMAX_COMMAND"]
DATA = pathlib.Path(__file__).resolve().parents[2] / "examples" / "data"


class CommandTest(unittest.TestCase):
    """Each test runs in an empty folder, and must not leave a temporary file there."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="softmax-test-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def tearDown(self):
        self.assertEqual([p.name for p in self.folder.rglob(".softmax-*")], [], "temporary files are left")

    def call(self, *words, stdin=b"", environment=None):
        """Exit status, output and error output of `softmax words...`."""
        result = subprocess.run(
            [COMMAND, *map(str, words)],
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            timeout=120,
            env={**os.environ, **(environment or {})},
        )
        return result.returncode, result.stdout, result.stderr.decode()

    def succeed(self, *words, **more):
        status, output, errors = self.call(*words, **more)
        self.assertEqual((status, errors), (0, ""), words)
        return output

    def save(self, name, array):
        np.save(self.folder / name, np.asanyarray(array))
        return name

    def load(self, name):
        return np.load(self.folder / name)

    def run_on(self, x, *options, name="x.npy"):
        """`softmax run` on an array, through files."""
        self.succeed("run", *options, self.save(name, x), "-o", "y.npy")
        return self.load("y.npy")


def to_bfloat16(x):
    """Float32 values rounded to nearest even, as uint16."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bfloat16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def main():
    unittest.main(argv=[sys.argv[0], "-v"] + sys.argv[1:])
