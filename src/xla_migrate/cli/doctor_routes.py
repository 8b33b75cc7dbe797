"""Which backend trains on this machine, with its versions and its launch command: a check of `doctor`.

The facts are those of docs/guides/my-machine.md, which a test compares with this table.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .doctor_checks import FAULT, NOTE, OK, DoctorCheck

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

XLA, NEURON, TPU = "torch_xla", "TorchNeuron", "torch_tpu"
_TORCHRUN = "torchrun --nproc_per_node=N train.py"
_FAMILY = re.compile(r"(trn\d)")
_NO_MACHINE = "Trainium of unknown type"


class Route(NamedTuple):
    """One way to train on a machine.

    Attributes:
        backend: its name.
        versions: the versions that match.
        launch: the command that starts a process for each device.
        group: the backend of the process group.
        compiler: the backend of `torch.compile`, or "" if the step mark is what compiles.
    """

    backend: str
    versions: str
    launch: str
    group: str
    compiler: str = ""

    def __str__(self) -> str:
        compiler = f", torch.compile backend `{self.compiler}`" if self.compiler else ""
        return (
            f"{self.backend}: {self.versions}; start with `{self.launch}`; process group"
            f" `{self.group}`{compiler}"
        )


_NEURON_XLA = Route(XLA, "torch 2.9, Neuron 2.29 (supported) to 2.31 (published)", _TORCHRUN, "xla")
_NEURON_NATIVE = Route(
    NEURON, "torch 2.13 or 2.14, Neuron 2.33 or newer", _TORCHRUN, "neuron", "neuron"
)
_TPU_XLA = Route(XLA, "torch 2.9, `torch_xla[tpu]` 2.9", f"PJRT_DEVICE=TPU {_TORCHRUN}", "xla")
_TPU_NATIVE = Route(
    TPU,
    "torch 2.11 to 2.15, torch_tpu 0.2",
    f"{_TORCHRUN}` after `torch.tpu.distributed.set_tpu_launch_env(nproc_per_node=N)",
    "tpu_dist",
    "tpu",
)
ROUTES = {
    "Trn1": (_NEURON_XLA,),
    "Trn2": (_NEURON_XLA, _NEURON_NATIVE),
    "Trn3": (_NEURON_NATIVE,),
    _NO_MACHINE: (_NEURON_XLA, _NEURON_NATIVE),
    "TPU": (_TPU_XLA, _TPU_NATIVE),
}
_PAGE = "docs/guides/my-machine.md"


def with_route(checks: list[DoctorCheck], found: dict[str, Any]) -> list[DoctorCheck]:
    """Return the checks with the one of the route first, if the machine has a TPU or Neuron devices."""
    machine = _machine(found)
    if not machine or "versions" not in found or "backend" not in found:
        return checks
    return [_route(machine, found), *checks]


def _machine(found: dict[str, Any]) -> str:
    """Return the row of `ROUTES`, or "" if the machine shows no such device."""
    if found.get("neuron_nodes"):
        family = _FAMILY.match(found.get("instance", ""))
        name = family[1].capitalize() if family else _NO_MACHINE
        return name if name in ROUTES else _NO_MACHINE
    return "TPU" if found.get("tpu_nodes") or found.get("tpu_chips") else ""


def _route(machine: str, found: dict[str, Any]) -> DoctorCheck:
    routes = ROUTES[machine]
    installed = _installed(found)
    taken = next((route for route in routes if route.backend == installed), None)
    others = "; or ".join(str(route) for route in routes if route is not taken)
    if taken is not None:
        status = NOTE if machine == _NO_MACHINE else OK
        more = f"the other route is {others} ({_PAGE})" if others else ""
        return DoctorCheck("route", status, f"{machine}, {taken}", more)
    if not installed:
        return DoctorCheck("route", FAULT, f"{machine}: no backend is installed", f"use {others}")
    return DoctorCheck(
        "route", FAULT, f"{machine}: {installed} does not support it", f"use {others} ({_PAGE})"
    )


def _installed(found: dict[str, Any]) -> str:
    """Return the name of the backend that scripts get here, or ""."""
    taken = found["backend"]
    versions = found["versions"]
    if taken["backend"] == XLA:
        return XLA
    if versions.get("torch_tpu"):
        return TPU
    return NEURON if versions.get("torch-neuronx") else ""
