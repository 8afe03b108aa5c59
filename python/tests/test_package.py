"""The package as such: its types, docstrings, wheel, and how it says that something is missing."""
import importlib.metadata
import inspect
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import libsoftmax

SOURCE = pathlib.Path(os.environ.get("SOFTMAX_SOURCE", pathlib.Path(__file__).parents[2]))
FUNCTIONS = [getattr(libsoftmax, name) for name in libsoftmax.__all__ if callable(getattr(libsoftmax, name)) and name != "State"]


def test_version_is_the_header_s():
    numbers = re.findall(r"#define SOFTMAX_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", (SOURCE / "include/softmax.h").read_text())
    assert libsoftmax.__version__ == ".".join(numbers)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_docstrings(function):
    assert inspect.signature(function) and function.__doc__
    if function.__name__ not in ("instruction_sets", "cache_info", "set_cache_limit"):
        assert "Error: " in function.__doc__ and "Raises ValueError and TypeError" in function.__doc__


def test_signatures_are_what_is_taken():
    """Every argument of the documented signature is taken, with its default."""
    x, targets = np.zeros((2, 3), np.float32), np.zeros(2, np.int64)
    given = {"x": x, "y": x, "dy": x, "logits": x, "targets": targets}
    for function in FUNCTIONS:
        parameters = inspect.signature(function).parameters
        if "axis" not in parameters:
            continue
        words = {p.name: given.get(p.name, p.default) for p in parameters.values()}
        function(**words)
        with pytest.raises(TypeError, match="has no argument 'another'"):
            function(**words, another=1)


def test_types():
    """The stubs agree with the module, and the package says that it has types."""
    done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "libsoftmax._core"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (pathlib.Path(libsoftmax.__file__).parent / "py.typed").exists()


WHEEL = os.environ.get("SOFTMAX_WHEEL")
needs_wheel = pytest.mark.skipif(not WHEEL, reason="SOFTMAX_WHEEL names no wheel: make check-python builds it")


@needs_wheel
def test_wheel_name():
    """auditwheel has found nothing in it that another Linux lacks."""
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert re.fullmatch(rf"libsoftmax-{re.escape(libsoftmax.__version__)}-{tag}-{tag}-manylinux_2_\d+_\w+\.whl", pathlib.Path(WHEEL).name)


@needs_wheel
def test_wheel_needs_numpy_alone(tmp_path):
    python = tmp_path / "venv/bin/python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, "install", "-q", WHEEL, f"numpy=={np.__version__}"],
                   check=True)
    script = """
import importlib.metadata, numpy as np, libsoftmax
assert {d.name for d in importlib.metadata.distributions()} == {'libsoftmax', 'numpy'}
assert libsoftmax.softmax(np.zeros((2, 2), np.float32)).tolist() == [[0.5, 0.5]] * 2
assert libsoftmax.softmax([[1, 2]], None).shape == (1, 2)
try:
    libsoftmax.State(1, 'bfloat16').normalise(np.zeros((1, 2), np.float32))
except TypeError as error:
    print(error)
"""
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "normalise: the result is bfloat16; NumPy has that by the package ml_dtypes, which is missing: pip install ml_dtypes\n", done.stderr


@needs_wheel
def test_metadata():
    metadata = importlib.metadata.metadata("libsoftmax")
    assert metadata["Requires-Python"] == ">=3.10"
    assert [r for r in metadata.get_all("Requires-Dist") if "extra" not in r] == ["numpy>=1.23"]
