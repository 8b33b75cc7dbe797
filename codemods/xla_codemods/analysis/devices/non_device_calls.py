"""Calls to which the name of a device is a word, or another rule's affair."""

from __future__ import annotations

from ..inference.library_types import FOREIGN, RUNTIME

# Calls whose strings other rules deal with, or that take the name of a device and not a device.
OTHERS = (
    "torch.cuda.",
    "torch.accelerator.",
    "torch.amp.",
    "torch.autocast",
    "torch.distributed.",
    "torch.library.",
    "torch.profiler.",
    "torch.backends.",
    "torch.utils.",
    "torch.load",
    "torch.jit.load",
    "torch.Generator",
    "torch.Stream",
    "torch.Event",
    "torch.set_default_device",
    "torch.get_device_module",
    "torch.testing.",
    "torch._",
    "safetensors.",
    "typing.",
    "pytest.",
    "unittest.",
    RUNTIME,
)
# Functions that look at a string, show it, or make another of it.
TEXT_METHODS = frozenset(
    (
        "count critical debug endswith error exception find get pop setdefault fullmatch index info join log lower "
        "lstrip match partition print remove replace rpartition rsplit rstrip search skipIf skipUnless split "
        "startswith strip sub upper warn warning write"
    ).split()
)
TEXT_FUNCTIONS = frozenset(
    (
        "Exception NotImplementedError Path RuntimeError ValueError bool delattr dict getattr hasattr input "
        "isinstance len print repr require setattr sorted str type"
    ).split()
)
# Libraries to which such a string is no device of torch's.
NO_DEVICES = FOREIGN | set(
    "argparse collections importlib itertools json logging numpy os pathlib re shutil string subprocess sys time torch"
    " warnings".split()
)
# Simulators and engines that manage their devices themselves: they have CUDA devices, and no XLA devices.
ENGINES = frozenset(
    "brax cudf cugraph cuml envpool faiss genesis gym gymnasium habitat_sim isaacgym isaacgymenvs isaaclab isaacsim"
    " mani_skill mani_skill2 mujoco_warp nvidia omni sapien warp".split()
)


def is_of_an_engine(dotted: str | None) -> bool:
    """Return True if `dotted` belongs to a library that manages its devices itself, next to torch."""
    return dotted is not None and dotted.partition(".")[0] in ENGINES
