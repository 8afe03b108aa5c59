"""The softmax family as Triton kernels, for study and for GPUs that Triton knows: softmax, its backward, and cross-entropy with
its gradient, for float32, float16 and bfloat16 tensors of PyTorch.

    from libsoftmax.triton import softmax
    y = softmax(x)                       # x on a GPU, or on the CPU with TRITON_INTERPRET=1 set before the import

The kernels are in libsoftmax/triton/kernels.py. They hold no bit contract: their bits depend on the launch, and their error is that of
float32's x - max (docs/tutorial.md). `libsoftmax` itself is more accurate, and faster where it has a CUDA backend.
"""

try:
    import torch as _torch
    import triton as _triton
except ImportError as error:
    raise ImportError(f"libsoftmax.triton needs PyTorch and Triton, and {error.name} is not installed: "
                      "pip install 'libsoftmax[triton]'") from error

from .launch import cross_entropy, multiply_unless_one, softmax, softmax_backward

__all__ = ["cross_entropy", "multiply_unless_one", "softmax", "softmax_backward"]
