"""Libraries that accept only Python's own numbers: they are given the value of a deferred number.

These libraries look at a number's exact type, so the number cannot resolve itself there. Each function is replaced once,
when the script first defers a value.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json.encoder
import statistics
import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils import _device as default_device

from ..compiling.scripted import scripted_as
from .number import Number
from .values import resolved
from .waiting import queue


def _known(value: Any) -> Any:
    return value.wait() if type(value) is Number else value


def _teach_json() -> None:
    """The C encoder passes a deferred number to `default`; the Python encoder takes it for a float and fails."""
    encoder: Any = json.encoder
    in_c, in_python = encoder.c_make_encoder, encoder._make_iterencode

    def numbers_first(default: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda value: value.wait() if type(value) is Number else default(value)

    if in_c is not None:

        @functools.wraps(in_c)
        def make_in_c(markers: Any, default: Any, *rest: Any) -> Any:
            return in_c(markers, numbers_first(default), *rest)

        encoder.c_make_encoder = make_in_c

    @functools.wraps(in_python)
    def make_in_python(
        markers: Any, default: Any, text: Any, indent: Any, of_float: Any, *rest: Any, **more: Any
    ) -> Any:
        more.setdefault("_intstr", lambda value: int.__repr__(_known(value)))
        return in_python(
            markers,
            numbers_first(default),
            text,
            indent,
            lambda value: of_float(_known(value)),
            *rest,
            **more,
        )

    encoder._make_iterencode = make_in_python


def _teach_statistics() -> None:
    """Sums in `statistics` group values by their exact type."""
    module: Any = statistics
    for name in ("_sum", "_ss"):
        function = getattr(module, name, None)
        if function is not None:
            setattr(module, name, _with_known_data(function))


def _with_known_data(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def computed(data: Iterable[Any], *args: Any) -> Any:
        return function(map(_known, data), *map(_known, args))

    return computed


def _teach_yaml() -> None:
    """A representer chooses by the exact type. PyYAML is imported: a script may import it after its first step."""
    if importlib.util.find_spec("yaml") is None:
        return
    base = importlib.import_module("yaml.representer").BaseRepresenter
    represent = base.represent_data

    @functools.wraps(represent)
    def represent_data(self: Any, data: Any) -> Any:
        return represent(self, _known(data))

    base.represent_data = represent_data


def _teach_pandas() -> None:
    """Pandas chooses the type of a column by the exact types of its values: a deferred number would make it `object`.

    Importing pandas takes long, so only a script that has imported it needs this.
    """
    if "pandas" not in sys.modules:
        return
    frame, series = sys.modules["pandas"].DataFrame, sys.modules["pandas"].Series
    example = series([0.0])
    indexers = [type(getattr(example, name)) for name in ("loc", "iloc", "at", "iat")]
    for kind in (frame, series):
        kind.__init__ = _with_known_arguments(kind.__init__)
    for kind in (frame, series, *indexers):
        kind.__setitem__ = _with_known_arguments(kind.__setitem__)


def _with_known_arguments(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self, *map(resolved, args), **resolved(kwargs))

    return called


def _teach_torch() -> None:
    """`torch.tensor` and its like ask no `__torch_function__`; a file of `torch.save` must load with `weights_only`."""
    # A default device knows constructors by identity: torch lists them before they are replaced.
    default_device._device_constructors()
    for name in ("tensor", "as_tensor", "asarray"):
        original = getattr(torch, name)
        setattr(torch, name, scripted_as(original, _resolving_after_failure(original)))
    save = torch.save

    @functools.wraps(save)
    def save_resolved(obj: Any, *args: Any, **kwargs: Any) -> None:
        save(resolved(obj), *args, **kwargs)

    torch.save = save_resolved


def _resolving_after_failure(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, called again with resolved numbers if it fails: looking through long lists first would be slow."""

    @functools.wraps(function)
    def made(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except RuntimeError as error:
            if "dtype of Number" not in str(error):
                raise
        return function(*map(resolved, args), **resolved(kwargs))

    return made


queue.at_first_use += [_teach_json, _teach_statistics, _teach_yaml, _teach_pandas, _teach_torch]
