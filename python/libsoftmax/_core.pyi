"""The extension module. Its docstrings say what each function computes; these are their types."""
from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, final, overload

from numpy.typing import NDArray

class _HasDLPack(Protocol):
    def __dlpack__(self) -> Any: ...
    def __dlpack_device__(self) -> Any: ...

# What is no array yet becomes NumPy's; an array gives an array of its own kind.
_Array = TypeVar("_Array", bound=_HasDLPack)
_Numbers: TypeAlias = float | Sequence[Any]
_Input: TypeAlias = _HasDLPack | _Numbers
_Axis: TypeAlias = int | tuple[int, ...] | None
_EmptyRows: TypeAlias = Literal["nan", "zero"]
_Streaming: TypeAlias = Literal["choose", "never", "always"]
_Reduction: TypeAlias = Literal["none", "sum", "mean"]

__version__: str
BLOCK_COLUMNS: int

@overload
def softmax(
    x: _Array,
    axis: _Axis = -1,
    *,
    out: _Array | None = None,
    dtype: Any = None,
    softcap: float = 0.0,
    scale: float = 1.0,
    bias: _Input | None = None,
    mask: _Input | None = None,
    valid_lengths: _Input | None = None,
    causal: bool = False,
    causal_offset: int = 0,
    empty_rows: _EmptyRows = "nan",
    threads: int = 0,
    isa: str | None = None,
    streaming: _Streaming = "choose",
    stream: Any = None,
    cuda_kernel: str | None = None,
) -> _Array: ...
@overload
def softmax(
    x: _Numbers,
    axis: _Axis = -1,
    *,
    out: NDArray[Any] | None = None,
    dtype: Any = None,
    softcap: float = 0.0,
    scale: float = 1.0,
    bias: _Input | None = None,
    mask: _Input | None = None,
    valid_lengths: _Input | None = None,
    causal: bool = False,
    causal_offset: int = 0,
    empty_rows: _EmptyRows = "nan",
    threads: int = 0,
    isa: str | None = None,
    streaming: _Streaming = "choose",
    stream: Any = None,
    cuda_kernel: str | None = None,
) -> NDArray[Any]: ...
@overload
def log_softmax(
    x: _Array,
    axis: _Axis = -1,
    *,
    out: _Array | None = None,
    dtype: Any = None,
    softcap: float = 0.0,
    scale: float = 1.0,
    bias: _Input | None = None,
    mask: _Input | None = None,
    valid_lengths: _Input | None = None,
    causal: bool = False,
    causal_offset: int = 0,
    empty_rows: _EmptyRows = "nan",
    threads: int = 0,
    isa: str | None = None,
    streaming: _Streaming = "choose",
    stream: Any = None,
    cuda_kernel: str | None = None,
) -> _Array: ...
@overload
def log_softmax(
    x: _Numbers,
    axis: _Axis = -1,
    *,
    out: NDArray[Any] | None = None,
    dtype: Any = None,
    softcap: float = 0.0,
    scale: float = 1.0,
    bias: _Input | None = None,
    mask: _Input | None = None,
    valid_lengths: _Input | None = None,
    causal: bool = False,
    causal_offset: int = 0,
    empty_rows: _EmptyRows = "nan",
    threads: int = 0,
    isa: str | None = None,
    streaming: _Streaming = "choose",
    stream: Any = None,
    cuda_kernel: str | None = None,
) -> NDArray[Any]: ...
@overload
def logsumexp(
    x: _Array,
    axis: _Axis = -1,
    *,
    out: _Array | None = None,
    dtype: Any = None,
    keepdims: bool = False,
    softcap: float = 0.0,
    scale: float = 1.0,
    bias: _Input | None = None,
    mask: _Input | None = None,
    valid_lengths: _Input | None = None,
    causal: bool = False,
    causal_offset: int = 0,
    empty_rows: _EmptyRows = "nan",
    b: None = None,
    return_sign: Literal[False] = False,
    threads: int = 0,
    isa: str | None = None,
    streaming: _Streaming = "choose",
    stream: Any = None,
    cuda_kernel: str | None = None,
) -> _Array: ...
@overload
def logsumexp(
    x: _Numbers,
    axis: _Axis = -1,
    *,
    out: NDArray[Any] | None = None,
    dtype: Any = None,
    keepdims: bool = False,
    softcap: float = 0.0,
    scale: float = 1.0,
    bias: _Input | None = None,
    mask: _Input | None = None,
    valid_lengths: _Input | None = None,
    causal: bool = False,
    causal_offset: int = 0,
    empty_rows: _EmptyRows = "nan",
    b: None = None,
    return_sign: Literal[False] = False,
    threads: int = 0,
    isa: str | None = None,
    streaming: _Streaming = "choose",
    stream: Any = None,
    cuda_kernel: str | None = None,
) -> NDArray[Any]: ...
@overload
def softmax_backward(
    y: _Array,
    dy: _Array,
    axis: _Axis = -1,
    *,
    out: _Array | None = None,
    dtype: Any = None,
    empty_rows: _EmptyRows = "nan",
    threads: int = 0,
    isa: str | None = None,
    streaming: _Streaming = "choose",
    stream: Any = None,
    cuda_kernel: str | None = None,
) -> _Array: ...
@overload
def softmax_backward(
    y: _Numbers,
    dy: _Numbers,
    axis: _Axis = -1,
    *,
    out: NDArray[Any] | None = None,
    dtype: Any = None,
    empty_rows: _EmptyRows = "nan",
    threads: int = 0,
    isa: str | None = None,
    streaming: _Streaming = "choose",
    stream: Any = None,
    cuda_kernel: str | None = None,
) -> NDArray[Any]: ...
@overload
def log_softmax_backward(
    y: _Array,
    dy: _Array,
    axis: _Axis = -1,
    *,
    out: _Array | None = None,
    dtype: Any = None,
    empty_rows: _EmptyRows = "nan",
    threads: int = 0,
    isa: str | None = None,
    streaming: _Streaming = "choose",
    stream: Any = None,
    cuda_kernel: str | None = None,
) -> _Array: ...
@overload
def log_softmax_backward(
    y: _Numbers,
    dy: _Numbers,
    axis: _Axis = -1,
    *,
    out: NDArray[Any] | None = None,
    dtype: Any = None,
    empty_rows: _EmptyRows = "nan",
    threads: int = 0,
    isa: str | None = None,
    streaming: _Streaming = "choose",
    stream: Any = None,
    cuda_kernel: str | None = None,
) -> NDArray[Any]: ...

# The loss alone, or a tuple of it and what was asked for.
def cross_entropy(
    logits: _Input,
    targets: _Input,
    axis: int = -1,
    *,
    reduction: _Reduction = "mean",
    gradient: bool | _HasDLPack | None = None,
    out: _HasDLPack | None = None,
    dtype: Any = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    class_weights: _Input | None = None,
    grad_output: _Input | None = None,
    targets_gradient: bool | _HasDLPack | None = None,
    row_logsumexp: bool | _HasDLPack | None = None,
    softcap: float = 0.0,
    mask: _Input | None = None,
    valid_lengths: _Input | None = None,
    empty_rows: _EmptyRows = "nan",
    device_status: _HasDLPack | None = None,
    threads: int = 0,
    isa: str | None = None,
    streaming: _Streaming = "choose",
    stream: Any = None,
    cuda_kernel: str | None = None,
) -> Any: ...
def instruction_sets() -> list[str]: ...
def cache_info() -> dict[str, int]: ...
def set_cache_limit(limit_bytes: int, /) -> None: ...

@final
class State:
    def __new__(cls, shape: int | tuple[int, ...] = (), dtype: Any = "float32") -> State: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def device(self) -> str: ...
    def cpu(self) -> State: ...
    def merge(self, other: State, *, stream: Any = None) -> State: ...
    def logsumexp(self, *, out: Any = None, stream: Any = None) -> Any: ...
    def update(
        self,
        tile: _Input,
        axis: int = -1,
        *,
        first_column: int | None = None,
        softcap: float = 0.0,
        scale: float = 1.0,
        bias: _Input | None = None,
        mask: _Input | None = None,
        valid_lengths: _Input | None = None,
        causal: bool = False,
        causal_offset: int = 0,
        threads: int = 0,
        isa: str | None = None,
        streaming: _Streaming = "choose",
        stream: Any = None,
        cuda_kernel: str | None = None,
    ) -> State: ...
    def normalise(
        self,
        tile: _Array,
        axis: int = -1,
        *,
        out: _Array | None = None,
        first_column: int | None = None,
        softcap: float = 0.0,
        scale: float = 1.0,
        bias: _Input | None = None,
        mask: _Input | None = None,
        valid_lengths: _Input | None = None,
        causal: bool = False,
        causal_offset: int = 0,
        empty_rows: _EmptyRows = "nan",
        threads: int = 0,
        isa: str | None = None,
        streaming: _Streaming = "choose",
        stream: Any = None,
        cuda_kernel: str | None = None,
    ) -> _Array: ...
    def log_normalise(
        self,
        tile: _Array,
        axis: int = -1,
        *,
        out: _Array | None = None,
        first_column: int | None = None,
        softcap: float = 0.0,
        scale: float = 1.0,
        bias: _Input | None = None,
        mask: _Input | None = None,
        valid_lengths: _Input | None = None,
        causal: bool = False,
        causal_offset: int = 0,
        empty_rows: _EmptyRows = "nan",
        threads: int = 0,
        isa: str | None = None,
        streaming: _Streaming = "choose",
        stream: Any = None,
        cuda_kernel: str | None = None,
    ) -> _Array: ...
    def __copy__(self) -> State: ...
    def __deepcopy__(self, memo: Any, /) -> State: ...
    def __reduce__(self) -> Any: ...
    def __setstate__(self, bytes: bytes, /) -> None: ...
