"""Take the graph at each place where torch_xla would compile and run what is pending, once for each new graph."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import torch

from ....verify.observe.device import counters, shapes
from ....verify.observe.process import where
from ....verify.observe.process.stop import TrainingStopped
from .. import matching, mlir
from ..plan import Plan
from . import phases, records

_FEW = 4096  # elements of a tensor that is computed rather than made up
_SMALL = 1 << 20  # bytes that it may follow from
MARK, READ, SAVE = "step mark", "read", "save"


def install(torch_xla: Any, plan: Plan) -> Tracer:
    """Take graphs at every step mark and synchronisation of torch_xla from now on."""
    library = torch_xla._XLAC
    tracer = Tracer(library, plan)

    def cut_first(original: Callable[..., Any]) -> Callable[..., Any]:
        def cutting(*args: Any, **kwargs: Any) -> Any:
            tracer.cut()
            with tracer.compiling():  # finds nothing pending unless graphs are executed
                return original(*args, **kwargs)  # moves the random state on

        return cutting

    for name in ("_xla_step_marker", "_xla_sync_live_tensors"):
        setattr(library, name, cut_first(getattr(library, name)))
    together = library._xla_sync_multi

    def some(tensors: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        tracer.take(tensors, READ)
        with tracer.compiling():
            return together(tensors, *args, **kwargs) if plan.execute else None

    library._xla_sync_multi = some
    return tracer


class Tracer:
    """The graphs of this process. `library` is torch_xla's `_XLAC`."""

    def __init__(self, library: Any, plan: Plan) -> None:
        self._library = library
        self._plan = plan
        self._fetch = library._xla_get_cpu_tensors
        self._known: dict[Any, int] = {}
        self.values: dict[int, torch.Tensor] = {}  # of tensors, by number, that were known at a cut
        self._saving = 0
        self._is_stopped = False  # amid a step: what is pending then is no graph of the script's
        self._last_kept: int | None = None  # a graph that was found since the last compilation
        self._last_new = 0  # the optimizer step after which the newest graph was found

    def cut(self) -> None:
        """Take the graph of all that is pending, which then counts as computed."""
        pending = self._take_live()
        if not self._plan.execute:
            for tensor in pending:
                if self.is_known(tensor):
                    number = self._library._xla_get_tensor_id(tensor)
                    self.values[number] = self._fetch([tensor])[0]
            self._library._clear_pending_irs(_device())
        phases.forget()
        shapes.begin()

    def take(self, tensors: Sequence[torch.Tensor], why: str) -> None:
        """Take the graph of what these depend on. It stays pending, as in torch_xla."""
        ours = [t for t in tensors if t.device.type == "xla"]
        need = self._library._check_tensor_need_materialization(ours)
        pending = [t for t, needed in zip(ours, need, strict=True) if needed]
        if pending:
            key = self._key(pending, why)
            if not self._again(key):
                self._keep(key, mlir.computed(self._text(pending)), why)

    def is_known(self, tensor: torch.Tensor) -> bool:
        """True if a pending tensor follows from a little data that was sent, of integers: a mask, a length, labels.

        Such a value steers the script, and costs nothing to compute.
        """
        if tensor.is_floating_point() or tensor.numel() > _FEW or tensor.requires_grad:
            return False
        _, inputs = self._library._get_tensors_xla_device_data_node([tensor])
        return sum(one.numel() * one.element_size() for one in inputs) <= _SMALL and not any(
            one.is_floating_point() or self._library._is_placecholder(one) for one in inputs
        )

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Mark graphs that end in here as ended by a checkpoint."""
        self._saving += 1
        try:
            yield
        finally:
            self._saving -= 1

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Record the seconds for which torch_xla compiles in here, for the graph that was found last."""
        before = counters.compile_seconds()
        yield
        if self._last_kept is not None and (seconds := counters.compile_seconds() - before):
            records.write("compiled", number=self._last_kept, seconds=seconds)
        self._last_kept = None

    def stop_when_nothing_is_new(self) -> None:
        """End the script once the plan's patience is used up. Called after each optimizer step.

        Raises:
            TrainingStopped: to end it as `sys.exit(0)` does.
        """
        if phases.steps - self._last_new >= self._plan.patience:
            records.write("stopped", steps=phases.steps)
            self._is_stopped = True
            raise TrainingStopped

    def end(self) -> None:
        """Record that the script has come to its end."""
        records.write("end", steps=phases.steps)

    def _take_live(self) -> list[torch.Tensor]:
        """Take the graph of all pending tensors that Python knows, and return these tensors."""
        visible = self._visible()
        need = self._library._check_tensor_need_materialization([t for _, t in visible])
        pending = [pair for pair, needed in zip(visible, need, strict=True) if needed]
        tensors = [tensor for _, tensor in pending]
        clones = [
            tensor
            for (_, tensor), needed in zip(visible, need, strict=True)
            if not needed and self._is_clone(tensor)
        ]
        key = self._key([*tensors, *clones], MARK)
        if not (tensors or clones or phases.seen()) or self._again(key):
            return tensors
        # Autograd may hold results that Python does not see: these are in the graph of all that lives.
        graph = mlir.computed(self._text([]))
        if not graph.results and clones:
            graph = mlir.parse(self._text(clones))
        if not graph.results:
            return tensors
        inputs, donors = self._inputs_and_donors(tensors, graph) if tensors else (set(), [])
        graph = graph.with_donors(donors)
        held = [
            tensor
            for (number, tensor), needed in zip(visible, need, strict=True)
            if not needed and number not in inputs
        ]
        why = SAVE if self._saving else MARK
        kinds = [f"{clone.dtype} {tuple(clone.shape)}" for clone in clones]
        self._keep(key, graph, why, len(donors), self._bytes(held), kinds)
        return tensors

    def _inputs_and_donors(
        self, tensors: list[torch.Tensor], graph: mlir.Graph
    ) -> tuple[set[int], list[int]]:
        """The numbers of the tensors that go in, and the arguments whose tensor gets a new value.

        torch_xla hands the memory of those over to the results.
        """
        ids, _ = self._library._get_tensors_xla_device_data_node(tensors)
        own = mlir.computed(self._text(tensors))
        if not own.results or len(ids) != own.given:
            return set(ids), []
        updated = {self._alias(tensor) for tensor in tensors}
        same = matching.arguments(own, graph)
        return set(ids), [same[i] for i, one in enumerate(ids) if one in updated and i in same]

    def _keep(
        self,
        key: Any,
        graph: mlir.Graph,
        why: str,
        donors: int = 0,
        beside: int = 0,
        clones: Sequence[str] = (),
    ) -> None:
        if self._is_stopped or not graph.results:
            return
        number = len(self._known)
        self._known[key] = self._last_kept = number
        self._last_new = phases.steps
        cause = shapes.cause() if self._plan.explain else None
        records.write(
            "graph",
            number=number,
            file=records.keep(f"{number}.mlir", graph.text),
            place=where.caller(),
            why=SAVE if self._saving else why,
            phases=phases.seen(),
            steps=phases.steps,
            donors=donors,
            beside=beside,
            clones=clones,
            hash=key[0].hex(),
            spmd=_is_spmd(),
            cause=None if cause is None else asdict(cause),
        )

    def _again(self, key: Any) -> bool:
        if key not in self._known:
            return False
        records.write("again", number=self._known[key], place=where.caller())
        return True

    def _key(self, tensors: list[torch.Tensor], why: str) -> Any:
        graph = self._library._get_graph_hash(tensors) if tensors else b""
        return graph, why, tuple(phases.seen()), torch.is_grad_enabled()

    def _text(self, tensors: list[torch.Tensor]) -> str:
        text: bytes = self._library._get_stablehlo(tensors, _device(), [_device()], False)
        return text.decode()

    def _visible(self) -> list[tuple[int, torch.Tensor]]:
        """The device's tensors that Python knows, in torch_xla's order: by their number."""
        found: dict[int, torch.Tensor] = {}
        for thing in gc.get_objects():
            if issubclass(type(thing), torch.Tensor) and _is_on_device(thing):
                found[self._library._xla_get_tensor_id(thing)] = thing
                if thing.is_leaf and thing.requires_grad and thing.grad is not None:
                    found[self._library._xla_get_tensor_id(thing.grad)] = thing.grad
        return sorted(found.items(), key=lambda pair: pair[0])

    def _is_clone(self, tensor: torch.Tensor) -> bool:
        """Return True if a graph returns this tensor unchanged: it has the value of another, but no memory yet."""
        told: str = self._library._get_xla_tensor_debug_info(tensor)
        return "xla::device_data" in told and "XLAData: None" in told

    def _alias(self, tensor: torch.Tensor) -> int:
        """The number of the tensor whose buffer this one takes over; its own, if of none."""
        told: str = self._library._get_xla_tensor_debug_info(tensor)
        return int(told.partition("AliasID:")[2].split(None, 1)[0])

    def _bytes(self, tensors: list[torch.Tensor]) -> int:
        """On one device. Several names of one buffer count once."""
        sizes = {}
        for tensor in tensors:
            whole = tensor.numel() * tensor.element_size()
            parts = mlir.parts(self._library._get_xla_sharding_spec(tensor))
            sizes[self._library._unique_id_for_ir_and_data(tensor)] = whole // parts
        return sum(sizes.values())


def _is_on_device(tensor: torch.Tensor) -> bool:
    try:
        return tensor.device.type == "xla"
    except RuntimeError:  # one that was never given a value has no device
        return False


def _device() -> str:
    import torch_xla

    return str(torch_xla.device())


def _is_spmd() -> bool:
    runtime: Any = importlib.import_module("torch_xla.runtime")
    return bool(runtime.is_spmd())
