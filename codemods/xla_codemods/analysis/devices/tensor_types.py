"""CUDA's tensor types: `torch.cuda.FloatTensor`, and "torch.cuda.FloatTensor"."""

from __future__ import annotations

import ast
from typing import NamedTuple

from ..parsed_file import ParsedFile

# Typed tensors -> their data types.
DTYPES = {
    "BFloat16Tensor": "bfloat16",
    "BoolTensor": "bool",
    "ByteTensor": "uint8",
    "CharTensor": "int8",
    "DoubleTensor": "float64",
    "FloatTensor": "float32",
    "HalfTensor": "float16",
    "IntTensor": "int32",
    "LongTensor": "int64",
    "ShortTensor": "int16",
}
# The same under CUDA's prefix.
CUDA_TYPES = tuple(f"torch.cuda.{kind}" for kind in DTYPES)


class TensorType(NamedTuple):
    """One type: where it stands, its name ("FloatTensor"), and the data type that it has."""

    node: ast.expr
    kind: str
    dtype: str


def cuda_type(script: ParsedFile, node: ast.expr) -> TensorType | None:
    """The CUDA tensor type that `node` is, or names in a string."""
    return _type(script, node, "torch.cuda.")


def host_type(script: ParsedFile, node: ast.expr) -> TensorType | None:
    """The CPU's tensor type that `node` is, or names; `torch.Tensor` is the default one, a FloatTensor."""
    if not isinstance(node, ast.Constant) and script.dotted(node) == "torch.Tensor":
        return TensorType(node, "FloatTensor", "float32")
    return _type(script, node, "torch.")


def _type(script: ParsedFile, node: ast.expr, home: str) -> TensorType | None:
    dotted = node.value if isinstance(node, ast.Constant) else script.dotted(node)
    if not isinstance(dotted, str) or not dotted.startswith(home):
        return None
    kind = dotted[len(home) :]
    return TensorType(node, kind, DTYPES[kind]) if kind in DTYPES else None
