"""True if a compiled graph fits the chip, and what to change if it does not."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from .mlir import Graph, parse, shape_of, skeleton
from .tracing import Traced

FITS, TOO_LARGE, REFUSED, UNKNOWN = "fits", "too large", "refused", "not compiled"
_SIZE = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_FIGURE = re.compile(r"([\d.]+)\s*([KMGT]?)B?")
_OF_HBM = re.compile(
    r"Used ([\d.]+[KMGT]?)B? of ([\d.]+[KMGT]?)B? hbm|\(([\d.]+[KMGT]?)B?\) exceeds available HBM \(([\d.]+[KMGT]?)B?\)",
    re.IGNORECASE,
)


@dataclass
class Verdict:
    """The result for one graph.

    Attributes:
        graph: the graph, as it was cut.
        status: FITS, TOO_LARGE, REFUSED (by the compiler) or UNKNOWN (no answer: a timeout, a crash).
        reason: for the last three, with the compiler's own figures or words.
        advice: what to change, if it is too large.
        seconds: that the compiler took; it may have been in an earlier run.
        memory: bytes on one chip by kind: arguments, outputs, aliased, temporary, code.
        peak: of the bytes that this graph needs at once, with what lies beside it.
        limit: bytes that programs may use of the chip's, as the compiler says; 0 where not known.
        flops: of one run on one device, as XLA counts (a loop's body once).
        bytes: read and written, likewise.
        collectives: how many of each kind.
        cached: the answer is one of an earlier run.
        differs: of graphs that differ only in shapes: what did, here and in the first of them.
    """

    graph: Traced
    status: str
    reason: str = ""
    advice: list[str] = field(default_factory=list)
    seconds: float = 0.0
    memory: dict[str, int] = field(default_factory=dict)
    peak: int = 0
    limit: int = 0
    flops: float = 0.0
    bytes: float = 0.0
    collectives: dict[str, int] = field(default_factory=dict)
    cached: bool = False
    differs: str = ""


def verdict(graph: Traced, reply: dict[str, Any], limit: int, cached: bool = False) -> Verdict:
    """From the worker's reply."""
    error = reply.get("error")
    if error is not None:
        return _failed(graph, str(error), bool(reply.get("passing")), limit, cached)
    memory = reply["memory"]
    peak = needed(memory) + graph.beside
    out = Verdict(
        graph,
        FITS,
        seconds=reply["seconds"],
        memory=memory,
        peak=peak,
        limit=limit,
        flops=reply["cost"]["flops"],
        bytes=reply["cost"]["bytes"],
        collectives=reply["collectives"],
        cached=cached,
    )
    if not limit:
        out.status = UNKNOWN
        out.reason = (
            f"compiled, and needs {size(peak)}; the compiler did not report the chip's memory"
        )
    elif peak > limit:
        out.status = TOO_LARGE
        parts = [f"{kind} {size(memory[kind])}" for kind in ("arguments", "outputs", "temporary")]
        if memory["aliased"]:
            parts.append(f"less {size(memory['aliased'])} that outputs take over")
        if graph.beside:
            parts.append(f"{size(graph.beside)} held outside the graph")
        out.reason = f"needs {size(peak)} of {size(limit)}: {', '.join(parts)}"
        out.advice = advice(memory["arguments"] + graph.beside, memory["temporary"], graph)
    return out


def needed(memory: dict[str, int]) -> int:
    """Bytes that a program needs at once: XLA's own sum."""
    return (
        memory["arguments"]
        + memory["outputs"]
        - memory["aliased"]
        + memory["temporary"]
        + memory["code"]
    )


def _failed(graph: Traced, error: str, passing: bool, limit: int, cached: bool) -> Verdict:
    if passing:
        return Verdict(graph, UNKNOWN, error, limit=limit)
    first = error.splitlines()[0][:300]
    found = _OF_HBM.search(error)
    larger = 0 < limit < (0 if graph.spmd else argument_bytes(graph.text))
    if found is None and "RESOURCE_EXHAUSTED" not in error and not larger:
        return Verdict(graph, REFUSED, first, limit=limit, cached=cached)
    out = Verdict(graph, TOO_LARGE, first, limit=limit, cached=cached)
    if found is not None:
        used, have = [group for group in found.groups() if group]
        out.peak, out.limit = figure(used), figure(have)
    arguments = re.search(r"arguments\s+([\d.]+[KMGT]?)B?", error)
    held = figure(arguments.group(1)) if arguments else argument_bytes(graph.text)
    out.advice = advice(held + graph.beside, max(out.peak - held, 0), graph)
    return out


def advice(held: int, temporary: int, graph: Traced) -> list[str]:
    """Return what makes a graph smaller, the most promising first.

    Args:
        held: bytes of arguments, and beside the graph: weights, the optimizer's state, batches.
        temporary: bytes while it runs: activations, mostly.
        graph: the graph.
    """
    trains = "backward" in graph.phases
    smaller = "a smaller batch (--fit OPTION=LOW..HIGH finds the largest that fits)"
    sharded = "weights and optimizer state sharded over chips (--parallel spmd, FSDP)"
    lean = "bfloat16 weights, or an optimizer with less state"
    checkpoint = (
        "activation checkpointing (xla.checkpoint around the blocks): recomputes, keeps less"
    )
    autocast = "bfloat16 autocast: activations at half the size"
    if held > temporary:
        return [sharded, lean, smaller]
    return [checkpoint, smaller, autocast] if trains else [smaller, autocast]


def capacity(error: str) -> int:
    """Bytes of a chip that programs may use, from the compiler's refusal of one that is far too large; 0: not told."""
    found = _OF_HBM.search(error)
    return figure([group for group in found.groups() if group][1]) if found else 0


# 120 GiB: more than a v5p has, and less than the 128 that the compiler can count.
TOO_LARGE_FOR_ANY = """module @graph {
  func.func @main(%arg0: tensor<3932160x8192xf32>) -> (tensor<3932160x8192xf32>) {
    %0 = stablehlo.tanh %arg0 : tensor<3932160x8192xf32>
    return %0 : tensor<3932160x8192xf32>
  }
}
"""


def figure(text: str) -> int:
    """Bytes of the compiler's "15.75G"."""
    found = _FIGURE.match(text)
    return int(float(found.group(1)) * _SIZE[found.group(2).upper()]) if found else 0


def size(count: float) -> str:
    """Format bytes in binary units."""
    for unit in ("B", "KiB", "MiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"


_WIDTHS = {
    "i1": 1,
    "i64": 8,
    "ui64": 8,
    "f64": 8,
    "i16": 2,
    "ui16": 2,
    "f16": 2,
    "bf16": 2,
    "i8": 1,
    "ui8": 1,
}


def argument_bytes(text: str) -> int:
    """Return the bytes of a graph's arguments by their types alone, without the layout's padding."""
    return sum(_bytes(kind) for _, kind, _ in parse(text).arguments)


def _bytes(kind: str) -> int:
    shape, element = shape_of(kind)
    count = 1
    for one in shape:
        count *= one
    return count * (1 if element.startswith("f8") else _WIDTHS.get(element, 4))


def name_differences(verdicts: list[Verdict]) -> None:
    """Set `differs` of each graph that differs only in shapes from an earlier one."""
    first: dict[str, Graph] = {}
    for one in verdicts:
        graph = parse(one.graph.text)
        known = first.setdefault(skeleton(one.graph.text), graph)
        if known is not graph:
            one.differs = _differences(known, graph)


def _differences(a: Graph, b: Graph) -> str:
    pairs = [
        f"{_short(y)} for {_short(x)}"
        for (_, x, _), (_, y, _) in zip(a.arguments, b.arguments)
        if x != y
    ]
    told = list(dict.fromkeys(pairs))
    if not told:
        return "a constant or a size inside"
    more = f" and {len(told) - 3} more" if len(told) > 3 else ""
    return ", ".join(told[:3]) + more


def _short(kind: str) -> str:
    shape, element = shape_of(kind)
    return f"{element}[{','.join(map(str, shape))}]"
