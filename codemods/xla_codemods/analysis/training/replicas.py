"""Is this a program for several processes?"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..parsed_file import ParsedFile


_OF_REPLICAS = ("DistributedDataParallel", "DDP", "init_process_group", "spawn")


def is_of_replicas(script: ParsedFile) -> bool:
    """True if the script, or another module of its program, is one for several processes."""
    if any(script.index.calls_of(name) for name in _OF_REPLICAS):
        return True
    if script.source.mentions("deepspeed") and script.index.calls_of("initialize"):
        return True
    return script.project is not None and script.project.mentions(*_OF_REPLICAS[:3])
