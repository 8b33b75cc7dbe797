"""Names of TPU topologies, as `--for` takes them, and what the compiler is told for each."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

# Dimensions, chips of one host, cores that the accelerator type counts per chip, and its prefix.
_CHIPS: dict[str, tuple[int, tuple[int, ...], int, str]] = {
    "v4": (3, (2, 2, 1), 2, "v4"),
    "v5e": (2, (2, 2, 1), 1, "v5litepod"),
    "v5p": (3, (2, 2, 1), 2, "v5p"),
    "v6e": (2, (2, 2, 1), 1, "v6e"),
}
_ALIASES = {"v5litepod": "v5e", "v5lite": "v5e"}


@dataclass(frozen=True)
class Topology:
    """A slice.

    Attributes:
        name: as the compiler takes it: "v5e:2x2".
        chip: "v4", "v5e", "v5p" or "v6e".
        chips: how many; each is one device.
        accelerator: the accelerator type that libtpu is told.
        options: more of the topology's description.
    """

    name: str
    chip: str
    chips: int
    accelerator: str
    options: dict[str, Any] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """For a worker."""
        return {"name": self.name, "accelerator": self.accelerator, "options": self.options}


class TopologyError(ValueError):
    """A name that is no topology: one line, with those that are."""


def topology(name: str) -> Topology:
    """The slice of that name: `v5e` is one chip, `v5e:2x2` four.

    Raises:
        TopologyError: there is none.
    """
    chip, _, size = name.strip().lower().partition(":")
    chip = _ALIASES.get(chip, chip)
    if chip not in _CHIPS:
        raise TopologyError(
            f"{name}: no such TPU; there is {', '.join(_CHIPS)}, with a size or without: v5e:2x2"
        )
    dims, host, cores, prefix = _CHIPS[chip]
    if size and not re.fullmatch(r"\d+(x\d+)*", size):
        raise TopologyError(f"{name}: a size is like {'x'.join('2' * dims)}")
    sizes = [int(part) for part in size.split("x")] if size else [1] * dims
    if dims == 3 and len(sizes) == 2:
        sizes.append(1)
    if len(sizes) != dims or 0 in sizes:
        raise TopologyError(
            f"{name}: a {chip} slice has {dims} dimensions: {chip}:{'x'.join('2' * dims)}"
        )
    chips = 1
    for one in sizes:
        chips *= one
    options: dict[str, Any] = {}
    padded = (*sizes, *[1] * (3 - dims))
    if any(have % of for have, of in zip(padded, host, strict=True)):
        options["chips_per_host_bounds"] = list(padded)  # smaller than a host
    if chip == "v4":
        options["chip_config_name"] = (
            "megacore_dense"  # as torch_xla runs it: both cores are one device
        )
    full = f"{chip}:{'x'.join(map(str, sizes))}"
    return Topology(full, chip, chips, f"{prefix}-{chips * cores}", options)
