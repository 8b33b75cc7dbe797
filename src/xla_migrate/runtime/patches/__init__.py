"""Changes of torch if torch_xla is the backend: one module for each fault.

Each module says in its docstring what goes wrong without it, how to see that, and which test fails
when it can go; ``VERSIONS`` says for which versions it is; ``apply()`` makes the change. Nothing is
changed by importing a module, and nothing at all on CUDA and on the CPU. docs/runtime.md has the list.
"""

from __future__ import annotations

import importlib
from typing import Any, Literal

Moment = Literal["import", "torch_xla", "device"]

# When each is applied: with the runtime's import, once torch_xla is imported, once its device is used.
MODULES: dict[Moment, tuple[str, ...]] = {
    "import": ("parameter_identity", "host.bfloat16_numpy", "host.log_handler"),
    "torch_xla": (
        "operations.adaptive_pooling",
        "operations.adaptive_softmax",
        "autocast",
        "averaged_model",
        "batch_norm",
        "causal_masks",
        "complex_products",
        "operations.complex_arithmetic",
        "operations.complex_views",
        "decompositions",
        "distributions",
        "operations.double_complex",
        "operations.empty_dims",
        "equal_shapes",
        "operations.fourier_gradients",
        "operations.gamma_functions",
        "operations.gaussian_loss",
        "gru",
        "half_sums",
        "inference_tensors",
        "host.draws",
        "linear_algebra.batched_svd",
        "linear_algebra.log_determinants",
        "operations.masked_assignments",
        "packed_sequences",
        "resize",
        "operations.scaled_products",
        "operations.scan_gradients",
        "operations.scattering",
        "operations.strided_views",
        "operations.xlogy_numbers",
        "shared_inputs",
    ),
    "device": ("host_reads", "attention_masks", "optimizer_counts", "fused_optimizers"),
}


def apply(moment: Moment) -> None:
    """Make the changes of this moment that are for the installed versions.

    Args:
        moment: ``"import"``, ``"torch_xla"`` or ``"device"``: see ``MODULES``.
    """
    for name in MODULES[moment]:
        apply_one(name)


def apply_one(name: str) -> None:
    """Make one change, if it is for the installed versions; a second time does nothing.

    Args:
        name: The module's.
    """
    module = load(name)
    if name not in _applied and module.VERSIONS.met():
        _applied.add(name)
        module.apply()


def load(name: str) -> Any:
    """The module of that name, which has ``VERSIONS`` and ``apply``."""
    return importlib.import_module(f"{__name__}.{name}")


_applied: set[str] = set()
