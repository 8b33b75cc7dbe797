"""Modules whose programs make new tensors on an accelerator, because another of their modules sets a default."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...patterns import Pattern

if TYPE_CHECKING:
    from .files import ProjectFiles

_SETTINGS = {
    "set_default_tensor_type": Pattern(r"\bset_default_tensor_type\([^\n]*cuda"),
    "set_default_device": Pattern(r"\bset_default_device\([^\n)]*(?:cuda|device)"),
}


def sets_cuda_type(modules: ProjectFiles, path: str) -> bool:
    """Return True if another module of a program with the one at `path` makes a CUDA tensor type the default."""
    return _sets(modules, path, "set_default_tensor_type")


def sets_cuda_device(modules: ProjectFiles, path: str) -> bool:
    """Return True if another module of a program with the one at `path` makes a CUDA or given device the default."""
    return _sets(modules, path, "set_default_device")


def _sets(modules: ProjectFiles, path: str, setting: str) -> bool:
    having = modules.with_word(setting) - {path}
    others = having & modules.graph.programs(path) if having else having
    return any(_SETTINGS[setting].search(modules.text(other)) for other in others)
