"""Names of TPU topologies, as `--for` takes them, and the compiler's arguments for each."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ...compiler.machines import MACHINES, NEURON, machine_of

# Dimensions, chips of one host, cores that the accelerator type counts per chip, and its prefix.
_CHIPS: dict[str, tuple[int, tuple[int, ...], int, str]] = {
    "v4": (3, (2, 2, 1), 2, "v4"),
    "v5e": (2, (2, 2, 1), 1, "v5litepod"),
    "v5p": (3, (2, 2, 1), 2, "v5p"),
    "v6e": (2, (2, 2, 1), 1, "v6e"),
}
_ALIASES = {"v5litepod": "v5e", "v5lite": "v5e"}
# Shapes of slices by their number of chips, in two and in three dimensions.
_FLAT = {1: "1x1", 4: "2x2", 8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16"}
_CUBIC = {4: "2x2x1", 8: "2x2x2", 16: "2x2x4", 32: "2x4x4", 64: "4x4x4"}
_TYPE = re.compile(r"v\w+-(?P<cores>\d+)|ct\w+-[a-z]+-(?P<chips>\d+)t")


@dataclass(frozen=True)
class Topology:
    """A slice.

    Attributes:
        name: as the compiler takes it: "v5e:2x2".
        chip: "v4", "v5e", "v5p" or "v6e".
        chips: how many; each is one device.
        accelerator: the accelerator type that libtpu receives.
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
    """The slice of that name: `v5e` is one chip, `v5e:2x2` four, and so is the accelerator type `v5litepod-4`.

    Raises:
        TopologyError: there is none.
    """
    chip, _, size = _of_type(name.strip().lower()).partition(":")
    chip = _ALIASES.get(chip, chip)
    if chip not in _CHIPS:
        machine = MACHINES.get(machine_of(name))
        if machine is not None and machine.kind == NEURON:
            raise TopologyError(
                f"{name}: {machine.title} has no compiler here, only TPUs: check operations with "
                "`--ops neuron=FILE`, and run `xla-migrate precompile` on the machine"
            )
        raise TopologyError(
            f"{name}: unknown TPU; known TPUs: {', '.join(_CHIPS)}, with a size or without: v5e:2x2"
        )
    dims, host, cores, prefix = _CHIPS[chip]
    if size and not re.fullmatch(r"\d+(x\d+)*", size):
        raise TopologyError(f"{name}: write a size such as {'x'.join('2' * dims)}")
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


def _of_type(name: str) -> str:
    """Return `v5e:2x4` for the accelerator type `v5litepod-8` and the machine type `ct5lp-hightpu-8t`."""
    found, chip = _TYPE.fullmatch(name), machine_of(name)
    if found is None or chip not in _CHIPS:
        return name
    dims, _, cores, _ = _CHIPS[chip]
    number = int(found["chips"]) if found["chips"] else int(found["cores"]) // cores
    shapes = _FLAT if dims == 2 else _CUBIC
    return f"{chip}:{shapes[number]}" if number in shapes else name
