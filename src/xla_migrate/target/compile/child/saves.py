"""Checkpoints: what the script saves is cut like everything else, and no made-up weights reach a file.

Written is nothing. A path that was saved to is remembered, so that a script that loads it again gets tensors of the
same shapes.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from ....verify.observe.process import imports, where
from . import records

_saved: dict[str, Any] = {}


def install(tracer: Any, execute: bool) -> None:
    """Cut at `torch.save` and its like; where values are made up, write and load no file."""
    save, load = torch.save, torch.load

    def saved(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        records.write("save", place=where.caller())
        with tracer.saving():
            if execute:
                save(obj, f, *args, **kwargs)
            else:
                _remember(f, obj)

    def loaded(f: Any, *args: Any, **kwargs: Any) -> Any:
        return _saved[_path(f)] if _path(f) in _saved else load(f, *args, **kwargs)

    torch.save, torch.load = saved, loaded
    if not execute:
        _follow_moves()
        imports.after(
            {
                "safetensors.torch": lambda module: _safetensors(module, tracer),
                "xla_migrate.runtime.checkpoints": _directly,
            }
        )


def _directly(checkpoints: Any) -> None:
    """Let the runtime save to the path itself rather than to a file beside it, which would not be there."""
    checkpoints._replacing = contextlib.nullcontext


def _path(file: Any) -> str:
    return os.path.abspath(os.fspath(file)) if isinstance(file, (str, os.PathLike)) else ""


def _remember(file: Any, obj: Any) -> None:
    _saved[_path(file)] = tree_map_only(torch.Tensor, _on_host, obj)


def _follow_moves() -> None:
    """A checkpoint that is moved, copied or removed: its name is, if there is no file."""
    for owner, name in ((os, "rename"), (os, "replace"), (shutil, "move")):
        setattr(owner, name, _moving(getattr(owner, name), _saved.pop))
    for name in ("copyfile", "copy", "copy2"):
        setattr(shutil, name, _moving(getattr(shutil, name), _saved.__getitem__))
    for name in ("remove", "unlink"):
        setattr(os, name, _removing(getattr(os, name)))


def _moving(move: Callable[..., Any], take: Callable[[str], Any]) -> Callable[..., Any]:
    @functools.wraps(move)
    def moved(src: Any, dst: Any, *args: Any, **kwargs: Any) -> Any:
        if _path(src) not in _saved:
            return move(src, dst, *args, **kwargs)
        into = os.path.join(dst, os.path.basename(src)) if os.path.isdir(dst) else dst
        _saved[_path(into)] = take(_path(src))
        return into

    return moved


def _removing(remove: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(remove)
    def removed(path: Any, *args: Any, **kwargs: Any) -> None:
        if _saved.pop(_path(path), None) is None:
            remove(path, *args, **kwargs)

    return removed


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.cpu() if tensor.device.type == "xla" else tensor


def _safetensors(module: Any, tracer: Any) -> None:
    def save_file(tensors: Any, filename: Any, *args: Any, **kwargs: Any) -> None:
        records.write("save", place=where.caller())
        with tracer.saving():
            _remember(filename, tensors)

    module.save_file = save_file
