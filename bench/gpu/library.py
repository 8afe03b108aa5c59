"""libsoftmax by ctypes over PyTorch's GPU memory: raw pointers and the current stream, nothing in between that could be timed."""
import ctypes
import os

import torch


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int), ("device_id", ctypes.c_int),
                ("ndim", ctypes.c_int), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_P = ctypes.POINTER(DLTensor)


class Options(ctypes.Structure):
    """softmax_options, field by field."""
    _fields_ = [("size", ctypes.c_size_t), ("softcap", ctypes.c_double), ("scale", ctypes.c_double), ("bias", _P),
                ("mask", _P), ("valid_lengths", _P), ("causal", ctypes.c_int32), ("empty_rows", ctypes.c_int32),
                ("causal_offset", ctypes.c_int64), ("first_column", ctypes.c_int64), ("ignore_index", ctypes.c_int64),
                ("label_smoothing", ctypes.c_double), ("z_loss", ctypes.c_double), ("class_weights", _P),
                ("grad_output", _P), ("targets_gradient", _P), ("row_logsumexp", _P), ("reduction", ctypes.c_int32),
                ("threads", ctypes.c_int32), ("isa", ctypes.c_char_p), ("stream", ctypes.c_void_p),
                ("device_status", ctypes.c_void_p), ("message", ctypes.c_char_p), ("message_bytes", ctypes.c_size_t),
                ("scratch", ctypes.c_void_p), ("scratch_bytes", ctypes.c_size_t),
                ("scratch_needed", ctypes.POINTER(ctypes.c_size_t)), ("cuda_kernel", ctypes.c_char_p)]


TYPES = {torch.float32: (2, 32), torch.float64: (2, 64), torch.float16: (2, 16), torch.bfloat16: (4, 16),
         torch.int64: (0, 64), torch.int32: (0, 32), torch.uint8: (1, 8)}


def dl(tensor):
    """A DLTensor over the tensor's memory; it keeps the tensor."""
    code, bits = TYPES[tensor.dtype]
    shape = (ctypes.c_int64 * max(tensor.dim(), 1))(*tensor.shape)
    strides = (ctypes.c_int64 * max(tensor.dim(), 1))(*tensor.stride())
    made = DLTensor(tensor.data_ptr(), 2, tensor.device.index or 0, tensor.dim(), code, bits, 1, shape, strides, 0)
    made.keeps = (tensor, shape, strides)
    return made


class Library:
    """The library's calls as closures that a timer can run: all arguments are made beforehand."""

    def __init__(self, path):
        self.c = ctypes.CDLL(os.path.abspath(path))
        self.c.softmax_cuda_kernel_name.restype = ctypes.c_char_p
        self.c.softmax_version.restype = ctypes.c_char_p
        self.c.softmax_status_string.restype = ctypes.c_char_p

    def version(self):
        return self.c.softmax_version().decode()

    def kernels(self):
        names = []
        while self.c.softmax_cuda_kernel_name(len(names)):
            names.append(self.c.softmax_cuda_kernel_name(len(names)).decode())
        return names

    def devices(self):
        return self.c.softmax_cuda_device_count()

    def call(self, name, tensors, kernel=None, axis=-1, **options):
        """softmax_<name> over tensors (None: NULL) as a function of no arguments; None if the kernel cannot run it."""
        made = Options(size=ctypes.sizeof(Options), scale=1.0, ignore_index=-100, reduction=2)
        message = ctypes.create_string_buffer(300)
        made.message, made.message_bytes = ctypes.cast(message, ctypes.c_char_p), 300
        made.cuda_kernel = kernel.encode() if kernel else None
        for key, value in options.items():
            setattr(made, key, ctypes.pointer(dl(value)) if isinstance(value, torch.Tensor) else value)
        views = [None if t is None else dl(t) for t in tensors]
        pointers = [None if v is None else ctypes.byref(v) for v in views]
        function = getattr(self.c, "softmax_" + name)
        needed = ctypes.c_size_t(0)
        made.scratch_needed = ctypes.pointer(needed)
        if function(*pointers, axis, ctypes.byref(made)) != 0:
            if kernel:
                return None
            raise RuntimeError(message.value.decode())
        made.scratch_needed = None
        scratch = torch.empty(max(needed.value, 1), dtype=torch.uint8, device="cuda")
        made.scratch, made.scratch_bytes = scratch.data_ptr(), needed.value

        def run(keeps=(views, message, scratch, needed, tensors)):
            made.stream = torch.cuda.current_stream().cuda_stream
            if function(*pointers, axis, ctypes.byref(made)) != 0:
                raise RuntimeError(message.value.decode())
        return run
