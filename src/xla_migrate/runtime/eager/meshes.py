"""``init_device_mesh`` on eager devices: torch's own."""

from __future__ import annotations

from typing import Any

from torch.distributed import device_mesh

from ..devices import device_type as own_type


def init_device_mesh(
    device_type: str, mesh_shape: tuple[int, ...], **options: Any
) -> device_mesh.DeviceMesh:
    """Return torch's mesh, of the devices that the runtime uses."""
    return device_mesh.init_device_mesh(own_type(), mesh_shape, **options)
