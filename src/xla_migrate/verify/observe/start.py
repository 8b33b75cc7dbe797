"""Attaching everything, in the order in which the script imports what it hooks into."""

from __future__ import annotations

import atexit
import os
import random
import sys
from collections.abc import Callable
from typing import Any

from . import plan as plans
from .process import guard, imports, other_clock, printed, records, uncaught, where
from .process.patching import Patches

_patches = Patches()
_finish: list[Any] = []  # functions to call at the end of training, last first


Redirect = Callable[[int], None]


def attach(redirect: Redirect) -> None:
    """Prepare this process according to its run's plan.

    Args:
        redirect: sends CUDA to the CPU, as so many devices, once torch is imported.
    """
    plan = plans.current()
    if plan is None:
        return
    records.open_in(plan.records)
    where.set_project(plan.project)
    uncaught.install()
    if plan.watch:
        printed.install()
    _own_debug_file()
    if plan.original:
        guard.install(plan.original, plan.project)
    if plan.clock_rate != 1:
        other_clock.install(plan.clock_rate)
    random.seed(plan.seed)
    if plan.side == "reference":
        imports.hide("torch_xla")  # a reference with it would train on XLA, or meet fact 1.106
    sys.meta_path.insert(0, imports.ImportFirst("torch", plans.CUDA_ONLY))
    imports.after(
        {
            "numpy": lambda numpy: _seed_numpy(numpy, plan.seed),
            "torch": lambda torch: _torch(torch, plan, redirect),
            "torch_xla": lambda torch_xla: _torch_xla(torch_xla, plan),
        }
    )


def _own_debug_file() -> None:
    """torch_xla's account of compilations of this process alone, not of all of them mixed."""
    path = os.environ.get("PT_XLA_DEBUG_FILE")
    if path:
        folder = os.path.dirname(path)
        os.environ["PT_XLA_DEBUG_FILE"] = os.path.join(folder, f"compilations.{os.getpid()}.txt")


def finish() -> None:
    """Write what is still to be written; calls after the first do nothing."""
    while _finish:
        _finish.pop()()


def _seed_numpy(numpy: Any, seed: int) -> None:
    numpy.random.seed(seed % (1 << 32))
    make = numpy.random.default_rng

    def default_rng(given: Any = None) -> Any:
        return make(seed if given is None else given)

    numpy.random.default_rng = default_rng


def _torch(torch: Any, plan: plans.RunPlan, redirect: Redirect) -> None:
    from .details import start as details
    from .device import reads
    from .numerics import arithmetic, device_random, dropout, precision
    from .training import losses, writes

    redirected = not torch.cuda.is_available() if plan.redirect is None else plan.redirect
    if redirected:
        redirect(plan.device_count)
    if plan.watch:
        device_random.install(_patches)
        printed.leave_out(device_random.loading)
        dropout.install(_patches, plan.dropout)
        precision.install(_patches, plan.precision)
        reads.install(_patches)
        losses.install(_patches)
        writes.wanted = plan.explain
        tap = _tap(plan, redirected)
        details.install(_patches, plan, tap, redirected)
        arithmetic.install(_patches, plan.arithmetic, plan.roughness)
    _guard_saving(torch)
    torch.manual_seed(plan.seed)
    if plan.shim is not None:
        _run_shim(plan.shim)


def _guard_saving(torch: Any) -> None:
    save = torch.save

    def guarded(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(f, (str, os.PathLike)):
            guard.before_writing(f)
        save(obj, f, *args, **kwargs)

    _patches.put(torch, "save", guarded)


def _tap(plan: plans.RunPlan, redirected: bool) -> Any:
    from .training import steps

    tap = steps.Tap(
        plan.steps,
        finish,
        keep=plan.keep,
        follow=plan.follow,
        shake=plan.shake,
        redirected=redirected,
    )
    manual = steps.install(_patches, tap)
    if redirected:
        atexit.register(lambda: _leave(tap))  # behind what is registered from here on
    _finish.append(lambda: _end(tap))
    _finish.append(lambda: None if tap.stopped else manual.close())
    at_exit(finish)
    return tap


def _leave(tap: Any) -> None:
    """End a process that was stopped in a group: its threads of gloo, amid an epoch, may abort an interpreter that ends."""
    import torch.distributed as dist

    if not (tap.stopped and dist.is_available() and dist.is_initialized()):
        return
    from multiprocessing import util

    util._exit_function()  # type: ignore[attr-defined]  # ends the workers of loaders
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(0)


def at_exit(action: Any) -> None:
    """Run at the end of the process, of a multiprocessing child as well."""
    from multiprocessing import util

    atexit.register(action)
    util.Finalize(None, action, exitpriority=100)  # children of multiprocessing skip atexit


def _end(tap: Any) -> None:
    import torch

    from .details import batches, replay
    from .device import counters, device_values
    from .numerics import device_random, dropout, precision
    from .training import untracked_state

    if not tap.events:
        return
    batches.write()
    for listener in tap.at_end:
        listener()
    if counters.active():
        import torch_xla

        torch_xla.sync()
    fallbacks = counters.fallbacks()
    untracked_state.end()
    device_values.fetch()
    records.write(
        "end",
        stopped=tap.stopped,
        events=tap.events,
        fallbacks=fallbacks,
        device_draws=device_random.draws,
        notes=sorted(dropout.notes | replay.notes),
        lowered=precision.lowered,
        float16=torch.float16 in precision.asked,
        loaded=where.loaded(),
    )


def _torch_xla(torch_xla: Any, plan: plans.RunPlan) -> None:
    import torch_xla.core.xla_model as xm
    import torch_xla.debug.metrics as metrics

    from .device import counters, device_values, fallback_places, shapes
    from .numerics import device_random, dropout
    from .training import losses

    if not plan.watch:
        return
    counters.install(metrics)
    device_random.install_torch_xla(_patches, torch_xla, xm)
    if plan.dropout == "same":
        dropout.install_torch_xla(_patches)
    if plan.precision == "float32" and os.environ.get("PJRT_DEVICE") == "TPU":
        torch_xla._XLAC._xla_set_mat_mul_precision("highest")  # by default it rounds to bfloat16
    # Not around the mark itself: torch_xla names the cause of a compilation by the innermost frames.
    closures = xm._run_step_closures

    def then_fetch() -> Any:
        out = closures()
        if plan.explain:
            shapes.after_mark()
        counters.after_mark(losses.passes)
        device_values.after_mark()
        return out

    _patches.put(xm, "_run_step_closures", then_fetch)
    if plan.explain:
        shapes.install()
        fallback_places.install()
    at_exit(finish)  # before torch_xla's own, after which nothing can be fetched


def _run_shim(path: str) -> None:
    with open(path, encoding="utf-8") as file:
        code = compile(file.read(), path, "exec")
    exec(code, {"__name__": "data_shim", "__file__": os.path.abspath(path)})
