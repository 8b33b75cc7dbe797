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


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("v5litepod-8", "v5e:2x4"),
        ("v4-8", "v4:2x2x1"),
        ("v5p-16", "v5p:2x2x2"),
        ("v6e-1", "v6e:1x1"),
        ("ct6e-standard-4t", "v6e:2x2"),
        ("ct5lp-hightpu-1t", "v5e:1x1"),
    ],
)
def test_types_of_machines_are_topologies(given: str, name: str) -> None:
    assert topology(given).name == name


@pytest.mark.parametrize("given", ["v5litepod-7", "trn1.32xlarge", "ct9-x-4t"])
def test_types_without_a_topology_are_refused(given: str) -> None:
    with pytest.raises(TopologyError):
        topology(given)
