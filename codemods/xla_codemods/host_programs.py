"""Programs that train on the CPU: they name no device at all, and nothing that could choose one for them."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from typing import TYPE_CHECKING

from .patterns import Pattern
from .syntax import walk_body

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .findings import Finding
    from .script import Script

# What is said of any training, whatever it runs on. Any other finding speaks of an accelerator, or of a library that
# takes one by itself.
_OF_TRAINING = frozenset({"XLA124", "XLA501", "XLA502", "XLA604", "XLA614", "XLA701", "XLA702"})
_DEVICES = Pattern(r"device|gpu|accelerat|\b(?:torch_)?xla(?:\b|_)|\.to\(", re.IGNORECASE)
_BUILTINS = frozenset(dir(builtins)) | {"__file__", "__name__"}
# Libraries that leave tensors where they are made.
_KNOWN = frozenset(
    """
    PIL cv2 gym gymnasium matplotlib mpl_toolkits numpy pandas requests scipy skimage sklearn tensorboardX torch torchaudio torchtext
    torchvision tqdm yaml
    """.split()
)


def without_training_on_the_host(script: Script, found: list[Finding]) -> list[Finding]:
    """`found`; nothing where the file is a program that trains on the CPU, on an XLA host as anywhere."""
    if found and all(map(_is_said_of_any, found)):
        if _is_one(script) or _calls_other_hosts(script):
            return []
    return found


def _calls_other_hosts(script: Script) -> bool:
    """Whether the file trains by remote calls, which take tensors of the CPU alone, and names no device."""
    text = script.source.text
    return (
        script.trains
        and "torch.distributed.rpc" in text
        and _DEVICES.search(text) is None
        and not script.runs_accelerated
    )


def _is_said_of_any(finding: Finding) -> bool:
    return finding.code in _OF_TRAINING or "torch.distributed.rpc" in finding.message


def _is_one(script: Script) -> bool:
    return (
        _DEVICES.search(script.source.text) is None
        and _runs(script)
        and all(_is_known(script, name) for name in _imported(script.tree))
        and not script.runs_accelerated  # last: the answer depends on other modules
    )


def _runs(script: Script) -> bool:
    """Whether the file does something when it is run: `if __name__ == "__main__":`, or loops over what it has made."""
    body = script.tree.body
    if any(isinstance(s, ast.If) and "__name__" in ast.unparse(s.test) for s in body):
        return True
    return any(isinstance(s, (ast.For, ast.While)) for s in body) and not any(
        node.id not in script.module.bindings and node.id not in _BUILTINS
        for node in walk_body(body)
        if isinstance(node, ast.Name)
    )


def _imported(tree: ast.Module) -> Iterable[str]:
    for node in walk_body(tree.body):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def _is_known(script: Script, module: str) -> bool:
    root = module.partition(".")[0]
    return root in _KNOWN or root in sys.stdlib_module_names
