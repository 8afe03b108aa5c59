"""Shares of a copy against the width, one plot per operation and type, as SVG."""
import collections

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

matplotlib.rcParams["svg.hashsalt"] = "softmax"


def draw(rows, out):
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        if row["table"] in ("softmax", "log_softmax", "softmax_backward", "log_softmax_backward", "textbook") and row["who"] != "cudaMemcpy":
            groups[row["table"], row["type"]][row["who"]].append((int(row["columns"]), 100 * float(row["share_of_copy"])))
    for (table, kind), lines in groups.items():
        figure, axes = plt.subplots(figsize=(7, 4))
        for who, points in lines.items():
            points.sort()
            axes.plot(*zip(*points), marker=".", label=who, linewidth=2.2 if who == "libsoftmax" else 1)
        axes.set_xscale("log", base=2)
        axes.set_ylim(0, 110)
        axes.set_xlabel("columns")
        axes.set_ylabel("% of a device copy")
        axes.set_title(f"{table}, {kind}")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
        figure.tight_layout()
        figure.savefig(out / f"{table}_{kind}.svg", metadata={"Date": None})
        plt.close(figure)
