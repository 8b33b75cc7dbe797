"""The private interfaces of jaxlib and libtpu that compile for a TPU that is not there: all of them, and only here.

Run by the compiler's own interpreter, which need not have xla-migrate: nothing of it is imported.
Tested with jaxlib 0.7.1 and libtpu 0.0.21, the pins of torch_xla 2.9. In jaxlib 0.10 `client.compile` has another
signature.
"""

from __future__ import annotations

import os
from importlib import metadata
from typing import Any

TESTED = (("0.7.1", "0.0.21"),)


def versions() -> tuple[str, str]:
    """Return the versions of jaxlib and libtpu; "" for one that is not installed."""
    return _version("jaxlib"), _version("libtpu")


def problem(found: tuple[str, str]) -> str:
    """Return in one line why these versions cannot be used; "" if they can."""
    missing = [name for name, version in zip(("jaxlib", "libtpu"), found) if not version]
    wanted = "jax==0.7.1 jaxlib==0.7.1 libtpu==0.0.21"
    if missing:
        return f"{' and '.join(missing)} not installed: pip install {wanted}"
    if found not in TESTED:
        return f"jaxlib {found[0]} with libtpu {found[1]} is not tested, and its interface is private: pip install {wanted}"
    return ""


def prepare(accelerator: str) -> None:
    """Set what libtpu reads; before jax is imported.

    Without TPU_SKIP_MDS_QUERY libtpu asks a metadata server, for about 29 s a key.
    """
    os.environ.update(
        TPU_SKIP_MDS_QUERY="1",
        JAX_PLATFORMS="cpu",
        TPU_ACCELERATOR_TYPE=accelerator,
        TPU_WORKER_HOSTNAMES="localhost",
        TPU_WORKER_ID="0",
        ALLOW_MULTIPLE_LIBTPU_LOAD="1",  # processes compile beside each other; none has a TPU
        TF_CPP_MIN_LOG_LEVEL="2",
        TPU_STDERR_LOG_LEVEL="3",
        TPU_MIN_LOG_LEVEL="3",
    )


def devices(name: str, options: dict[str, Any]) -> list[Any]:
    """The devices of a topology such as "v5e:2x2"."""
    from jax.experimental import topologies

    made = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    found = topologies.get_topology_desc(topology_name=name, platform="tpu", **made)
    return list(found.devices)


def compile_text(text: str, chips: list[Any], level: str) -> Any:
    """The executable of a StableHLO module for these devices, which run one program together (SPMD).

    Args:
        text: the module.
        chips: from `devices`; one for a program of a single device.
        level: "O0" to "O3", or "" for the compiler's default.
    """
    import numpy as np
    from jax._src.lib import xla_client as xc

    options = xc.CompileOptions()
    options.num_replicas, options.num_partitions = 1, len(chips)
    order = np.arange(len(chips)).reshape(1, len(chips))
    options.device_assignment = xc.DeviceAssignment.create(order)
    options.executable_build_options.use_spmd_partitioning = len(chips) > 1
    if level:
        options.env_option_overrides = [("xla_optimization_level", f"EFFORT_{level}")]
    return chips[0].client.compile(text.encode(), xc.DeviceList(tuple(chips)), options)


def memory(executable: Any) -> dict[str, int]:
    """Bytes on one device: arguments, outputs, aliased (outputs in arguments' memory), temporary, code."""
    stats = executable.get_compiled_memory_stats()
    return {
        "arguments": stats.argument_size_in_bytes,
        "outputs": stats.output_size_in_bytes,
        "aliased": stats.alias_size_in_bytes,
        "temporary": stats.temp_size_in_bytes,
        "code": stats.generated_code_size_in_bytes,
    }


def program(executable: Any) -> Any:
    """The optimised HLO module of one device."""
    return executable.hlo_modules()[0]


def cost(module: Any) -> dict[str, float]:
    """FLOPs and bytes accessed of one run, as XLA counts them in the optimised program.

    Asked of XLA's own analysis: libtpu's, for other chips than v5e, ends the process.
    """
    import jax
    from jax._src.lib import xla_client as xc

    client = jax.devices("cpu")[0].client
    found = xc._xla.hlo_module_cost_analysis(client, module)
    return {"flops": found.get("flops", 0.0), "bytes": found.get("bytes accessed", 0.0)}


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
