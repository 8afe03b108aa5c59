"""Multinomial logistic regression on hand-written digits, trained to its optimum with libsoftmax.torch.cross_entropy:

    minimise  mean_i cross_entropy(W x_i + b, label_i) + |W|^2 / (2 N)

which is scikit-learn's LogisticRegression(C=1) over N. Accelerated gradient descent with restarts, as examples/train_digits.c.
Twice: the logits in float32, and in bfloat16 (so are their gradients). The weights are float64.

    python examples/train_digits.py examples/data/digits.npy
"""

import sys

import numpy as np
import torch

from libsoftmax.torch import cross_entropy


def read_digits(path):
    """(pixels from 0 to 1 and a 1 for the bias, labels)"""
    table = torch.from_numpy(np.load(path))
    pixels = table[:, :-1].double() / 16
    return torch.cat([pixels, torch.ones(len(pixels), 1, dtype=torch.float64)], 1), table[:, -1].long()


def objective(w, x, labels, dtype):
    """The mean loss with logits of a type, and the penalty on all weights but the bias."""
    return cross_entropy((x @ w.T).to(dtype), labels) + (w[:, :-1] ** 2).sum() / (2 * len(x))


def train(x, labels, dtype, steps=1500):
    # The curvature is at most half the largest eigenvalue of X'X / N, and the penalty's.
    step = 1 / (torch.linalg.eigvalsh(x.T @ x / len(x))[-1] / 2 + 1 / len(x))
    w = torch.zeros(10, x.shape[1], dtype=torch.float64)
    ahead, momentum = w, 1.0
    for _ in range(steps):
        ahead.requires_grad_()
        (slope,) = torch.autograd.grad(objective(ahead, x, labels, dtype), ahead)
        following = (ahead - step * slope).detach()
        next_momentum = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        if (slope * (following - w)).sum() > 0:  # uphill: forget the momentum
            ahead, momentum = following, 1.0
        else:
            ahead, momentum = following + (momentum - 1) / next_momentum * (following - w), next_momentum
        w = following
    return w


def main():
    torch.set_num_threads(1)  # 1797 rows of 10 are little work
    x, labels = read_digits(sys.argv[1])
    for dtype in (torch.float32, torch.bfloat16):
        w = train(x, labels, dtype)
        right = ((x @ w.T).argmax(1) == labels).sum()
        print(f"{str(dtype)[6:]:8} logits: objective {objective(w, x, labels, torch.float64):.7f}; {right} of {len(x)} digits right")


if __name__ == "__main__":
    main()
