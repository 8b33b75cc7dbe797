"""What `--for` means."""

from __future__ import annotations

import pytest

from xla_migrate.target.compile.topologies import TopologyError, topology


@pytest.mark.parametrize(
    ("given", "name", "chips", "accelerator", "bounds"),
    [
        ("v5e", "v5e:1x1", 1, "v5litepod-1", [1, 1, 1]),
        ("v5e:2x2", "v5e:2x2", 4, "v5litepod-4", None),
        ("V5E:4x4", "v5e:4x4", 16, "v5litepod-16", None),
        ("v6e", "v6e:1x1", 1, "v6e-1", [1, 1, 1]),
        ("v4:2x2", "v4:2x2x1", 4, "v4-8", None),
        ("v5p", "v5p:1x1x1", 1, "v5p-2", [1, 1, 1]),
    ],
)
def test_names(
    given: str, name: str, chips: int, accelerator: str, bounds: list[int] | None
) -> None:
    found = topology(given)
    assert (found.name, found.chips, found.accelerator) == (name, chips, accelerator)
    assert found.options.get("chips_per_host_bounds") == bounds


def test_both_cores_of_a_v4_are_one_device() -> None:
    assert topology("v4").options["chip_config_name"] == "megacore_dense"


@pytest.mark.parametrize("name", ["", "h100", "v5e:2x2x2", "v5e:0x2", "v5e:big", "v4:2"])
def test_no_such_topology(name: str) -> None:
    with pytest.raises(TopologyError):
        topology(name)
