"""How far a result is from the exact one, and whether two are the same: in ULP of the result's type, by float64 on a few rows; FNV-1a hashes."""
import torch

PRECISION = {torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}
SMALLEST = {torch.float32: -126, torch.float16: -14, torch.bfloat16: -126}


def ulps(result, exact):
    """The largest error where the exact result is a normal number; inf where one is NaN and the other not."""
    dtype = result.dtype
    if result.isnan().ne(exact.isnan()).any():
        return float("inf")
    exponent = torch.frexp(exact)[1] - 1
    unit = torch.exp2((exponent.clamp(min=SMALLEST[dtype]) - PRECISION[dtype] + 1).double())
    counted = (exact.abs() >= 2.0 ** SMALLEST[dtype]) & exact.isfinite()
    error = ((result.double() - exact).abs() / unit)[counted]
    return error.max().item() if error.numel() else 0.0


def softmax_exact(x, log=False):
    x = x.double()
    return torch.log_softmax(x, 1) if log else torch.softmax(x, 1)


def hash_of(tensor):
    """Of a few rows' bytes."""
    value = 0xcbf29ce484222325
    for byte in tensor.contiguous().view(torch.uint8).flatten().cpu().numpy().tobytes():
        value = (value ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return f"{value:016x}"
