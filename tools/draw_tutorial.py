#!/usr/bin/env python3
"""The pictures of docs/tutorial.md, each from numbers measured here.

usage: draw_tutorial.py [FOLDER]      default docs/tutorial; needs libsoftmax (pip install .) and matplotlib"""
import pathlib
import sys

import matplotlib
import numpy as np

import libsoftmax
from libsoftmax.reference import naive, online, stable

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.hashsalt": "libsoftmax", "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False,
                            "axes.spines.right": False, "figure.figsize": (6.4, 2.8), "legend.frameon": False})
import matplotlib.pyplot as plt  # noqa: E402  (after the backend)

OURS, THEIRS, OTHER = "tab:blue", "tab:orange", "tab:gray"


def errors(y, x):
    """ULP of float32 at the exact result, where that is a normal number."""
    exact = libsoftmax.softmax(x.astype(np.float64))
    kept = exact > 2e-38
    return np.abs(y - exact)[kept] / np.spacing(exact[kept].astype(np.float32))


def draw_temperature(axes):
    scores = np.array([1.0, 2, 3, 2])
    for place, (temperature, colour) in enumerate([(0.3, THEIRS), (1, OURS), (5, OTHER)]):
        axes.bar(np.arange(4) + 0.27 * (place - 1), libsoftmax.softmax(scores / temperature), 0.25, color=colour, label=f"T = {temperature}")
    axes.set(xlabel="score", ylabel="probability", xticks=range(4), xticklabels=["1", "2", "3", "2"])
    axes.legend()


def draw_overflow(axes):
    rng = np.random.default_rng(0)
    offsets = np.arange(-130, 111, 2.0)
    for name, way, colour in [("naive", naive.softmax, THEIRS), ("shifted", stable.softmax, OURS)]:
        right = []
        for offset in offsets:
            x = (offset + rng.standard_normal((500, 8))).astype(np.float32)
            with np.errstate(all="ignore"):
                right.append(100 * np.mean(np.isclose(way(x), libsoftmax.softmax(x), rtol=1e-3).all(axis=1)))
        axes.plot(offsets, right, color=colour, label=name)
    axes.axvline(np.log(np.finfo(np.float32).max), color=OTHER, lw=0.8, ls=":")
    axes.set(xlabel="offset of 8 scores of spread 1", ylabel="rows right to 0.1 %, %")
    axes.legend(loc="center")


def draw_shift(axes):
    rng = np.random.default_rng(0)
    spreads = 2.0 ** np.arange(-4, 10)
    rows = [(s * rng.standard_normal((10000, 16))).astype(np.float32) for s in spreads]
    for name, way, colour in [("shifted, NumPy", stable.softmax, THEIRS), ("libsoftmax", libsoftmax.softmax, OURS)]:
        axes.loglog(spreads, [errors(way(x), x).max() for x in rows], "o-", ms=3, color=colour, label=name)
    axes.set(xlabel="standard deviation of 16 scores", ylabel="largest error, ULP")
    axes.legend()


def draw_online(axes):
    x = np.random.default_rng(4).standard_normal(60).astype(np.float32) * 2
    pair, trace = online.empty(1), []
    for score in x:
        pair = online.update(pair, score.reshape(1, 1))
        trace.append((pair[0][0], pair[1][0]))
    maxima, sums = zip(*trace)
    axes.plot(x, ".", color=OTHER, label="score")
    axes.step(range(60), maxima, where="post", color=OURS, label="m")
    axes.step(range(60), sums, where="post", color=THEIRS, label="s, rescaled when m grows")
    axes.set(xlabel="column")
    axes.legend(ncol=3, loc="lower right")


def draw_tiles(axes):
    x = (5 * np.random.default_rng(1).standard_normal((1000, 4096))).astype(np.float32)
    widths = [4096, 2048, 1024, 512, 256, 128, 64]

    def by_pairs(columns):
        pair = online.empty(len(x))
        for first in range(0, x.shape[1], columns):
            pair = online.update(pair, x[:, first : first + columns])
        return pair[1]

    def by_state(columns):
        state = libsoftmax.State(len(x))
        for first in range(0, x.shape[1], columns):
            state.update(x[:, first : first + columns], first_column=first)
        return state.logsumexp()

    places = np.arange(len(widths))
    pairs, states = by_pairs(1024), by_state(1024)
    axes.bar(places - 0.2, [np.sum(by_pairs(w) != pairs) for w in widths], 0.38, color=THEIRS, label="(m, s) in float32")
    exact = [w for w in widths if w % libsoftmax.BLOCK_COLUMNS == 0]
    axes.bar(places[: len(exact)] + 0.2, [np.sum(by_state(w) != states) for w in exact], 0.38, color=OURS, label="State (blocks of 1024): none")
    axes.set(xlabel="columns of a tile", ylabel="rows with other bits, of 1000", xticks=places, xticklabels=widths)
    axes.legend()


def draw_tails(axes):
    tails = np.arange(-45, -9, 1.0)
    count = 2**22
    exact = np.log1p(count * np.exp(tails))
    serial, pairwise, ours = [], [], []
    for tail in tails:
        row = np.full(count + 1, tail, np.float32)
        row[0] = 0
        terms = np.exp(row)
        serial.append(np.log(np.add.accumulate(terms)[-1]))
        pairwise.append(np.log(terms.sum()))
        ours.append(-libsoftmax.log_softmax(row)[0])
    axes.semilogy(tails, exact, color="black", lw=0.8, label="exact")
    for values, name, colour, mark in [(ours, "libsoftmax", OURS, "o"), (pairwise, "float32, pairwise sum", OTHER, "x"), (serial, "float32, one by one", THEIRS, "+")]:
        values = np.array(values, dtype=float)
        axes.semilogy(tails[values > 0], values[values > 0], mark, ms=4, color=colour, label=name)
    axes.set(xlabel="tail: 2^22 scores so far below the maximum", ylabel="−log y of the maximum")
    axes.legend()


def draw_jacobian(axes):
    y = libsoftmax.softmax(np.array([0.2, 1.5, -0.5, 1.0, 0.1, 2.0]))
    jacobian = np.diag(y) - np.outer(y, y)
    picture = axes.imshow(jacobian, cmap="RdBu", vmin=-0.25, vmax=0.25)
    for (i, j), value in np.ndenumerate(jacobian):
        axes.text(j, i, f"{value:.2f}".replace("-0.00", "0.00"), ha="center", va="center", fontsize=7)
    axes.set(xlabel="j", ylabel="i")
    axes.figure.colorbar(picture, label="∂y_i / ∂x_j")


def draw_loss(axes):
    scores = np.arange(0, 121, 2.0)
    x = np.stack([scores, np.zeros_like(scores), np.zeros_like(scores)], axis=1).astype(np.float32)
    targets = np.zeros(len(x), np.int64)
    fused = libsoftmax.cross_entropy(x, targets, reduction="none")
    with np.errstate(divide="ignore"):
        two_steps = -np.log(stable.softmax(x))[:, 0]
    axes.semilogy(scores[fused > 0], fused[fused > 0], color=OURS, label="fused")
    axes.semilogy(scores[two_steps > 0], two_steps[two_steps > 0], "x", ms=4, color=THEIRS, label="softmax, then −log (0 from here on)")
    axes.set(xlabel="score of the right class; two others at 0", ylabel="loss")
    axes.legend()


def draw_traffic(axes):
    ways = [("NumPy, five passes", 5 * 4, 3 * 4), ("three-pass kernel", 3 * 4, 4), ("online kernel", 2 * 4, 4), ("fused: one read, one write", 4, 4), ("copy", 4, 4)]
    for place, (name, reads, writes) in enumerate(ways):
        axes.barh(-place, reads, color=OURS, label="read" if place == 0 else None)
        axes.barh(-place, writes, left=reads, color=THEIRS, label="written" if place == 0 else None)
    axes.set(xlabel="bytes per float32 element", yticks=[-i for i in range(len(ways))], yticklabels=[name for name, _, _ in ways])
    axes.legend()


DRAWINGS = {"temperature": draw_temperature, "overflow": draw_overflow, "shift": draw_shift, "online": draw_online, "tiles": draw_tiles,
            "tails": draw_tails, "jacobian": draw_jacobian, "loss": draw_loss, "traffic": draw_traffic}


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "docs/tutorial")
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in DRAWINGS.items():
        figure, axes = plt.subplots(layout="constrained")
        draw(axes)
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
        plt.close(figure)
        print(f"{folder / name}.svg")


if __name__ == "__main__":
    main()
