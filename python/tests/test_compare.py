"""`python -m libsoftmax`: the command's table with the Python ways as rows, and its drawing."""
import base64
import re
import subprocess
import sys
import xml.etree.ElementTree
import zlib

import ml_dtypes
import numpy as np
import pytest
from exact import errors, softmax

import libsoftmax
from libsoftmax import _compare, _plot

WAYS = ["SciPy", "PyTorch", "JAX", "libsoftmax in Python", "libsoftmax.torch"]
STUDY = {"naive,", "stable,", "online,", "autograd"}  # NumPy's forms, and autograd.Function by hand
TRITON = {"Triton", "Triton,"}  # on a GPU, or interpreted


def run(*words, folder, status=0):
    done = subprocess.run([sys.executable, "-m", "libsoftmax", *map(str, words)], cwd=folder, capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


def rows(table):
    """First word of a way's name, or all of one of ours -> (special rows, max ULP, bits)."""
    found = {}
    for name, special, ulp, bits in re.findall(r"^(.{20}) +(ok|\d+ wrong) +(\S+) +\S+  ([0-9a-f]{16}) ", table, re.M):
        name = name.strip()
        found[name if name.startswith("libsoftmax") else name.split()[0]] = (special, float(ulp.replace("-", "nan", ulp == "-")), bits)
    return found


def test_ways_are_judged(tmp_path, rng):
    x = (10 * rng.standard_normal((6, 70))).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    table = run("compare", "x.npy", folder=tmp_path)
    found = rows(table)
    assert set(WAYS) | STUDY | {"naive", "three-pass", "online", "NumPy"} <= set(found) and TRITON & set(found)
    ours = {value for name, value in found.items() if name.startswith("libsoftmax")}
    assert len(ours) == 1  # the same bits from Python
    assert ours.pop()[1] == pytest.approx(errors(libsoftmax.softmax(x), softmax(x), "float32").max(), abs=1e-3)
    assert all(found[name][1] > 4 for name in WAYS[:3])


@pytest.mark.parametrize("op", ["softmax_backward", "cross_entropy"])
def test_operations(tmp_path, rng, op):
    x = rng.standard_normal((6, 3, 50)).astype(np.float32)
    np.save(tmp_path / "dy.npy", x)
    np.save(tmp_path / "t.npy", rng.integers(0, 3, (6, 50)))
    np.save(tmp_path / "x.npy", libsoftmax.softmax(x, 1) if op == "softmax_backward" else x)
    more = ["--grad", "dy.npy"] if op == "softmax_backward" else ["--targets", "t.npy", "--label-smoothing", "0.1"]
    found = rows(run("compare", "--op", op, "--axis", 1, *more, "x.npy", folder=tmp_path))
    assert {"PyTorch", *WAYS[3:]} <= set(found)
    if op == "softmax_backward":
        assert {"stable,", "autograd"} <= set(found) and TRITON & set(found)
    assert len({value for name, value in found.items() if name.startswith("libsoftmax")}) == 1
    assert all(value[0] == "ok" and value[1] < 1000 for value in found.values())


def test_losses_without_options(tmp_path, rng):
    """Every way that has a loss: an axis that is not the last, 16-bit logits, an operation whose results are fewer than its inputs."""
    np.save(tmp_path / "x.npy", rng.standard_normal((6, 3, 50)).astype(np.float16))
    np.save(tmp_path / "t.npy", rng.integers(0, 3, (6, 50)))
    found = rows(run("compare", "--op", "cross_entropy", "--axis", 1, "--targets", "t.npy", "x.npy", folder=tmp_path))
    assert {"PyTorch", "stable,", *WAYS[3:]} <= set(found) and TRITON & set(found)
    assert all(found[name][0] == "ok" and found[name][1] < 100 for name in {"stable,", *WAYS[3:], *TRITON} & set(found))


def test_types_and_options(tmp_path, rng):
    np.save(tmp_path / "x.npy", rng.standard_normal((2, 4, 12)).astype(ml_dtypes.bfloat16).view(np.uint16))
    np.save(tmp_path / "mask.npy", rng.random((4, 12)) < 0.8)
    np.save(tmp_path / "lengths.npy", rng.integers(6, 13, (2, 4)))
    found = rows(run("compare", "--op", "logsumexp", "--scale", 0.7, "--mask", "mask.npy", "--valid-lengths", "lengths.npy", "--causal",
                     "--causal-offset", 5, "--dtype", "bfloat16", "x.npy", folder=tmp_path))
    assert len({value for name, value in found.items() if name.startswith("libsoftmax")}) == 1
    assert found["PyTorch"][0] == "ok" and found["JAX"][0] == "ok" and "SciPy" not in found


def image_of(uri):
    """Pixels of a PNG as the drawing writes it."""
    data = base64.b64decode(uri.split(",", 1)[1])
    width, height = (int.from_bytes(data[i : i + 4], "big") for i in (16, 20))
    length = int.from_bytes(data[33:37], "big")
    lines = np.frombuffer(zlib.decompress(data[41 : 41 + length]), np.uint8).reshape(height, 1 + 3 * width)
    return lines[:, 1:].reshape(height, width, 3)


def test_plot(tmp_path):
    x = np.full((3, 5), -np.inf, np.float32)
    x[0, 1] = 0  # a certain row; an even one; one without a number
    x[1] = 0
    np.save(tmp_path / "x.npy", x)
    table = run("compare", "x.npy", "--plot", "out.svg", folder=tmp_path)
    tree = xml.etree.ElementTree.parse(tmp_path / "out.svg")
    words = [element.text for element in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert table.split("\n")[0] in words and "probabilities, 3 × 5" in words
    timed = [line[:20].strip() for line in table.split("\n")[4:] if re.match(r".{20} +(ok|\d+ wrong) +\d", line) and " 0.000 " not in line]
    assert len(timed) > 8 and all(any(word and word.split(":")[0] == name for word in words) for name in timed)
    image, _ = (image_of(element.get("href")) for element in tree.iter("{http://www.w3.org/2000/svg}image"))
    assert image.shape == (3, 5, 3) and image[0, 1].tolist() == [253, 231, 37]
    assert (image[0, 0] == 255).all() and (image[2] == 160).all() and (image[1] == image[1, 0]).all() and image[1, 0, 0] < 253
    np.save(tmp_path / "x.npy", np.zeros((2, 2, 4), np.float32))
    given = _compare.arguments([str(tmp_path / "x.npy")])
    assert "<image" not in _plot.drawing(table, _compare.rows_of(table), given)  # of three dimensions


def test_what_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((2, 3), np.float32))
    np.save(tmp_path / "i.npy", np.zeros((2, 3), np.int32))
    for words, status, line in [(["none.npy"], 1, "softmax: none.npy: cannot be opened"), (["i.npy"], 1, "softmax: i.npy: "),
                                (["--scale", "x", "x.npy"], 2, "argument --scale"), (["--frob", "x.npy"], 2, "unrecognized arguments: --frob"),
                                (["-"], 1, "libsoftmax: -: the Python ways need a file"), (["x.npy", "--plot"], 1, "libsoftmax: --plot: needs the name")]:
        assert line in run("compare", *words, folder=tmp_path, status=status)


def test_the_command_itself(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(2, np.float32))
    assert run("run", "x.npy", folder=tmp_path) == "[0.5 0.5]\n"
    assert libsoftmax.__version__ in run("info", folder=tmp_path)
    assert "--plot OUT.svg" in run("compare", "--help", folder=tmp_path) and "--valid-lengths" in run("compare", "--help", folder=tmp_path)
    assert "softmax compare" in run("--help", folder=tmp_path)
