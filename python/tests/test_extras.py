"""PyTorch and Triton are extras: without them the package works, and their parts say what is missing."""

import subprocess
import sys

import pytest


def run_without(missing, code):
    blocked = "".join(f"sys.modules[{name!r}] = None; " for name in missing)
    return subprocess.run([sys.executable, "-c", f"import sys; {blocked}{code}"], capture_output=True, text=True)


def test_absent():
    assert run_without(["torch", "triton"], "import libsoftmax, libsoftmax.reference").returncode == 0
    for missing, part, extra in ((["torch"], "torch", "torch"), (["torch", "triton"], "triton", "triton"), (["triton"], "triton", "triton")):
        words = run_without(missing, f"import libsoftmax.{part}").stderr.splitlines()[-1]
        assert words.startswith("ImportError: libsoftmax.") and words.endswith(f"pip install 'libsoftmax[{extra}]'"), words


def test_no_interpreter_no_gpu():
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    code = "import torch, libsoftmax.triton as t, os; t.softmax(torch.ones(2, 2))"
    words = run_without([], "import os; os.environ.pop('TRITON_INTERPRET', None); " + code).stderr.splitlines()[-1]
    assert words == "ValueError: x is on cpu; a GPU is needed, or TRITON_INTERPRET=1 set before libsoftmax.triton is imported"
