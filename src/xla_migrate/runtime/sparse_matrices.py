"""Sparse matrices on the device: their indices and values, multiplied by gather and addition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ._backend import uses_torch_xla
from .devices import device_type

_MATRIX = 2  # dimensions
_HALVES = (torch.float16, torch.bfloat16)


def sparse(tensor: Any) -> Any:
    """A sparse tensor that can be moved to XLA, which has none: ``xla.sparse(adj).to(device)``.

    On XLA, and on native TPU and Neuron devices, this is a small object that keeps indices and values, and multiplies by gathering rows
    and adding them up, with gradients for both factors: ``adj @ x``, ``torch.mm``, ``torch.spmm``,
    ``torch.sparse.mm``, ``torch.mv``, ``torch.addmm``, and the same with the dense matrix first.
    Products take a number for each stored value and column in between. It has ``t()``,
    ``to_dense()``, ``to(...)``, ``shape``, ``indices()``, ``values()`` and the like, and can be
    multiplied by numbers. On the CPU (``.to("cpu")``, ``.cpu()``) it is a sparse tensor again.

    Args:
        tensor: A sparse matrix of any layout. A dense tensor is given back as it is.

    Returns:
        The object; on CUDA and the CPU ``tensor``.

    Raises:
        NotImplementedError: for more than two dimensions, and for what it cannot do.

    Example:
        >>> adj = torch.eye(3).to_sparse()
        >>> (xla.sparse(adj).to(xla.xla_device()) @ torch.ones(3, 2, device=xla.xla_device())).shape
        torch.Size([3, 2])
    """
    is_sparse = isinstance(tensor, torch.Tensor) and tensor.layout is not torch.strided
    if not is_sparse or not _lacks_them():
        return tensor
    if tensor.dim() != _MATRIX or (tensor.is_sparse and tensor.dense_dim()):
        raise NotImplementedError(
            f"xla.sparse of a tensor of shape {tuple(tensor.shape)}: only matrices with one number "
            "for each index are supported; make it dense, or convert its matrices one by one"
        )
    matrix = tensor if tensor.layout is torch.sparse_coo else tensor.to_sparse_coo()
    if matrix.requires_grad:  # `_values` has no gradient
        matrix = matrix.coalesce()
    rows, columns = matrix._indices()
    values = matrix.values() if matrix.requires_grad else matrix._values()
    return SparseMatrix(rows, columns, values, matrix.shape, matrix.is_coalesced())


def _lacks_them() -> bool:
    """True where devices have no sparse tensors: XLA, and the native devices."""
    from .eager.native import is_native

    return uses_torch_xla() or is_native(device_type())


class SparseMatrix:
    """The matrix that ``sparse`` returns on XLA. It is not a tensor; unsupported operations raise."""

    layout = torch.sparse_coo
    is_sparse = True
    is_sparse_csr = False
    ndim = _MATRIX

    def __init__(
        self,
        rows: torch.Tensor,
        columns: torch.Tensor,
        values: torch.Tensor,
        shape: torch.Size,
        coalesced: bool,
    ) -> None:
        self._rows, self._columns, self._data = rows, columns, values
        self.shape = shape
        self._coalesced = coalesced

    def __repr__(self) -> str:
        return f"SparseMatrix({tuple(self.shape)}, nnz={self._nnz()}, {self.dtype}, {self.device})"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"xla.sparse: a sparse matrix on XLA has no `{name}`{_ADVICE}")

    # What it is.

    @property
    def device(self) -> torch.device:
        return self._data.device

    @property
    def dtype(self) -> torch.dtype:
        return self._data.dtype

    @property
    def requires_grad(self) -> bool:
        return self._data.requires_grad

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        return _MATRIX

    def numel(self) -> int:
        return self.shape.numel()

    def __len__(self) -> int:
        return self.shape[0]

    def _nnz(self) -> int:
        return self._data.shape[0]

    def is_coalesced(self) -> bool:
        return self._coalesced

    def coalesce(self) -> SparseMatrix:
        if not self._coalesced:
            raise NotImplementedError(
                "coalesce() on XLA: the number of remaining values depends on data; coalesce on "
                "the CPU, before xla.sparse"
            )
        return self

    def _indices(self) -> torch.Tensor:
        return torch.stack([self._rows, self._columns])

    def _values(self) -> torch.Tensor:
        return self._data

    def indices(self) -> torch.Tensor:
        return self.coalesce()._indices()

    def values(self) -> torch.Tensor:
        return self.coalesce()._data

    # Others like it.

    def _with(self, values: torch.Tensor) -> SparseMatrix:
        return SparseMatrix(self._rows, self._columns, values, self.shape, self._coalesced)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """As of a tensor: a device, a dtype, both, or another tensor."""
        values = self._data.to(*args, **kwargs)
        device = values.device
        rows, columns = self._rows.to(device), self._columns.to(device)
        if device.type == "cpu" and torch._C._nn._parse_to(*args, **kwargs)[0] is not None:
            indices = torch.stack([rows, columns])
            return torch.sparse_coo_tensor(
                indices, values, self.shape, is_coalesced=self._coalesced or None
            )
        return SparseMatrix(rows, columns, values, self.shape, self._coalesced)

    def cpu(self) -> torch.Tensor:
        return self.to("cpu")  # type: ignore[no-any-return]

    def float(self) -> SparseMatrix:
        return self._with(self._data.float())

    def double(self) -> SparseMatrix:
        return self._with(self._data.double())

    def half(self) -> SparseMatrix:
        return self._with(self._data.half())

    def bfloat16(self) -> SparseMatrix:
        return self._with(self._data.bfloat16())

    def detach(self) -> SparseMatrix:
        return self._with(self._data.detach())

    def t(self) -> SparseMatrix:
        shape = torch.Size(reversed(self.shape))
        return SparseMatrix(self._columns, self._rows, self._data, shape, False)

    @property
    def T(self) -> SparseMatrix:  # noqa: N802
        return self.t()

    def transpose(self, dim0: int, dim1: int) -> SparseMatrix:
        return self if dim0 % _MATRIX == dim1 % _MATRIX else self.t()

    def to_dense(self) -> torch.Tensor:
        places = self._rows * self.shape[1] + self._columns
        return _added(self.numel(), places, self._data).view(self.shape)

    def __mul__(self, factor: Any) -> SparseMatrix:
        if not isinstance(factor, (int, float)):
            return NotImplemented
        return self._with(self._data * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> SparseMatrix:
        if not isinstance(divisor, (int, float)):
            return NotImplemented
        return self._with(self._data / divisor)

    def __neg__(self) -> SparseMatrix:
        return self._with(-self._data)

    # Products.

    def __matmul__(self, other: Any) -> torch.Tensor:
        return _product(self, other)

    def __rmatmul__(self, other: Any) -> torch.Tensor:
        return _product(other, self)

    mm = matmul = mv = spmm = __matmul__

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        known = _KNOWN.get(getattr(function, "__name__", ""))
        if known is None:
            raise NotImplementedError(
                f"xla.sparse: `{getattr(function, '__name__', function)}` of a sparse matrix on XLA"
                f"{_ADVICE}"
            )
        return known(*args, **(kwargs or {}))


_ADVICE = ": only products with dense matrices are supported; call `to_dense()` first, or compute on the CPU before `xla.sparse`"


def _product(one: Any, other: Any) -> torch.Tensor:
    if isinstance(one, SparseMatrix) and isinstance(other, SparseMatrix):
        raise NotImplementedError(
            "xla.sparse: a product of two sparse matrices on XLA: the number of its values depends "
            "on data; compute it on the CPU, or make one of them dense"
        )
    if isinstance(other, SparseMatrix):
        return _product(other.t(), one.t()).t() if one.dim() > 1 else _product(other.t(), one)
    if not isinstance(other, torch.Tensor):
        raise TypeError(f"a sparse matrix is multiplied by a tensor, not {type(other).__name__}")
    if other.dim() not in (1, _MATRIX) or one.shape[1] != other.shape[0]:
        raise RuntimeError(
            f"a sparse matrix of shape {tuple(one.shape)} cannot be multiplied by a tensor of shape "
            f"{tuple(other.shape)}"
        )
    values = one._data
    if torch.is_autocast_enabled("xla"):
        dtype = torch.get_autocast_dtype("xla")
        values, other = values.to(dtype), other.to(dtype)
    if values.dtype != other.dtype:
        raise RuntimeError(
            f"expected both factors to have one dtype: {values.dtype}, {other.dtype}"
        )
    rows = other.index_select(0, one._columns)
    return _added(one.shape[0], one._rows, rows * (values if rows.dim() == 1 else values[:, None]))


def _added(size: int, places: torch.Tensor, parts: torch.Tensor) -> torch.Tensor:
    """The sum of the parts at each place; halves add up in float32, as on CUDA."""
    dtype = torch.float32 if parts.dtype in _HALVES else parts.dtype
    zeros = torch.zeros(size, *parts.shape[1:], dtype=dtype, device=parts.device)
    return zeros.index_add(0, places, parts.to(dtype)).to(parts.dtype)


def _addmm(input: Any, one: Any, other: Any, *, beta: float = 1, alpha: float = 1) -> torch.Tensor:
    return beta * input + alpha * _product(one, other)  # type: ignore[no-any-return]


# By the names of torch's functions and methods.
_KNOWN: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(
        ("mm", "matmul", "mv", "_sparse_mm", "__matmul__", "__rmatmul__"),
        lambda input, other: _product(input, other),
    ),
    **dict.fromkeys(("addmm", "_sparse_addmm"), _addmm),
    "t": lambda input: input.t(),
    "transpose": lambda input, dim0, dim1: input.transpose(dim0, dim1),
    "is_floating_point": lambda input: input.dtype.is_floating_point,
}
