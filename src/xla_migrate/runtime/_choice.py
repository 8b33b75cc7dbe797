"""Choose the backend, and explain the choice; detect a native backend that is installed without its device."""

from __future__ import annotations

import importlib.util
import logging
import os
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import torch

from ._backend import uses_torch_xla

# Packages that provide a native device: the device's type in torch, and the hardware's name.
PACKAGES = {"torch_tpu": ("tpu", "TPU"), "torch_neuronx": ("neuron", "Neuron device")}
_log = logging.getLogger("xla_migrate")
_GOOGLE, _NETWORK_CARD = "0x1ae0", "0x0042"
_PCI = Path("/sys/bus/pci/devices")
_DEV = Path("/dev")


@dataclass(frozen=True)
class Choice:
    """The backend that scripts get on this machine.

    Attributes:
        backend: "torch_xla" or "eager".
        device: the kind of eager devices, "cpu" if there is no accelerator; "xla".
        why: what decided.
        absent: what is installed and has no device here, in a sentence; or "".
    """

    backend: str
    device: str
    why: str
    absent: str


def choice() -> Choice:
    """Return the choice of ``backend()``. Starts no device and does not call libtpu."""
    asked = os.environ.get("XLA_MIGRATE_BACKEND", "")
    why = f"XLA_MIGRATE_BACKEND={asked}"
    kind = _kind()
    if uses_torch_xla():
        why = why if asked else "it is installed"
        if kind != "cpu":
            why += f" (XLA_MIGRATE_BACKEND=eager takes the {kind!r} device)"
        return Choice("torch_xla", "xla", why, "")
    return Choice("eager", kind, why if asked else "torch_xla is not installed", absent())


def _kind() -> str:
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return "cpu" if found is None else found.type


def absent() -> str:
    """Return a warning if a package for native devices is installed but torch has no accelerator; else ""."""
    if _kind() != "cpu":
        return ""
    for package, (kind, hardware) in PACKAGES.items():
        if importlib.util.find_spec(package) is not None:
            seen = count_of(kind)
            why = (
                f"this host shows no {hardware}"
                if not seen
                else f"{seen} of this host's {hardware}s did not become a torch device (other processes may hold them;"
                " a container has to be given them; TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps them out)"
            )
            return f"{package}{_version(package)} is installed, but {why}: training runs on the CPU"
    return ""


def count_of(kind: str) -> int:
    """Return the number of TPU chips or Neuron devices of this host. Reads only names in /sys and /dev."""
    if kind == "neuron":
        return sum(p.name[6:].isdigit() for p in _DEV.glob("neuron*"))
    return sum(
        _read(place / "vendor") == _GOOGLE and _read(place / "device") != _NETWORK_CARD
        for place in (_PCI.iterdir() if _PCI.is_dir() else ())
    )


def warn_if_absent() -> None:
    """Warn in one line that a native backend has no device, before the script requests the device.

    libtpu would ask a metadata server for minutes on a host without a TPU; this keeps it from that.
    """
    said = absent()
    if not said:
        return
    if not count_of("tpu"):
        os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    if os.environ.get("LOCAL_RANK", "0") == "0":
        _log.warning("%s", said)


def warn_of_precision() -> None:
    """Warn that float32 stays float32, although a setting for torch_xla would make it bfloat16."""
    told = [
        name
        for name in ("XLA_USE_BF16", "XLA_DOWNCAST_BF16")
        if os.environ.get(name, "").lower() not in ("", "0", "false")
    ]
    if told and os.environ.get("LOCAL_RANK", "0") == "0":
        _log.warning(
            "%s is read by torch_xla alone: here float32 stays float32. Convert the model to bfloat16, or compute under"
            " xla.autocast",
            " and ".join(told),
        )


def _version(package: str) -> str:
    try:
        return f" {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return ""


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
