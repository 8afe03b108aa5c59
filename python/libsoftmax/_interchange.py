"""What the extension asks of arrays that it knows by `__dlpack__` alone: JAX's, CuPy's."""
import ctypes
import importlib
import sys


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


def wait(stream):
    """Until the work on the stream, 0 for the default one, is done. The driver is loaded where there was work for it."""
    code = ctypes.CDLL("libcuda.so.1").cuStreamSynchronize(ctypes.c_void_p(stream))
    if code:
        raise RuntimeError(f"CUDA's driver could not wait for a stream: error {code}")
