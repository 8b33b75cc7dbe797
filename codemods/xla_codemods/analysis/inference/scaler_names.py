"""Common names of optimizers and loss scalers, for code in which only the names are known."""

from __future__ import annotations

import ast
import re

from ...patterns import Pattern
from ..syntax import name_of

# Names that by themselves say what they are; used only where the analysis cannot see the value.
OPTIMIZER_NAME = Pattern(r"(?:^|_)opt(?:im(?:izer)?)?s?(?:_?[a-z0-9]{0,4})?$|optim", re.IGNORECASE)


def is_called_a_scaler(node: ast.expr) -> bool:
    last = name_of(node)
    return last.lower().endswith("scaler")


def scaled_by_name(call: ast.Call) -> ast.expr | None:
    """`loss` of `loss_scaler(loss, optimizer, ...)`, as timm and MAE have it: backward, clipping and step in one."""
    match call.args:
        case [loss, ast.Name(id=name) | ast.Attribute(attr=name), *_] if is_called_a_scaler(
            call.func
        ):
            return loss if OPTIMIZER_NAME.search(name) else None
    return None
