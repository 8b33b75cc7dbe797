"""The price of a training on instances, with prices that the user gives."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class PriceError(ValueError):
    """A price file that cannot be used; the message says why."""


@dataclass(frozen=True)
class Price:
    """The price of one instance type; `speed` is its throughput relative to this machine."""

    instance: str
    dollars_per_hour: float
    speed: float = 1.0


def read(path: Path) -> list[Price]:
    """Prices in a file.

    CSV has a header `instance,dollars_per_hour[,relative_speed]`; TOML a table per instance,
    `["ml.trn1.32xlarge"]`, with `dollars_per_hour` and `relative_speed`.

    Raises:
        PriceError: it is neither, or a price is missing or not above 0.
        OSError: it cannot be read.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        try:
            tables = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise PriceError(f"{path}: {error}") from None
        rows = [{"instance": n, **t} for n, t in tables.items() if isinstance(t, dict)]
    else:
        rows = list(csv.DictReader(io.StringIO(text), skipinitialspace=True))
    if not rows:
        raise PriceError(f"{path}: no prices; a line is instance,dollars_per_hour,relative_speed")
    return [_price(path, row) for row in rows]


def of_instance(prices: Sequence[Price], instance: str) -> list[Price]:
    """Return the prices of one instance type, which SageMaker calls `ml.trn1.32xlarge`.

    Raises:
        PriceError: there is none.
    """
    found = [p for p in prices if _bare(p.instance) == _bare(instance)]
    if not found:
        known = ", ".join(p.instance for p in prices)
        raise PriceError(f"--for: no price of {instance}; the file has {known}")
    return found


def _bare(instance: str) -> str:
    return instance.strip().lower().removeprefix("ml.")


def _price(path: Path, row: dict[str, str]) -> Price:
    name = str(row.get("instance") or "")
    try:
        dollars = float(row["dollars_per_hour"])
        speed = float(row.get("relative_speed") or 1.0)
    except (KeyError, TypeError, ValueError):
        raise PriceError(f"{path}: {name or row}: dollars_per_hour must be a number") from None
    if not name or not dollars > 0 or not speed > 0:
        raise PriceError(f"{path}: {name or row}: needs a name, and numbers above 0")
    return Price(name, dollars, speed)


def cost(dollars_per_hour: float, seconds: float) -> float:
    """Dollars for so many seconds."""
    return dollars_per_hour * seconds / 3600


def for_samples(price: Price, throughput: float, samples: float) -> float:
    """Dollars for so many samples, at a throughput (samples/s) that was measured here."""
    return cost(price.dollars_per_hour, samples / (throughput * price.speed))
