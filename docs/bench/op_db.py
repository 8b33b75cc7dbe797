"""Which of PyTorch's operations give other values or gradients on XLA:CPU than on the CPU, by PyTorch's own samples.

    python docs/bench/op_db.py [--dtype float32] [--plain] [--samples 12] [NAME ...]

`torch.testing`'s table `op_db` has sample inputs for some 600 operations; it needs the package `expecttest`. Each
operation runs in a process of its own, because some of them end it. Random operations and those whose result is not
unique are left out. A line per difference: operation, dtype, what differs, and by how much. `--plain` leaves the
runtime's patches out. Takes about ten minutes for a dtype.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import torch
import torch_xla
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

SEED = torch.manual_seed
LIMIT = 120  # seconds of one operation
# Bases, signs, orders of equal elements, pivots, and memory that nobody has written.
NOT_UNIQUE = (
    "svd", "eig", "qr", "lu", "lstsq", "pca_lowrank", "topk", "sort", "argsort", "empty", "ldl", "polar",
)  # fmt: skip
# More than rounding, for sums in another order.
TOLERANCE = {
    torch.float32: 1e-3, torch.complex64: 1e-3, torch.float64: 1e-6, torch.complex128: 1e-6,
    torch.bfloat16: 6e-2, torch.float16: 1e-2,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--dtype", default="float32", type=lambda name: getattr(torch, name))
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--samples", type=int, default=12)
    options = parser.parse_args()
    if not options.plain:
        from xla_migrate import runtime  # noqa: F401  once for all processes; it changes torch
    chosen = [
        op
        for op in op_db
        if options.dtype in op.supported_dtypes("cpu")
        and (op.name in options.names or not options.names)
        and (options.names or not any(word in op.name for word in NOT_UNIQUE))
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [
            line
            for lines in pool.map(lambda op: in_a_process(op, options), chosen)
            for line in lines
        ]
    print(f"{len(chosen)} operations, {options.dtype}: {len(found)} differences")


def in_a_process(op: Any, options: argparse.Namespace) -> list[str]:
    """Print and return what differs."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            with os.fdopen(writing, "w") as pipe:
                for line in differences(op, options):
                    print(line, file=pipe, flush=True)
            status = 0
        except Exception:
            traceback.print_exc()
        finally:  # an exception must not go on in the copy of this process
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        lines = pipe.read().splitlines()
    if status := os.waitpid(child, 0)[1]:
        lines.append(f"ends the process with status {status}")
    lines = [
        f"{op.formatted_name} {str(options.dtype).partition('.')[2]}: {line}"
        for line in dict.fromkeys(lines)
    ]
    for line in lines:
        print(line, flush=True)
    return lines


def differences(op: Any, options: argparse.Namespace) -> Iterator[str]:
    """Yield a line for each sample whose values or gradients differ on XLA."""
    signal.alarm(LIMIT)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if options.plain:
        device = torch_xla.device()
    else:
        from xla_migrate import runtime as xla

        device = xla.xla_device()
    grads = op.supports_autograd and (options.dtype.is_floating_point or options.dtype.is_complex)
    torch.manual_seed(0)
    try:
        samples = list(op.sample_inputs("cpu", options.dtype, requires_grad=grads))[
            : options.samples
        ]
    except Exception as error:
        samples = []
        yield f"has no samples: {first_line(error)}"
    for sample in samples:
        yield from of_a_sample(op, sample, device, options.dtype)


def of_a_sample(op: Any, sample: Any, device: torch.device, dtype: torch.dtype) -> Iterator[str]:
    arguments = (sample.input, sample.args, sample.kwargs)
    try:
        expected, again = computed(op, arguments, "cpu", 0), computed(op, arguments, "cpu", 1)
    except Exception:
        return  # a sample that torch itself refuses
    if not all(equal(a, b, 0.0) for part in (0, 1) for a, b in zip(expected[part], again[part])):
        return  # random
    try:
        found = computed(op, arguments, device, 0)
    except Exception as error:
        yield f"raises {type(error).__name__}: {first_line(error)}"
        return
    for part, kind in enumerate(("value", "gradient")):
        for a, b in zip(expected[part], found[part], strict=True):
            if not equal(a, b, TOLERANCE.get(dtype, 0.0)):
                yield f"{kind} differs: {described(a, b)}"


def computed(op: Any, arguments: Any, device: Any, seed: int) -> tuple[list[Any], list[Any]]:
    """Return values and gradients that the device computes, copied to the CPU."""
    torch.manual_seed = lambda given: SEED(given + seed)  # some samples set their own
    torch.manual_seed(0)

    def moved(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return torch.device(device) if isinstance(value, torch.device) else value
        return value.detach().clone().to(device).requires_grad_(value.requires_grad)

    given, args, kwargs = pytree.tree_map(moved, arguments)
    if "device" in kwargs:
        kwargs["device"] = device
    leaves = [
        v
        for v in pytree.tree_leaves((given, args, kwargs))
        if isinstance(v, torch.Tensor) and v.requires_grad
    ]
    results = [
        v for v in pytree.tree_leaves(op(given, *args, **kwargs)) if isinstance(v, torch.Tensor)
    ]
    losses = [weighted(v) for v in results if v.requires_grad and v.numel()]
    slopes: Any = [None] * len(leaves)
    if losses and leaves:
        slopes = torch.autograd.grad(sum(losses), leaves, allow_unused=True)
    values = [v.detach().to_dense().cpu() for v in results]
    return values, [v if v is None else v.to_dense().cpu() for v in slopes]


def weighted(value: torch.Tensor) -> Any:
    """Return one number in which each element has another weight, so that swapped elements change it."""
    value = torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
    weights = torch.linspace(0.5, 1.5, value.numel()).reshape(value.shape)
    return (value.float() * weights.to(value.device)).sum()


def equal(a: Any, b: Any, tolerance: float) -> bool:
    if a is None or b is None:
        return not any(v is not None and v.any() for v in (a, b))  # no gradient is one of zeros
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    scale = (
        max(1.0, float(a[a.isfinite()].abs().max()))
        if (a.is_floating_point() or a.is_complex()) and a.isfinite().any()
        else 1.0
    )
    return torch.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def described(a: Any, b: Any) -> str:
    if a is None or b is None:
        return "one is missing"
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype} {list(a.shape)} and {b.dtype} {list(b.shape)}"
    wide = torch.complex128 if a.is_complex() else torch.float64
    at = (
        (a.to(wide) - b.to(wide)).abs().nan_to_num(torch.inf, torch.inf).argmax()
        if a.numel()
        else 0
    )
    return f"{a.flatten()[at].item()} and {b.flatten()[at].item()}"


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0][:150]


if __name__ == "__main__":
    sys.exit(main())
