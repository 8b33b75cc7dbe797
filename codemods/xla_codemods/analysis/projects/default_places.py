"""Modules whose programs make new tensors on an accelerator, because another of their modules sets a default."""

from __future__ import annotations

from ...patterns import Pattern
from .files import ProjectFiles

DEFAULT_DEVICE = "set_default_device"
_SETTINGS = {
    DEFAULT_DEVICE: Pattern(r"\bset_default_device\([^\n)]*(?:cuda|device)"),
    "set_default_tensor_type": Pattern(r"\bset_default_tensor_type\([^\n]*cuda"),
}


def cuda_defaults(modules: ProjectFiles, path: str) -> frozenset[str]:
    """Return the settings of a CUDA or given device, or a CUDA tensor type, in other modules of programs with this one."""

    def is_set(name: str) -> bool:
        having = modules.with_word(name) - {path}
        others = having & modules.graph.programs(path) if having else having
        return any(_SETTINGS[name].search(modules.text(other)) for other in others)

    return frozenset(filter(is_set, _SETTINGS))
