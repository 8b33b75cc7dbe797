"""How a function that runs in a separate process uses the accelerator, as far as is sure."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from ...flow.calls import argument, named
from ...flow.closure import ends, reach
from ...flow.conditions import conditions
from ...flow.edges import sources
from ..inference.values import ACCEL, DEVICE, HOST, TENSOR
from ..parsed_file import ParsedFile
from ..scopes import FunctionNode
from ..syntax import keyword, parameters, walk_body
from .availability import OTHER_ACCELERATORS, asks_availability, whole_choice
from .specs import Devices, is_host
from .uses import MOVES, makes_tensors

# What a parameter is given: a device, or something that lives on it.
Given = Mapping[str, str]
PLACE, THING = "device", "on the device"

_SAME = frozenset(
    "cuda eval float bfloat16 half named_parameters parameters requires_grad_ share_memory state_dict to train".split()
)
# What holds its first argument: wrappers and optimizers.
_HOLDERS = ("torch.nn.DataParallel", "torch.nn.parallel.", "torch.optim.")
# Calls that initialise the device to answer or to act.
_USES = frozenset(
    f"{package}.{name}"
    for package, names in (
        (
            "torch.cuda",
            "current_device get_device_capability get_device_name get_device_properties "
            "get_rng_state max_memory_allocated mem_get_info memory_allocated memory_reserved "
            "memory_stats reset_peak_memory_stats set_rng_state synchronize",
        ),
        (
            "xla_migrate.runtime",
            "device_capability device_name device_properties get_rng_state mark_step mem_get_info "
            "memory_info reset_peak_memory_stats set_rng_state synchronize",
        ),
    )
    for name in names.split()
)
_Run = tuple[FunctionNode, frozenset[tuple[str, str]]]  # a function, and what it is given


class Workers:
    """The functions and values of one script, as a process that is started for them meets them."""

    def __init__(self, script: ParsedFile) -> None:
        self.script = script
        self._moved_in_place: dict[str, list[ast.Call]] = {}
        for name in ("cuda", "to"):
            for call, _ in script.index.calls_of(name):
                if isinstance(call.func, ast.Attribute) and script.is_statement(call):
                    self._moved_in_place.setdefault(ast.unparse(call.func.value), []).append(call)

    # What is on the accelerator.

    def is_device(self, node: ast.expr | None, given: Given | None = None) -> bool:
        """Return True if `node` is the accelerator, in any spelling; `given`: the values of parameters."""
        if node is None:
            return False
        values = ends([node], lambda n: self._sources_of_device(n, given))
        sure = [n for n in values if self._is_accelerator(n, given)]
        if len(sure) == len(values):
            return True
        tests = (test for n in values for test, _ in conditions(self.script, n, refusals=False))
        return (
            bool(sure)
            and all(n in sure or _is_other(n) for n in values)
            and any(map(self._asks, tests))
        )

    def _sources_of_device(self, node: ast.expr, given: Given | None) -> Sequence[ast.expr]:
        match node:
            case ast.Name() if self._is_parameter(node) or not self._is_assigned(node):
                return []
            case _ if not isinstance(node, ast.Name) and self._is_accelerator(node, given):
                return []
            case ast.Call(args=[kind, *_]) if self.script.dotted(node.func) == "torch.device":
                return [kind]
            case ast.Name() | ast.Attribute() | ast.IfExp():
                return sources(self.script, node)
        return []

    def _is_accelerator(self, node: ast.expr, given: Given | None) -> bool:
        if isinstance(node, ast.Name):
            return self._is_given(node, given, PLACE)
        script, value = self.script, self.script.value(node)
        return (
            (value.has(DEVICE) and value.has(ACCEL))
            or script.cached(Devices).spec(node) is not None
            or whole_choice(script, node) is not None
        )

    def is_thing(self, node: ast.expr | None, given: Given | None = None) -> bool:
        """Return True if `node` is a tensor, module or optimizer on the accelerator, or holds one."""
        if node is None:
            return False
        reached = reach([node], self._sources_of_thing)
        return any(self._is_there(n, given) for n in reached) and not any(
            self._goes_to_the_host(n) for n in reached
        )

    def _sources_of_thing(self, node: ast.expr) -> Sequence[ast.expr]:
        if self._goes_to_the_host(node):
            return []
        match node:
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
                return parts
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _SAME:
                return [owner] if self.script.dotted(node.func) is None else []
            case ast.Call(args=[first, *_]):
                dotted = self.script.dotted(node.func) or ""
                return [first] if dotted.startswith(_HOLDERS) else []
            case ast.Name() if self._is_parameter(node):
                return []
            case ast.Name() | ast.Attribute():
                return sources(self.script, node)
        return []

    def _is_there(self, node: ast.expr, given: Given | None) -> bool:
        match node:
            case ast.Call():
                return self.moves(node, given) or self._makes(node, given)
            case ast.Name() if self._is_parameter(node):
                return self._is_given(node, given, THING)
            case ast.Name() | ast.Attribute():
                return self._is_moved_in_place(node)
        return False

    def moves(self, call: ast.Call, given: Given | None = None) -> bool:
        """Return True if `call` moves a tensor or module to the accelerator."""
        func, script = call.func, self.script
        if not isinstance(func, ast.Attribute) or script.dotted(func) is not None:
            return False
        if func.attr not in {"cuda", *MOVES} or script.defines(func.value, func.attr):
            return False
        if script.is_neither_tensor_nor_module(func.value):
            return False
        return func.attr == "cuda" or any(
            self.is_device(a, given) for a in (*call.args, keyword(call, "device"))
        )

    def _makes(self, call: ast.Call, given: Given | None) -> bool:
        """Return True for `torch.zeros(2, device="cuda")`."""
        device = keyword(call, "device")
        return makes_tensors(call, self.script.index.scope(call)) and self.is_device(device, given)

    def _is_parameter(self, node: ast.Name) -> bool:
        return any(b.how == "parameter" for b in self.script.reaching(node))

    def _is_assigned(self, node: ast.Name) -> bool:
        return all(b.how == "assign" and not b.path for b in self.script.reaching(node))

    def _is_given(self, node: ast.Name, given: Given | None, what: str) -> bool:
        """Return True if the parameter `node` is given this.

        What calls give elsewhere says nothing of what this process is given.
        """
        is_bound_once = len(self.script.reaching(node)) == 1
        return given is not None and given.get(node.id) == what and is_bound_once

    def _asks(self, test: ast.expr) -> bool:
        """Return True for `torch.cuda.is_available()`, also with `and`, or a name for that."""
        test = self.script.only_value(test) or test
        is_and = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)
        parts = test.values if is_and else [test]  # type: ignore[attr-defined]
        return any(asks_availability(self.script, part) for part in parts)

    def _is_moved_in_place(self, node: ast.expr) -> bool:
        """Return True for `model` after `model.cuda()` as a statement, in the scope of `model`."""
        script = self.script
        home = script.function(node)
        return any(
            self.moves(call)
            and (script.function(call) is home or isinstance(node, ast.Attribute))
            and (call.lineno < node.lineno or script.function(call) is not home)
            for call in self._moved_in_place.get(ast.unparse(node), ())
        )

    def _goes_to_the_host(self, node: ast.expr) -> bool:
        if self.script.value(node).has(HOST):
            return self.script.value(node).has(TENSOR)
        match node:
            case ast.Call(func=ast.Attribute(attr="cpu")):
                return True
            case ast.Call(func=ast.Attribute(attr="to"), args=[place, *_]):
                return is_host(place)
        return False

    # What runs in the process.

    def function(self, node: ast.expr) -> tuple[FunctionNode | None, ast.Call | None]:
        """The function of this file that `node` stands for; and the `partial(...)` that gives it arguments, if it is one."""
        script = self.script
        partial, made = None, script.only_value(node)
        node = made if isinstance(made, ast.Call) else node
        if isinstance(node, ast.Call):
            if script.dotted(node.func) != "functools.partial" or not node.args:
                return None, None
            partial, node = node, node.args[0]
        return named(script, node), partial

    def uses(self, function: FunctionNode, given: Given) -> bool:
        """Return True if `function`, given this, surely computes on the accelerator, also in functions that it calls."""
        start = function, frozenset(given.items())
        reached = reach([start], self._runs, self._computes_itself)
        return self._computes_itself(next(reversed(reached)))

    def _runs(self, run: _Run) -> Iterator[_Run]:
        """Yield the functions that a function calls, with what they are given."""
        function, given = run
        for call in _calls(function.body):
            called = named(self.script, call.func)
            if called is not None:
                yield called, frozenset(self.handed(called, call, dict(given)).items())

    def _computes_itself(self, run: _Run) -> bool:
        function, given = run
        return any(self._computes(call, dict(given)) for call in _calls(function.body))

    def computes(self, body: list[ast.stmt], given: Given) -> bool:
        """Return True if running these statements does."""
        return self.first_use(body, given) is not None

    def first_use(self, body: list[ast.stmt], given: Given) -> ast.Call | None:
        """Return the first call in `body` that surely uses the accelerator."""

        def uses(call: ast.Call) -> bool:
            if self._computes(call, given):
                return True
            called = named(self.script, call.func)
            return called is not None and self.uses(called, self.handed(called, call, given))

        return next(filter(uses, _calls(body)), None)

    def _computes(self, call: ast.Call, given: Given) -> bool:
        if self.moves(call, given) or self._makes(call, given):
            return True
        script = self.script
        dotted = script.dotted(call.func)
        if dotted is not None:
            # A comparison of `current_device()` becomes one of `xla.local_rank()`.
            is_compared = isinstance(script.parent(call), ast.Compare)
            if dotted in _USES:
                return not (is_compared and dotted == "torch.cuda.current_device")
            is_made = dotted == "torch.device" or not dotted.startswith("torch.")
            if is_made and script.value(call).has(DEVICE) and self.is_device(call, given):
                return not is_compared
        func = call.func  # model(x), self.model.train(), of what others have moved
        called = [func, func.value] if isinstance(func, ast.Attribute) else [func]
        return any(
            isinstance(c, (ast.Name, ast.Attribute)) and self.is_thing(c, given) for c in called
        )

    def handed(self, function: FunctionNode, call: ast.Call, given: Given | None = None) -> Given:
        """Return what `call` gives the parameters of `function`."""
        found = {}
        for parameter in parameters(function):
            passed = argument(self.script, parameter.arg, function, call)
            if self.is_device(passed, given):
                found[parameter.arg] = PLACE
            elif self.is_thing(passed, given):
                found[parameter.arg] = THING
        return found


def _calls(body: list[ast.stmt]) -> Iterator[ast.Call]:
    return (node for node in walk_body(body) if isinstance(node, ast.Call))


def _is_other(node: ast.expr) -> bool:
    """Return True for the host, and other makes of accelerator."""
    kind = node.value if isinstance(node, ast.Constant) else None
    return isinstance(kind, str) and kind.partition(":")[0] in {"cpu", *OTHER_ACCELERATORS}
