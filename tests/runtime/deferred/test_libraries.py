"""A deferred number in libraries gives what the float gives: the same values, the same text."""

from __future__ import annotations

import array
import bisect
import copy
import csv
import dataclasses
import fractions
import inspect
import io
import itertools
import json
import logging
import math
import multiprocessing
import numbers
import pickle
import pprint
import sqlite3
import statistics
import string
import struct
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch.utils import _device as default_device

from xla_migrate import runtime as xla
from xla_migrate.runtime.deferred import libraries
from xla_migrate.runtime.deferred.number import Number

from ...each import each


@dataclasses.dataclass
class Record:
    loss: Any
    losses: Any = None


def written(write: Callable[[io.StringIO], Any]) -> str:
    stream = io.StringIO()
    write(stream)
    return stream.getvalue()


def in_a_thread(number: Any) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(number + 1))
    thread.start()
    thread.join()
    return float(found[0])


def in_a_process(number: Any) -> Any:
    queue = multiprocessing.get_context("spawn").SimpleQueue()
    queue.put(number)
    return queue.get()


def in_a_database(number: Any) -> Any:
    connection = sqlite3.connect(":memory:")
    connection.execute("create table losses (loss real)")
    connection.execute("insert into losses values (?)", (number,))
    return connection.execute("select loss from losses").fetchall()


def filled(target: Any, number: Any) -> Any:
    target[0] = number
    return target


def saved(number: Any) -> Any:
    stream = io.BytesIO()
    torch.save({"losses": [number], "loss": number}, stream)
    stream.seek(0)
    return torch.load(stream, weights_only=True)


def saved_by_the_runtime(number: Any) -> Any:
    stream = io.BytesIO()
    xla.save({"losses": [number], "loss": number}, stream)
    stream.seek(0)
    return torch.load(stream, weights_only=True)


def changed_in_place(number: Any) -> Any:
    array, whole = np.ones(2), np.ones((2, 2), np.float32)
    alias, row = array, whole[0]
    array += number
    row *= number
    row[1:] -= number
    return alias, whole


def matched(number: Any) -> str:
    match number:
        case float():
            return "float"
        case int():
            return "int"
    return "neither"


USES: dict[str, Callable[[Any], Any]] = {
    "json.dumps": json.dumps,
    "json.dumps of a list, indented": lambda n: json.dumps({"a": [n, {"b": n}]}, indent=1),
    "json.dumps with a default for others": lambda n: json.dumps({"a": n}, default=str),
    "json.dump": lambda n: written(lambda stream: json.dump({"a": n}, stream)),
    "json.JSONEncoder": lambda n: json.JSONEncoder(sort_keys=True).encode({"b": n, "a": n}),
    "yaml.dump": lambda n: yaml.dump({"loss": n}),
    "yaml.safe_dump": lambda n: yaml.safe_dump([n, {"a": n}]),
    "csv.writer": lambda n: written(lambda stream: csv.writer(stream).writerow([n, "x"])),
    "csv.writer, quoted": lambda n: written(
        lambda s: csv.writer(s, quoting=csv.QUOTE_NONNUMERIC).writerow([n, "x"])
    ),
    "pickle": lambda n: pickle.loads(pickle.dumps({"a": n})),
    "pickle of a dataclass": lambda n: pickle.loads(pickle.dumps(Record(n))).loss,
    "copy.deepcopy": lambda n: float(copy.deepcopy([n])[0]),
    "struct": lambda n: struct.pack("d", n),
    "array": lambda n: array.array("d", [n]),
    "fractions": lambda n: (fractions.Fraction(n), fractions.Fraction.from_float(n)),
    "statistics": lambda n: (statistics.mean([n, 2.0]), statistics.stdev([n, 2.0])),
    "statistics.fmean": lambda n: (statistics.fmean([n, 2.0]), statistics.median([n, 2.0, 3.0])),
    "sqlite3": in_a_database,
    "format": lambda n: (format(n, "8.3f"), f"{n:8.2e}|{n}|{n!r}|{n!s}", f"{n:.2f}"),
    "%": lambda n: "%.3f %s %d %g %r %5.1e" % (n, n, n, n, n, n),  # noqa: UP031
    "str.format_map": lambda n: "{a:.2f} {a!r}".format_map({"a": n}),
    "string.Template": lambda n: string.Template("$a").substitute(a=n),
    "str.join": lambda n: ",".join([str(n), f"{n}"]),
    "print": lambda n: written(lambda stream: print(n, [n], {"a": (n,)}, file=stream)),
    "pprint": lambda n: pprint.pformat({"a": [n]}),
    "logging": lambda n: logging.LogRecord("a", 1, "p", 1, "%.2f %s", (n, n), None).getMessage(),
    "isinstance": lambda n: [
        isinstance(n, kind)
        for kind in (float, int, (int, float), numbers.Number, numbers.Real, str, torch.Tensor)
    ],
    "match": matched,
    "comparisons": lambda n: (n == 3, n != 3, n < 2, n > 2, n <= np.float64(3), n is None, n in [3]),
    "hash": lambda n: (hash(n), {n: 1}, n in {3, 1.0625}),
    "sum and sorted": lambda n: (float(sum([n, 1])), max(n, 2.5), min(n, 2.5), sorted([n, 2.5])),
    "round": lambda n: (round(n), round(n, 2), math.floor(n), math.ceil(n), math.trunc(n)),
    "math": lambda n: (math.exp(n), math.isnan(n), math.fsum([n, n]), math.hypot(n, 1), math.pow(n, 2)),
    "int and bool": lambda n: (int(n), bool(n), float(n), complex(n), str(n), repr(n)),
    "range": lambda n: (list(range(int(n))), "x" * int(n), [1, 2, 3, 4, 5][: int(n)]),
    "itertools": lambda n: [float(total) for total in itertools.accumulate([n, n])],
    "bisect": lambda n: bisect.bisect([1, 2, 3], n),
    "dataclasses.asdict": lambda n: repr(dataclasses.asdict(Record(n, [n]))),
    "equal dataclasses": lambda n: Record(n) == Record(float(n)),
    "a thread": in_a_thread,
    "a process": in_a_process,
    "torch.tensor": lambda n: torch.tensor(n),
    "torch.tensor of a list": lambda n: torch.tensor([[n, 1], [2, n]]),
    "torch.tensor of a type": lambda n: torch.tensor([n], dtype=torch.float64),
    "torch.as_tensor": lambda n: (torch.as_tensor(n), torch.asarray([n])),
    "torch.full": lambda n: (torch.full((2,), n), torch.scalar_tensor(n), torch.linspace(0, n, 3)),
    "torch's arithmetic": lambda n: (torch.ones(2) * n, n - torch.ones(2), torch.ones(2) ** n),
    "torch in place": lambda n: (torch.zeros(2).fill_(n), torch.ones(2).__iadd__(n)),
    "torch's scalars": lambda n: torch.ones(2).add(torch.ones(2), alpha=n).clamp(max=n),
    "torch.where": lambda n: torch.where(torch.tensor([True, False]), n, 0),
    "an element of a tensor": lambda n: filled(torch.zeros(2), n),
    "torch.save": saved,
    "xla.save": saved_by_the_runtime,
    "numpy's numbers": lambda n: (np.float64(n), np.float32(n), np.float64(2) * n, n * np.float32(2)),
    "numpy's arrays": lambda n: (np.asarray(n), np.array([[n, 1], [2, n]]), np.full(2, n)),
    "numpy's arithmetic": lambda n: (np.ones(2) * n, n / np.ones(2), np.ones(2) < n, np.exp(n)),
    "numpy's statistics": lambda n: (np.mean([n, 2.0]), np.maximum(n, 0), np.isnan(n), np.isscalar(n)),
    "an array in place": changed_in_place,
    "an element of an array": lambda n: filled(np.zeros(2), n),
    "methods": lambda n: (n.as_integer_ratio(), n.real, n.imag, n.conjugate()),
    "divmod": lambda n: (divmod(n, 2), divmod(7, n), float(pow(n, 2)), float(n // 2), float(7 % n)),
}  # fmt: skip


@pytest.fixture
def marked(device: torch.device) -> torch.device:
    xla.mark_step()
    return device


@each("use", list(USES))
def test_a_library_gives_what_it_gives_for_the_number(use: str, marked: torch.device) -> None:
    for value in (1.0625, 3):
        deferred = xla.item(torch.tensor(value, device=marked) * 1)
        assert type(deferred) is Number
        found, expected = USES[use](deferred), USES[use](value)
        assert type(found) is type(expected)
        assert repr(found) == repr(expected)


def test_bits_of_integers_are_those_of_the_number(marked: torch.device) -> None:
    n = xla.item(torch.tensor(6, device=marked) * 1)
    assert type(n) is Number
    assert [n & 3, 3 & n, n | 1, 9 | n, n ^ 5, 5 ^ n, n << 1, 1 << n, n >> 1, 99 >> n, ~n] == [
        *(2, 2, 7, 15, 3, 3, 12, 64, 3, 1, -7)
    ]
    with pytest.raises(TypeError, match="unsupported operand"):
        xla.item(torch.ones((), device=marked)) & 1


def test_errors_of_torch_stay_what_they_are(marked: torch.device) -> None:
    xla.item(torch.ones((), device=marked))  # the first use
    with pytest.raises(ValueError, match=r"too many dimensions|expected sequence"):
        torch.tensor([[1.0], [1.0, 2.0]])
    with pytest.raises(TypeError, match="not JSON serializable"):
        json.dumps({"a": {1}})


def test_a_default_device_holds_for_constructors_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tensor", "as_tensor", "asarray", "save"):
        monkeypatch.setattr(torch, name, inspect.unwrap(getattr(torch, name)))
    default_device._device_constructors.cache_clear()  # as before the first default device
    libraries._teach_torch()
    with torch.device("meta"):
        assert all(f([1.0]).is_meta for f in (torch.tensor, torch.as_tensor, torch.asarray))


def test_columns_of_pandas_are_of_numbers(
    marked: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pandas is no dependency of the tests; these are the methods that take values."""
    given: list[Any] = []

    class Frame:
        loc = iloc = at = iat = property(lambda self: Indexer())

        def __init__(self, data: Any, columns: Any = None) -> None:
            given.append(data)

        def __setitem__(self, key: Any, value: Any) -> None:
            given.append(value)

    class Series(Frame):
        pass

    class Indexer:
        def __setitem__(self, key: Any, value: Any) -> None:
            given.append(value)

    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=Frame, Series=Series))
    libraries._teach_pandas()
    given.clear()
    number = xla.item(torch.ones((), device=marked))
    assert type(number) is Number
    frame: Any = Frame([{"loss": number}], columns=["loss"])
    frame["loss"] = number
    frame.loc[0] = [1, number]
    Series({"a": number})
    assert repr(given) == "[[{'loss': 1.0}], 1.0, [1, 1.0], {'a': 1.0}]"
    assert not any(type(value) is Number for value in (given[1], given[2][1], given[3]["a"]))


def test_a_saved_object_is_not_changed(marked: torch.device) -> None:
    deferred = xla.item(torch.ones((), device=marked))
    state = {"losses": [deferred], "other": {"kept": [1]}}
    torch.save(state, io.BytesIO())
    assert state["losses"][0] is deferred  # type: ignore[index]
