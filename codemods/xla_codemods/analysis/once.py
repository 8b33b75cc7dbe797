"""Answers that are found once per file."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar


class _File(Protocol):
    def cached(self, find: Callable[..., Any]) -> Any: ...


F = TypeVar("F", bound=_File)
T = TypeVar("T")


def once(find: Callable[[F], T]) -> Callable[[F], T]:
    """Return `find` as a function that computes its result once for each file."""

    @wraps(find)
    def found(file: F) -> T:
        result: T = file.cached(find)
        return result

    return found
