"""Activation checkpointing in transformers: the function of the runtime takes the place of PyTorch's."""

from __future__ import annotations

import ast

from ..script import Script

_MODULE = "modeling_utils"
_ENABLE = "gradient_checkpointing_enable"


def patch(script: Script) -> str:
    """Return the statements that make transformers' models use the runtime's function."""
    return (
        f"from transformers import {_MODULE}\n"
        "# PyTorch's activation checkpointing fails on XLA.\n"
        f"{_MODULE}.checkpoint = {script.xla}.checkpoint"
    )


def is_patched(script: Script) -> bool:
    """Return True if the script has given transformers another function."""
    stores = script.index.stores("checkpoint")
    return any(ast.unparse(store.value).endswith(_MODULE) for store in stores)


def is_enabled_before(script: Script, statement: ast.stmt) -> bool:
    """Return True if an earlier statement of the block is `model.gradient_checkpointing_enable()`, which is patched itself."""
    block = script.block(statement)
    return any(
        isinstance(other, ast.Expr)
        and isinstance(other.value, ast.Call)
        and isinstance(other.value.func, ast.Attribute)
        and other.value.func.attr == _ENABLE
        for other in block[: block.index(statement)]
    )
