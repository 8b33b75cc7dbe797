"""Lightning's strategies, plugins and accelerators that XLA cannot take: literals, and values passed by name."""

from __future__ import annotations

import ast

from ..parsed_file import ParsedFile
from ..syntax import keyword, text_of

# Names that mean what "auto" means with several devices.
PLAIN_STRATEGIES = frozenset({"ddp", "dp"})

# Accelerators that `xla.patch_lightning()` leaves to Lightning.
UNPATCHED = frozenset({"cpu", "tpu"})
# Names of accelerators that are GPUs.
GPUS = ("gpu", "cuda")
# What says mixed precision in float16.
HALVES: tuple[object, ...] = (16, "16", "16-mixed")
TAKEN_CLASSES = frozenset({"CUDAAccelerator", "DDPStrategy", "DataParallelStrategy"})

_SHARDED = ("deepspeed", "fsdp", "ddp_sharded", "colossalai", "bagua", "horovod")
_HOMES = ("lightning.", "pytorch_lightning.", "lightning_fabric.")
_CLASSES_OF_CUDA = (
    "DDP",
    "FSDP",
    "DeepSpeed",
    "DataParallel",
    "ModelParallel",
    "Horovod",
    "Bagua",
    "ColossalAI",
    "SingleDevice",
)
# float16 precisions, and precisions with CUDA kernels; `MixedPrecision` may receive "bf16-mixed".
_PRECISIONS = (
    "NativeMixedPrecision",
    "ApexMixedPrecision",
    "BitsandbytesPrecision",
    "DeepSpeedPrecision",
    "FSDPPrecision",
    "FSDPMixedPrecision",
    "TransformerEnginePrecision",
    "HalfPrecision",
    "MixedPrecision",
)
_STRATEGY = 'the strategy fails on XLA: use "auto"'
_PRECISION = 'the precision needs CUDA and fails on XLA: use `precision="bf16-mixed"`'
DEVICES = 'Lightning gets one device on Trainium and XLA:CPU, whatever the number is: use `devices="auto"`'
ACCELERATOR = 'with this accelerator Lightning does not use XLA: use "auto"'


def fault_of_strategy(script: ParsedFile, node: ast.expr) -> str:
    """Return why XLA cannot take the strategy `node`, a name or an object; empty if it can, or that is unknown."""
    if isinstance(node, ast.Call):
        return fault_of_strategy_class(_class_of_lightning(script, node))
    return fault_of_strategy_name(text_of(node) or "")


def fault_of_strategy_name(name: str) -> str:
    """Return why XLA cannot take the strategy of this name; empty if it can, or that is unknown."""
    if name.startswith(_SHARDED):
        return f'`{name}` fails without CUDA: use "xla_fsdp"'
    return _STRATEGY if name in PLAIN_STRATEGIES or name.startswith("ddp_") else ""


def fault_of_strategy_class(made: str) -> str:
    """Why XLA cannot take an object of this class of Lightning's; empty if it can, or it is no strategy."""
    of_cuda = made.startswith(_CLASSES_OF_CUDA) and "XLA" not in made
    return _STRATEGY if of_cuda and made.endswith(("Strategy", "Plugin")) else ""


def fault_of_devices(value: object) -> str:
    """Return what to do about a number or list of several devices; empty for one device."""
    if isinstance(value, str):
        value = value.strip()
        several = "," in value or (value.isdigit() and int(value) > 1)
    else:
        several = isinstance(value, int) and value > 1
    return DEVICES if several else ""


def counts_for_a_trainer(script: ParsedFile, call: ast.Call) -> bool:
    """Return True if `call` is the whole number of devices of a Trainer or Fabric, or a branch of it."""
    node: ast.AST = call
    around = script.parent(node)
    while isinstance(around, ast.IfExp) and node is not around.test:
        node, around = around, script.parent(around)
    if not isinstance(around, ast.keyword) or around.arg not in {"devices", "gpus"}:
        return False
    made = script.parent(around)
    if not isinstance(made, ast.Call) or not is_patched_for(made):
        return False
    return _class_of_lightning(script, made) in {"Trainer", "Fabric"}


def is_patched_for(call: ast.Call) -> bool:
    """Return True if XLA815 calls `xla.patch_lightning()` before this Trainer or Fabric: not for the CPU or a TPU."""
    accelerator = keyword(call, "accelerator")
    return not (isinstance(accelerator, ast.Constant) and accelerator.value in UNPATCHED)


def is_taken(script: ParsedFile, name: str, node: ast.expr) -> bool:
    """True if `xla.patch_lightning()` takes `node`, the argument `name` of a Trainer or Fabric, for what is the same on XLA."""
    value = node.value if isinstance(node, ast.Constant) else None
    if name == "precision":
        return value in HALVES and not isinstance(value, bool)
    if isinstance(node, ast.Call):
        return _class_of_lightning(script, node) in TAKEN_CLASSES
    if name == "accelerator":
        return value in GPUS
    return name == "strategy" and is_taken_strategy(value)


def is_taken_strategy(value: object) -> bool:
    """Return True if `value` is a strategy's name that `xla.patch_lightning()` takes for data parallelism."""
    if not isinstance(value, str):
        return False
    return value in PLAIN_STRATEGIES or (
        value.startswith("ddp_") and not value.startswith(_SHARDED)
    )


def fault_of_plugins(script: ParsedFile, node: ast.expr) -> str:
    """Return why XLA cannot take `plugins=node`, an object or a list of them; empty if it can, or that is unknown."""
    elements = node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node]
    for element in elements:
        if isinstance(element, ast.Call):
            made = _class_of_lightning(script, element)
            values = [a.value for a in element.args if isinstance(a, ast.Constant)]
            if made.startswith(_PRECISIONS) and not str(next(iter(values), "")).startswith("bf16"):
                return _PRECISION
            if found := fault_of_strategy(script, element):
                return found
    return ""


def fault_of_accelerator(script: ParsedFile, node: ast.expr) -> str:
    """Return why the accelerator `node` does not find XLA; empty if it does, or that is unknown."""
    if isinstance(node, ast.Call):
        return ACCELERATOR if _class_of_lightning(script, node) in _ACCELERATORS else ""
    return ACCELERATOR if isinstance(node, ast.Constant) and node.value in GPUS else ""


_ACCELERATORS = frozenset({"CUDAAccelerator", "GPUAccelerator"})


def _class_of_lightning(script: ParsedFile, call: ast.Call) -> str:
    """The class of Lightning's that `call` makes an object of."""
    dotted = script.dotted(call.func) or ""
    return dotted.rpartition(".")[2] if dotted.startswith(_HOMES) else ""
