#!/usr/bin/env python3
"""The error of softmax in float32 against its input's scale and offset: libsoftmax and the three-pass form (src/reference/three_pass.c).

usage: plot_error.py [--library build/libsoftmax.so] [PICTURE.svg]      needs NumPy; for the picture, matplotlib

Prints the table, and draws it if a picture is named. Every number is the largest error over all elements of 20,000 rows of 16 scores, in
ULP; the judge is NumPy's longdouble (64 bits or more). Elements whose exact value is below the smallest normal number are left out.
  scale    x = s N(0, 1)
  offset   x = c + 5 N(0, 1) at temperature 0.7: libsoftmax takes the factor 1/0.7 as its option `scale`; the three-pass form gets the
           product, rounded to float32, as everyone hands it over."""
import argparse
import ctypes

import numpy

ROWS, COLUMNS, FLOAT32 = 20000, 16, 1
FACTOR = 1 / 0.7
SCALES = [2.0**k for k in range(-4, 13)]
OFFSETS = [10.0**k for k in range(0, 7)]


class Options(ctypes.Structure):
    """The first fields of softmax_options; those beyond `size` have their defaults."""
    _fields_ = [("size", ctypes.c_size_t), ("softcap", ctypes.c_double), ("scale", ctypes.c_double)]


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def ours(library, x, scale=1.0):
    y = numpy.empty_like(x)
    options = Options(ctypes.sizeof(Options), 0.0, scale)
    rows, columns = (ctypes.c_int64(n) for n in x.shape)
    status = library.softmax_softmax_rows(FLOAT32, rows, columns, pointer(x), pointer(y), ctypes.byref(options))
    if status:
        raise SystemExit(f"softmax_softmax_rows: status {status}")
    return y


def three_pass(library, x):
    y = numpy.empty_like(x)
    library.softmax_reference_three_pass(pointer(x), pointer(y), *(ctypes.c_int64(n) for n in x.shape))
    return y


def exact(z):
    e = numpy.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def largest_error(y, truth):
    normal = truth >= 2.0**-126
    unit = numpy.ldexp(numpy.longdouble(1), numpy.frexp(truth[normal])[1] - 24)
    return float((abs(y[normal] - truth[normal]) / unit).max())


def measure(library):
    random = numpy.random.default_rng(1)
    by_scale, by_offset = [], []
    for s in SCALES:
        x = (s * random.standard_normal((ROWS, COLUMNS))).astype(numpy.float32)
        truth = exact(x.astype(numpy.longdouble))
        by_scale.append((s, largest_error(ours(library, x), truth), largest_error(three_pass(library, x), truth)))
    for c in OFFSETS:
        x = (c + 5 * random.standard_normal((ROWS, COLUMNS))).astype(numpy.float32)
        truth = exact(x.astype(numpy.longdouble) * numpy.longdouble(FACTOR))
        rounded = x * numpy.float32(FACTOR)
        by_offset.append((c, largest_error(ours(library, x, FACTOR), truth), largest_error(three_pass(library, rounded), truth)))
    return by_scale, by_offset


def draw(by_scale, by_offset, path):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "libsoftmax"  # the same file every time
    from matplotlib import pyplot
    figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    labels = [("x = s·N(0,1), against s", by_scale, {"base": 2}), ("x = c + 5·N(0,1), temperature 0.7, against c", by_offset, {})]
    for panel, (title, data, log) in zip(panels, labels):
        at = [row[0] for row in data]
        panel.plot(at, [row[2] for row in data], "o-", color="#c44e52", label="three-pass form")
        panel.plot(at, [row[1] for row in data], "s-", color="#4c72b0", label="libsoftmax")
        panel.axhline(2.5, color="#888888", linestyle=":", linewidth=1, label="libsoftmax's bound, 2.5 ULP")
        panel.set_title(title, fontsize=10)
        panel.set_xscale("log", **log)
        panel.set_yscale("log")
        panel.grid(True, which="major", color="#dddddd", linewidth=0.6)
        panel.set_axisbelow(True)
    panels[0].set_ylabel("largest error, ULP")
    panels[0].legend(fontsize=8, loc="upper left")
    panels[0].set_ylim(0.3, 1e7)
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description="error of softmax against scale and offset; the table, and a picture if one is named")
    parser.add_argument("--library", default="build/libsoftmax.so")
    parser.add_argument("picture", nargs="?")
    arguments = parser.parse_args()
    by_scale, by_offset = measure(ctypes.CDLL(arguments.library))
    for title, data in ("scale s", by_scale), ("offset c", by_offset):
        print(f"{title:>10} {'libsoftmax':>12} {'three-pass':>12}")
        for at, us, them in data:
            print(f"{at:>10g} {us:>12.2f} {them:>12.2f}")
    if arguments.picture:
        draw(by_scale, by_offset, arguments.picture)


if __name__ == "__main__":
    main()
