"""What the extension asks of arrays that it knows by `__dlpack__` alone: JAX's, CuPy's."""
import contextlib
import ctypes
import functools
import importlib
import sys

import numpy


def _library(array):
    """The module of the array's functions."""
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__()
    return importlib.import_module(type(array).__module__.split(".")[0])


def adopt(like, block):
    """A new tensor of the extension's, as an array of like's library."""
    return _library(like).from_dlpack(block)


def empty(like, shape, dtype):
    """A new array of like's library on like's device."""
    library = _library(like)
    if dtype == "bfloat16" and not hasattr(library, dtype):
        import ml_dtypes

        kind = ml_dtypes.bfloat16
    else:
        kind = getattr(library, dtype)
    if hasattr(like, "device"):
        try:
            return library.empty(shape, dtype=kind, device=like.device)
        except TypeError:  # CuPy allocates on the current device
            pass
    return library.empty(shape, dtype=kind)


def number(like, value, dtype):
    """An array of like's library that holds one number, on like's device."""
    library = _library(like)
    try:
        return library.full((), value, dtype=getattr(library, dtype), device=like.device)
    except TypeError:  # CuPy allocates on the current device
        return library.full((), value, dtype=getattr(library, dtype))


def current_stream(array):
    """The address of the CUDA stream on which the array's library would work now; 1 is CUDA's default stream. None where only the library knows:
    JAX, whose arrays are made ready on the default stream by `__dlpack__`, and which must find results finished."""
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(array, cupy.ndarray):
        return cupy.cuda.get_current_stream().ptr or 1
    return None


@functools.cache
def _driver():
    """CUDA's driver, which is there where an array on a device is."""
    driver = ctypes.CDLL("libcuda.so.1")
    for name, kinds in _DRIVER_CALLS.items():
        getattr(driver, name).argtypes = kinds
    return driver


_pointer = ctypes.c_void_p
_DRIVER_CALLS = {
    "cuDeviceGet": [_pointer, ctypes.c_int],
    "cuDevicePrimaryCtxRetain": [_pointer, ctypes.c_int],
    "cuCtxPushCurrent_v2": [_pointer],
    "cuCtxPopCurrent_v2": [_pointer],
    "cuEventCreate": [_pointer, ctypes.c_uint],
    "cuEventRecord": [_pointer, _pointer],
    "cuStreamWaitEvent": [_pointer, _pointer, ctypes.c_uint],
    "cuEventDestroy_v2": [_pointer],
    "cuStreamSynchronize": [_pointer],
}
_NO_TIMING = 2


def _call(name, *arguments):
    code = getattr(_driver(), name)(*arguments)
    if code:
        raise RuntimeError(f"CUDA's driver: {name} gave error {code}")


@functools.cache
def _context(device):
    """The context that CUDA's runtime, and so every library, uses on a device."""
    handle, context = ctypes.c_int(), _pointer()
    _call("cuDeviceGet", ctypes.byref(handle), device)
    _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
    return context


@contextlib.contextmanager
def _current(device):
    _call("cuCtxPushCurrent_v2", _context(device))
    try:
        yield
    finally:
        _call("cuCtxPopCurrent_v2", ctypes.byref(_pointer()))


def order(device, first, then):
    """What is put on the stream `then` from now on begins after what is on the stream `first` now. The host does not wait."""
    event = _pointer()
    with _current(device):
        _call("cuEventCreate", ctypes.byref(event), _NO_TIMING)
        try:
            _call("cuEventRecord", event, first)
            _call("cuStreamWaitEvent", then, event, 0)
        finally:
            _call("cuEventDestroy_v2", event)  # the driver keeps it as long as it is waited for


def wait(device, stream):
    """Until the work on the stream is done."""
    with _current(device):
        _call("cuStreamSynchronize", stream)


def sent(like, data):
    """A new array of like's library on like's device that holds the bytes of data; the copy may wait."""
    library = _library(like)
    if hasattr(library, "frombuffer") and hasattr(like, "new_empty"):  # torch
        return library.frombuffer(bytearray(data), dtype=library.uint8).to(like.device)
    host = numpy.frombuffer(data, numpy.uint8)
    try:
        return library.asarray(host, device=like.device)
    except TypeError:  # CuPy copies to the current device
        with like.device:
            return library.asarray(host)


def fetched(array):
    """The bytes of an array on a device, when the work that its library has for it now is done."""
    if hasattr(array, "cpu"):  # torch
        array = array.cpu()
    elif hasattr(array, "get"):  # cupy
        array = array.get()
    return numpy.asarray(array).tobytes()
