"""The drawing of `python -m libsoftmax compare --plot`: error against speed of every way, and a heat map of the probabilities. SVG by hand:
nothing is needed but NumPy."""
import base64
import html
import math
import struct
import zlib

import numpy as np

import libsoftmax
from libsoftmax import _ways

LARGEST_MAP = 512
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 680, 420, 64, 56, 52
INK, GRID, OURS, THEIRS, WRONG = "#1a1a1a", "#e3e3e3", "#0b6e4f", "#3a5a98", "#b3261e"
# Dark to light, of even steps to the eye (viridis, sampled).
MAP = [(68, 1, 84), (72, 40, 120), (62, 74, 137), (49, 104, 142), (38, 130, 142), (31, 158, 137), (53, 183, 121), (110, 206, 88),
       (181, 222, 43), (253, 231, 37)]


def text(x, y, words, size=12, anchor="start", colour=INK, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}" {more}>{html.escape(words)}</text>'


def decades(values):
    """Powers of ten around the values, at least one decade apart."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def number(exponent):
    return f"{10.0**exponent:g}" if -4 <= exponent <= 4 else f"1e{exponent}"


def spread(heights, low, high, step=16):
    """Heights in order, moved as little as keeps them a step apart and inside."""
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    moved = list(heights)
    for before, i in zip([None, *order], order):
        moved[i] = max(moved[i], low if before is None else moved[before] + step)
    for after, i in zip([None, *order[::-1]], order[::-1]):
        moved[i] = min(moved[i], high if after is None else moved[after] - step)
    return moved


def scatter(rows):
    """Every row that has a speed and an error: right is fast, low is exact."""
    points = [(name, wrong, max(ulp, 0.01), speed) for name, wrong, ulp, speed in rows if ulp is not None and speed]
    if not points:
        return [text(LEFT, TOP + 40, "no row has both an error and a time")]
    (x0, x1), (y0, y1) = decades([p[3] for p in points]), decades([p[2] for p in points])
    right, bottom = WIDTH - 200, HEIGHT - BOTTOM
    parts = []

    def place(speed, ulp):
        return (LEFT + (math.log10(speed) - x0) / (x1 - x0) * (right - LEFT), bottom - (math.log10(ulp) - y0) / (y1 - y0) * (bottom - TOP))

    for e in range(x0, x1 + 1):
        x = place(10.0**e, 10.0**y0)[0]
        parts += [f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="{GRID}"/>', text(x, bottom + 18, number(e), anchor="middle")]
    for e in range(y0, y1 + 1):
        y = place(10.0**x0, 10.0**e)[1]
        parts += [f'<path d="M{LEFT} {y:.1f}H{right}" stroke="{GRID}"/>', text(LEFT - 8, y + 4, number(e), anchor="end")]
    parts += [text((LEFT + right) / 2, bottom + 40, "speed, 10⁹ elements/s", 13, "middle"),
              text(0, 0, "largest error, ULP", 13, "middle", more=f'transform="translate(16 {(TOP + bottom) / 2:.0f}) rotate(-90)"')]
    places = [place(speed, ulp) for _, _, ulp, speed in points]
    # Labels in a column, in the points' order, so that lines do not cross.
    order = sorted(range(len(points)), key=lambda i: (round(places[i][1]), places[i][0]))
    heights = dict(zip(order, spread([places[i][1] + 1e-3 * k for k, i in enumerate(order)], TOP, bottom)))
    for i, (name, wrong, _, _) in enumerate(points):
        (x, y), colour = places[i], WRONG if points[i][1] else OURS if name.startswith("libsoftmax") else THEIRS
        parts += [f'<path d="M{x:.1f} {y:.1f}L{right + 12} {heights[i]:.1f}" stroke="{colour}" stroke-opacity="0.35"/>',
                  f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}" fill-opacity="0.85"/>',
                  text(right + 16, heights[i] + 4, name + (f": {wrong} rows wrong" if wrong else ""), 12, colour=colour)]
    return parts


def png(pixels):
    """An image of (height, width, 3) bytes."""
    height, width, _ = pixels.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], 1).tobytes()

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b""))


def coloured(p):
    """Probabilities on a scale of logarithms over six decades; 0 is white, NaN grey."""
    with np.errstate(divide="ignore", invalid="ignore"):
        place = np.clip(1 + np.log10(p) / 6, 0, 1) * (len(MAP) - 1)
    steps = np.array(MAP, float)
    low = np.nan_to_num(np.floor(place)).astype(int).clip(0, len(MAP) - 2)
    share = np.nan_to_num(place - low)[..., None]
    pixels = (steps[low] * (1 - share) + steps[low + 1] * share).round().astype(np.uint8)
    pixels[p == 0] = 255
    pixels[np.isnan(p)] = 160
    return pixels


def picture(pixels, x, y, width, height):
    return (f'<image x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" preserveAspectRatio="none" '
            f'style="image-rendering:pixelated" href="data:image/png;base64,{base64.b64encode(png(pixels)).decode()}"/>')


def heat_map(p, left):
    side = HEIGHT - TOP - BOTTOM
    scale = min(side / p.shape[0], side / p.shape[1])
    height, width = max(p.shape[0] * scale, 8), max(p.shape[1] * scale, 8)
    bar = coloured(10 ** np.linspace(0, -6, 120)[:, None])
    parts = [text(left, TOP - 12, f"probabilities, {p.shape[0]} × {p.shape[1]}", 13), picture(coloured(p), left, TOP, width, height),
             f'<rect x="{left}" y="{TOP}" width="{width:.1f}" height="{height:.1f}" fill="none" stroke="#888"/>',
             picture(bar, left + side + 18, TOP, 12, side)]
    for k in range(0, 7, 2):
        parts.append(text(left + side + 36, TOP + 4 + k / 6 * side, number(-k)))
    return parts + [text(left, HEIGHT - BOTTOM + 18, "white is exactly 0, grey is NaN", 12)]


def probabilities(given):
    """The input's softmax, if it is of two dimensions and small enough to draw; else None."""
    if given.op not in _ways.FORWARD:
        return None
    given.op = "softmax"
    problem = _ways.Problem(given)
    if problem.x.ndim != 2 or max(problem.x.shape) > LARGEST_MAP or not problem.x.size:
        return None
    return np.asarray(_ways.own_way(problem)[1](), np.float64)


def drawing(table, rows, given):
    """The SVG's text. table is what the command printed: its first line is the title."""
    parts, p = scatter(rows), probabilities(given)
    width = WIDTH
    if p is not None:
        parts += heat_map(p, WIDTH + 20)
        width += HEIGHT - TOP - BOTTOM + 110
    title = table.split("\n", 1)[0]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{HEIGHT}" viewBox="0 0 {width} {HEIGHT}" '
            f'font-family="sans-serif"><title>{html.escape(title)}</title>'
            f'<desc>drawn by libsoftmax {libsoftmax.__version__}</desc><rect width="100%" height="100%" fill="#fff"/>'
            + text(LEFT - 48, 22, title, 14) + "".join(parts) + "</svg>\n")
