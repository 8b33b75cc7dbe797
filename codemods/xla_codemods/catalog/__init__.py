"""The table of CUDA-only names: one row each, with what becomes of it on XLA.

Loaded at the first lookup; `families` decides cheaply whether a name is CUDA-only.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module

from .row import ABSENT, HARMLESS, RAISES, REMOVED, REWRITTEN, RUNTIME, SILENT, SLOW, STAYS, Row

# The rule for names without a specific rule.
CATCH_ALL = "XLA906"

__all__ = [
    "ABSENT",
    "CATCH_ALL",
    "HARMLESS",
    "RAISES",
    "REMOVED",
    "REWRITTEN",
    "RUNTIME",
    "SILENT",
    "SLOW",
    "STAYS",
    "Row",
    "covering",
    "lookup",
    "meant",
    "nearest",
    "table",
]


# Rows of torch's names are in separate modules: a script with only such names needs no other modules.
_OF_TORCH = (
    "cuda",
    "memory",
    "submodules",
    "backends",
    "amp",
    "accelerator",
    "tensors",
    "functions",
    "distributed",
)
_OF_OTHERS = ("fused", "deepspeed", "attention", "kernels", "frameworks", "environment")


@cache
def table() -> dict[str, Row]:
    """Every row by its name, in the order of the rooms they stand in."""
    return {**_rows(_OF_TORCH), **_rows(_OF_OTHERS)}


@cache
def _rows(rooms: tuple[str, ...]) -> dict[str, Row]:
    from .families import is_cuda_only

    found = {}
    for room in rooms:
        for row in import_module(f"{__name__}.{room}").ROWS:
            if not row.rule and row.fate != STAYS and is_cuda_only(row.name):
                row = row._replace(rule=CATCH_ALL)
            found[row.name] = row
    return found


def lookup(dotted: str) -> Row | None:
    """Return the row of `dotted`, in any of its spellings, or None."""
    for spelling in _spellings(dotted):
        is_torch = spelling.partition(".")[0] == "torch"
        rows = _rows(_OF_TORCH if is_torch else _OF_OTHERS)
        if spelling in rows:
            return rows[spelling]
    return None


def meant(text: str) -> list[Row]:
    """Return the rows that `text` names: its row, the rows of its arguments, or the one row whose name ends so."""
    row = lookup(text)
    plain = text.strip().removesuffix("()")
    found = [] if row is None else [row]
    found += [other for name, other in table().items() if name.startswith(f"{plain}(")]
    if not found and plain:
        ends = [other for name, other in table().items() if name.endswith(f".{plain}")]
        found = ends if len(ends) == 1 else []
    return found


def covering(dotted: str) -> Row | None:
    """The row of `dotted` or of what it is a part of: of the class of a method, of the package of a function."""
    while dotted:
        row = lookup(dotted)
        if row is not None:
            return row
        dotted = dotted.rpartition(".")[0]
    return None


def nearest(text: str, count: int = 3) -> list[str]:
    """Names of rows that `text` may have meant, best first."""
    import difflib  # rarely needed, and it costs a tenth of a check to import

    typed = text.strip(".").removesuffix("()")
    wanted = typed.lower()
    if not wanted:
        return []
    rows = table()
    ends = [name for name in rows if _end(name) == _end(wanted)]
    inside = [name for name in rows if wanted in name.lower()]
    close = [name for name in rows if name.lower().startswith(f"{wanted}.")]
    close += difflib.get_close_matches(wanted, rows, n=2 * count, cutoff=0.7)
    close += [
        name
        for end in difflib.get_close_matches(
            _end(wanted), {_end(n) for n in rows}, n=count, cutoff=0.7
        )
        for name in rows
        if _end(name) == end
    ]

    def likeness(name: str) -> float:
        return difflib.SequenceMatcher(None, typed, name).ratio()

    found = list(dict.fromkeys((*ends, *inside))) or sorted(
        dict.fromkeys(close), key=likeness, reverse=True
    )
    return found[:count]


def _end(name: str) -> str:
    """The last part of a name: its method, or its argument in parentheses."""
    return re.split(r"[.(=]", name.lower().rstrip(")"))[-1].strip("\"'")


def _spellings(dotted: str) -> tuple[str, ...]:
    """Users search for `torch.cuda.Stream()` as often as for `torch.cuda.Stream`, or for `cuda.Stream`."""
    plain = dotted.strip().removesuffix("()")
    home = _HOMES.get(plain.partition(".")[0])
    return (plain,) if home is None else (plain, home + plain[plain.find(".") :])


# Modules under their usual second names.
_HOMES = {
    "pytorch_lightning": "lightning",
    "hvd": "horovod.torch",
    "bnb": "bitsandbytes",
}
