"""Several axes as one: `axis` a tuple, or None for all."""
import sys

import numpy

import libsoftmax._core as core


def _library(array):
    """numpy for what is no array yet, else the array itself with its methods."""
    return array if hasattr(array, "__dlpack__") or isinstance(array, numpy.ndarray) else numpy.asarray(array)


def _permute(array, order):
    return array.permute(order) if hasattr(array, "permute") else array.transpose(order)


def _axes(name, axis, ndim):
    if axis is None:
        return tuple(range(ndim))
    axes = []
    for a in axis:
        if not hasattr(a, "__index__"):
            raise TypeError(f"{name}: axis is {axis!r}; an int, a tuple of ints or None is allowed")
        if not -ndim <= a.__index__() < ndim:
            raise ValueError(f"{name}: axis is {axis!r}; x has {ndim} dimensions, so {-ndim} to {ndim - 1} are allowed")
        axes.append(a.__index__() % ndim)
    if len(set(axes)) != len(axes):
        raise ValueError(f"{name}: axis is {axis!r}; each axis once is allowed")
    return tuple(sorted(axes))


class _Together:
    """The axes of arrays of one shape, moved to the end and made one."""

    def __init__(self, name, axis, shape):
        self.axes = _axes(name, axis, len(shape))
        self.shape = tuple(shape)
        self.rest = tuple(d for d in range(len(shape)) if d not in self.axes)
        self.order = self.rest + self.axes
        self.rows = tuple(shape[d] for d in self.rest)
        self.kept = tuple(1 if d in self.axes else n for d, n in enumerate(shape))
        self.columns = 1
        for d in self.axes:
            self.columns *= shape[d]

    def join(self, array):
        """(rows..., columns): a view where strides allow, else a copy."""
        return _permute(array, self.order).reshape(self.rows + (self.columns,))

    def together_in(self, array):
        """Whether the axes lie together in the array's memory, one stride for all: then join gives a view."""
        steps = getattr(array, "strides", None) or (array.stride() if hasattr(array, "stride") else None)
        if steps is None:
            return False
        seen = [(self.shape[d], steps[d]) for d in self.axes if self.shape[d] != 1]
        return all(a[1] == b[0] * b[1] for a, b in zip(seen, seen[1:]))

    def part(self, array):
        """The inverse, for results."""
        back = [0] * len(self.order)
        for place, d in enumerate(self.order):
            back[d] = place
        return _permute(array.reshape(tuple(self.shape[d] for d in self.order)), tuple(back))

    def keep(self, array):
        """Results without the axes, with 1 there."""
        return array.reshape(self.kept)

    def broadcast(self, array):
        """An option that broadcasts to x."""
        array = _library(array)
        if hasattr(array, "broadcast_to"):  # torch
            return self.join(array.broadcast_to(self.shape))
        return self.join(_broadcast(array, self.shape))

    def broadcast_rows(self, array):
        array = _library(array)
        return array.broadcast_to(self.rows) if hasattr(array, "broadcast_to") else _broadcast(array, self.rows)


def _broadcast(array, shape):
    if isinstance(array, numpy.ndarray):
        return numpy.broadcast_to(array, shape)
    return array.__array_namespace__().broadcast_to(array, shape)


def _is_fresh(joined, array):
    """Whether joined is a copy of the array, of a library whose arrays may be written: nobody else sees it."""
    library = sys.modules.get(type(array).__module__.split(".")[0])
    if hasattr(library, "may_share_memory"):  # NumPy and CuPy
        return not library.may_share_memory(joined, array)
    return hasattr(array, "data_ptr") and joined.data_ptr() != array.data_ptr()


def along_several(name, words):
    """The function `name` of the extension, with axis=None or a tuple. `words` are its arguments by name."""
    words = dict(words)
    axis = words.pop("axis")
    out = words.pop("out", None)
    keepdims = words.pop("keepdims", False)
    inputs = ("y", "dy") if "y" in words else ("x",)
    first = _library(words[inputs[0]])
    if isinstance(first, numpy.ndarray) and first.dtype.kind in "iu" and isinstance(words[inputs[0]], (list, tuple, int)):
        first = first.astype(float)
    if not (hasattr(first, "shape") and hasattr(first, "reshape")):
        raise TypeError(f"{name}: axis is {axis!r} and {inputs[0]} a {type(first).__name__}, which has no reshape; an int is allowed")
    if words.get("causal"):
        raise ValueError(f"{name}: causal is True and axis is {axis!r}; the last axis alone is allowed")
    together = _Together(name, axis, first.shape)
    words[inputs[0]] = joined = together.join(first)
    if len(inputs) > 1:
        dy = _library(words["dy"])
        if tuple(dy.shape) != together.shape:
            raise ValueError(f"{name}: dy has shape {tuple(dy.shape)}; {together.shape}, the shape of y, is required")
        words["dy"] = together.join(dy)
    for option in ("bias", "mask"):
        if option in words:
            words[option] = together.broadcast(words[option])
    if "valid_lengths" in words:
        words["valid_lengths"] = together.broadcast_rows(words["valid_lengths"])
    same_shape = name != "logsumexp"
    required = together.shape if same_shape else together.kept if keepdims else together.rows
    if out is not None and tuple(out.shape) != required:
        raise ValueError(f"{name}: out has shape {tuple(out.shape)}; {required} is required")
    if same_shape and out is not None and together.together_in(out):
        getattr(core, name)(axis=-1, out=together.join(out), **words)
        return out
    if same_shape and "dtype" not in words and _is_fresh(joined, first):
        words["out"] = joined
    result = getattr(core, name)(axis=-1, **words)
    if same_shape:
        result = together.part(result)
    elif keepdims:
        result = together.keep(_library(result))
    if out is None:
        return result
    out[...] = result
    return out
