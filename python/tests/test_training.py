"""The example's training reaches the optimum that scikit-learn finds: the same objective to 1e-6, the same digits right."""

import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("torch")
linear_model = pytest.importorskip("sklearn.linear_model")

SOURCE = pathlib.Path(__file__).parents[2]


def scikit_learn():
    table = np.load(SOURCE / "examples/data/digits.npy")
    x, labels = table[:, :-1] / 16.0, table[:, -1]
    model = linear_model.LogisticRegression(C=1, solver="newton-cg", tol=1e-10, max_iter=1000).fit(x, labels)
    losses = -model.predict_log_proba(x)[np.arange(len(labels)), labels]
    return losses.mean() + (model.coef_**2).sum() / (2 * len(labels)), int((model.predict(x) == labels).sum())


def test_reaches_the_optimum():
    run = subprocess.run([sys.executable, SOURCE / "examples/train_digits.py", SOURCE / "examples/data/digits.npy"],
                         capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True)
    best, right = scikit_learn()
    results = re.findall(r"^(\w+) +logits: objective ([0-9.]+); (\d+) of 1797", run.stdout, re.M)
    assert [name for name, _, _ in results] == ["float32", "bfloat16"], run.stdout
    for name, objective, count in results:
        assert abs(float(objective) - best) < 1e-6 and int(count) == right, (name, objective, best, count, right)
