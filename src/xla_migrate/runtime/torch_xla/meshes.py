"""``init_device_mesh`` under SPMD: one dimension, all devices."""

from __future__ import annotations

from collections.abc import Sequence


class AllDevices:
    """A mesh of one dimension. FSDP divides over all devices with it as without a mesh."""

    def __init__(self, mesh_dim_names: Sequence[str] | None = None) -> None:
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)

    def __getitem__(self, name: str) -> AllDevices:
        """Return the mesh of the dimension ``name``: itself.

        Raises:
            KeyError: for another name.
        """
        if name not in (self.mesh_dim_names or ()):
            raise KeyError(f"the mesh has no dimension {name!r}: it has {self.mesh_dim_names}")
        return self


def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
) -> AllDevices:
    """``torch.distributed.init_device_mesh`` of one dimension, to shard with.

    Args:
        device_type: The devices are always the accelerator's.
        mesh_shape: One number. One process drives all devices, so it may be 1 or their number.
        mesh_dim_names: The name of the dimension.

    Returns:
        A mesh for ``fully_shard(mesh=...)`` and ``FullyShardedDataParallel(device_mesh=...)``.

    Raises:
        NotImplementedError: for more dimensions.

    Example:
        >>> mesh = xla.init_device_mesh("cuda", (1,), mesh_dim_names=("dp",))
        >>> mesh["dp"] is mesh
        True
    """
    if len(mesh_shape) != 1:
        raise NotImplementedError(
            f"init_device_mesh of {len(mesh_shape)} dimensions on XLA: shard by hand with "
            "torch_xla.distributed.spmd.Mesh and mark_sharding"
        )
    return AllDevices(mesh_dim_names)
