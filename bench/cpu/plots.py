#!/usr/bin/env python3
"""plots.py RESULTS.CSV: the plots of a run as SVG, beside its table; needs matplotlib.

shares.svg  share of a non-temporal copy against the width, out of cache
rows.svg    time of a call against the number of rows, in one buffer repeated
error.svg   largest error against speed"""
import csv
import os
import sys

COLOURS = {"libsoftmax": "#0050c8", "ONNX Runtime": "#d62728", "oneDNN 2": "#8c564b", "oneDNN 3": "#c49c94", "SLEEF": "#2ca02c", "gcc": "#ff7f0e",
           "NumPy": "#9467bd", "SciPy": "#c5b0d5", "PyTorch": "#e377c2", "JAX": "#17becf", "OpenVINO": "#bcbd22"}
OTHER = "#7f7f7f"  # ceilings


def colour(name):
    return next((value for start, value in COLOURS.items() if name.startswith(start)), OTHER)


def style(name):
    ours, ceiling = name == "libsoftmax", colour(name) == OTHER
    return {"color": colour(name), "linewidth": 2.5 if ours else 1.2, "zorder": 3 if ours else 2, "marker": "o" if ours else "" if ceiling else ".",
            "linestyle": "--" if ceiling else ":" if name.endswith(("compiled", "donated", "out=")) else "-", "label": name}


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        for field in ("seconds", "gelem", "share", "ulp"):
            row[field] = float(row[field]) if row[field] else None
        outer, columns = row["shape"].split("@")[0].split("x")[:2]
        row["rows"], row["columns"] = int(outer), int(columns)
    return rows


def chosen(rows, **wanted):
    """The rows of the last axis that fit, each contestant's first of each shape (some shapes are timed again without rivals)."""
    found = {}
    for row in rows:
        if all(row[name] == value for name, value in wanted.items()) and "@" not in row["shape"]:
            found.setdefault((row["contestant"], row["shape"], row["mode"]), row)
    return list(found.values())


def curves(axes, rows, x, y):
    names = list(dict.fromkeys(row["contestant"] for row in rows))
    for name in names:
        points = sorted((row[x], row[y]) for row in rows if row["contestant"] == name)
        if len(points) > 1:
            axes.plot(*zip(*points), **style(name))


def legend(axes):
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(handles, labels, fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))


def shares(pyplot, rows):
    figure, panels = pyplot.subplots(1, 2, figsize=(11, 4.6), sharey=True, layout="constrained")
    for threads, axes in zip(("1", "2"), panels):
        found = [row for row in chosen(rows, operation="softmax", type="float32", mode="stream", threads=threads, values="normal")
                 if row["owner"] != "fresh" and row["rows"] * row["columns"] < 5 << 20]
        for row in found:
            row["percent"] = 100 * row["share"]
        curves(axes, found, "columns", "percent")
        axes.set(xlabel="columns", title=f"float32 softmax out of cache, {threads} thread{'s' if threads == '2' else ''}", ylim=(0, 100))
        axes.set_xscale("log", base=2)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("% of a non-temporal copy")
    legend(panels[1])
    return figure


def against_rows(pyplot, rows):
    found = [row for row in chosen(rows, operation="softmax", type="float32", mode="cache", threads="1", values="normal", columns=1024)
             if row["owner"] or row["contestant"] == "plain copy"]
    figure, axes = pyplot.subplots(figsize=(7.5, 4.6), layout="constrained")
    for row in found:
        row["each"] = 1e9 * row["seconds"] / (row["rows"] * row["columns"])
    curves(axes, found, "rows", "each")
    axes.set(yscale="log", xlabel="rows of 1024 columns", ylabel="nanoseconds per element", title="float32 softmax, one buffer repeated, 1 thread")
    axes.set_xscale("log", base=2)
    axes.grid(alpha=0.3, which="both")
    legend(axes)
    return figure


def error_and_speed(pyplot, rows):
    figure, axes = pyplot.subplots(figsize=(7.5, 4.6), layout="constrained")
    seen = set()
    for (mode, shape), marker in {("cache", "8x4096"): "o", ("stream", "4096x1024"): "s"}.items():
        for row in chosen(rows, operation="softmax", type="float32", mode=mode, shape=shape, threads="1", values="normal"):
            if row["ulp"] is not None and row["owner"] != "fresh":
                name = row["contestant"]
                axes.scatter(row["gelem"], row["ulp"], s=60 if name == "libsoftmax" else 25, color=colour(name), marker=marker, zorder=3,
                             label=None if name in seen else name)
                seen.add(name)
    axes.set(yscale="log", xlabel="Gelem/s", ylabel="largest error, ULP", title="float32 softmax, 1 thread: circles 8x4096 in cache, squares 4096x1024 out of it")
    axes.set_xlim(0)
    axes.grid(alpha=0.3, which="both")
    legend(axes)
    return figure


def write(path):
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "libsoftmax", "font.family": "sans-serif"})
    rows, folder = read(path), os.path.dirname(path)
    for name, draw in (("shares", shares), ("rows", against_rows), ("error", error_and_speed)):
        figure = draw(pyplot, rows)
        if not any(axes.get_legend_handles_labels()[0] for axes in figure.axes):
            continue  # the run has no such rows
        figure.savefig(os.path.join(folder, name + ".svg"), metadata={"Date": None})
        pyplot.close(figure)


if __name__ == "__main__":
    write(sys.argv[1])
