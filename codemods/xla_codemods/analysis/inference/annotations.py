"""Infer a value from an annotation or a base class."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Protocol

from ..bindings import ScopeNode
from ..scopes import Scope, resolve
from ..syntax import text_of
from .values import (
    ACCELERATOR,
    DATASET,
    DEVICE,
    LOADER,
    MODULE,
    OPTIMIZER,
    SAMPLER,
    SCALER,
    SCHEDULER,
    TENSOR,
    UNKNOWN,
    Value,
    join,
    of,
)

_BASES: tuple[tuple[str, str], ...] = (
    ("torch.optim.lr_scheduler.", SCHEDULER),
    ("torch.optim.", OPTIMIZER),
    ("torch.nn.utils.", ""),
    ("torch.nn.", MODULE),
    ("torchvision.models.", MODULE),
    ("pytorch_lightning.LightningModule", MODULE),
    ("lightning.LightningModule", MODULE),
    ("lightning.pytorch.LightningModule", MODULE),
    ("transformers.PreTrainedModel", MODULE),
)


class Evaluator(Protocol):
    """The interface of `Inference` that `annotated` uses; `Inference` in turn uses annotations."""

    @property
    def scopes(self) -> Mapping[ScopeNode, Scope]: ...

    def value(self, node: ast.AST | None, scope: Scope) -> Value: ...

    def instance(self, definition: ast.ClassDef, scope: Scope) -> Value: ...


@lru_cache(5_000)
def kinds_of(dotted: str) -> AbstractSet[str]:
    """Kinds that deriving from, or being annotated as, `dotted` gives."""
    for prefix, kind in _BASES:
        if dotted.startswith(prefix):
            return {kind} if kind else set()
    last = dotted.rpartition(".")[2]
    if dotted.startswith("torch.utils.data"):
        if last.endswith("Dataset"):
            return {DATASET}
        if last.endswith("Sampler"):
            return {SAMPLER}
        if last.endswith("DataLoader"):
            return {LOADER}
    if last == "GradScaler":
        return {SCALER}
    if last in {"LRScheduler", "_LRScheduler"}:
        return {SCHEDULER}
    if dotted in {"accelerate.Accelerator", "accelerate.accelerator.Accelerator"}:
        return {ACCELERATOR}
    return set()


def annotated(values: Evaluator, annotation: ast.expr | None, scope: Scope) -> Value:
    """What is annotated so: `x: torch.Tensor`, `"nn.Module"`, `Optional[Net]`, `Net | None`."""
    if annotation is None:
        return UNKNOWN
    if (text := text_of(annotation)) is not None:
        try:
            annotation = ast.parse(text, mode="eval").body
        except SyntaxError:
            return UNKNOWN
    dotted = resolve(annotation, scope)
    if dotted in {"torch.Tensor", "torch.FloatTensor", "torch.LongTensor"}:
        return of(TENSOR)
    if dotted is not None:
        kinds = frozenset({DEVICE} if dotted == "torch.device" else kinds_of(dotted))
        return Value(kinds) if kinds else UNKNOWN
    if isinstance(annotation, ast.BinOp):  # X | None
        sides = (annotation.left, annotation.right)
        return join(*(annotated(values, side, scope) for side in sides))
    if isinstance(annotation, ast.Subscript):
        optional = resolve(annotation.value, scope) in {"typing.Optional", "Optional"}
        return annotated(values, annotation.slice if optional else annotation.value, scope)
    definition = values.value(annotation, scope).definition
    if isinstance(definition, ast.ClassDef):
        home = values.scopes.get(definition, scope)
        return values.instance(definition, home.parent or home)
    return UNKNOWN
