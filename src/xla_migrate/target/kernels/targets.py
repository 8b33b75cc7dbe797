"""The targets of `compile --ops`, and where it is known which operations they run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

TPU, XLA, NEURON = "tpu", "xla", "neuron"
_TABLE = Path(__file__).with_name("torch_tpu.txt")
_OPERATION = re.compile(r"\w+::\w+(?:\.\w+)?")


class TargetError(Exception):
    """A target whose kernels are not known: one line that says what to type."""


@dataclass(frozen=True)
class KernelTarget:
    """A target.

    Attributes:
        name: "tpu", "xla" or "neuron".
        source: where its kernels are known from.
        listed: operators with a kernel for "tpu", operators without one for "neuron"; none for "xla", which counts
            its fallbacks.
        consequence: what happens at an operation without a kernel.
    """

    name: str
    source: str
    listed: tuple[str, ...]
    consequence: str


def parse(text: str) -> KernelTarget:
    """Return the target that `--ops TEXT` names.

    Args:
        text: "tpu", "xla", or "neuron=FILE" with the output of `torch_neuronx.get_fallback_ops()`.

    Raises:
        TargetError: another text, or a file that lists no operation.
    """
    name, _, file = text.partition("=")
    if name == TPU and not file:
        head, *names = _TABLE.read_text(encoding="utf-8").splitlines()
        source = head.strip("# ").partition(";")[0]
        return KernelTarget(TPU, source, tuple(names), "raises an error")
    if name == XLA and not file:
        return KernelTarget(XLA, "the fallbacks that torch_xla counts", (), "runs on the CPU")
    if name == NEURON and file:
        return KernelTarget(NEURON, file, _fallbacks(Path(file)), "runs on the CPU")
    if text == NEURON:
        raise TargetError(
            "--ops neuron: unknown without a list. On a Trainium machine, write "
            "`torch_neuronx.get_fallback_ops()` to a file, and pass --ops neuron=FILE"
        )
    raise TargetError(f"--ops {text}: tpu, xla, or neuron=FILE")


def _fallbacks(file: Path) -> tuple[str, ...]:
    try:
        found = _OPERATION.findall(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise TargetError(f"--ops neuron={file}: {error}") from error
    if not found:
        raise TargetError(f"--ops neuron={file}: lists no operation such as aten::median")
    return tuple(sorted(set(found)))
