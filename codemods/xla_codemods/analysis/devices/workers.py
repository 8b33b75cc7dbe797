"""How a function that runs in a separate process uses the accelerator, as far as is sure."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .. import flow
from ..inference.values import ACCEL, CLASS, DEVICE, HOST, TENSOR
from ..scopes import Binding, FunctionNode, Scope
from ..syntax import argument_for, keyword, parameters, walk_body
from .availability import OTHER_ACCELERATORS, asks_availability, whole_choice
from .specs import Devices, is_host
from .uses import MOVES, makes_tensors

if TYPE_CHECKING:
    from ..parsed_file import ParsedFile

# What a parameter is given: a device, or something that lives on it.
Given = Mapping[str, str]
PLACE, THING = "device", "on the device"

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SAME = frozenset(
    "cuda eval float bfloat16 half named_parameters parameters requires_grad_ share_memory state_dict to train".split()
)
_WRAPPERS = (
    "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel",
    "torch.nn.parallel.DistributedDataParallel",
)
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
_DEEPEST = 6  # bindings from a use to what is moved
_CALLS = 2  # calls from a worker to the function that uses the accelerator


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

    def is_device(self, node: ast.expr | None, given: Given | None = None, depth: int = 0) -> bool:
        """True if `node` is the accelerator, in whatever spelling; where parameters are concerned, by what is `given`."""
        script = self.script
        if node is None or depth > _DEEPEST:
            return False
        if isinstance(node, ast.Name):
            return self._is_bound(node, given, depth, PLACE)
        value = script.value(node)
        if value.has(DEVICE) and value.has(ACCEL):
            return True
        if isinstance(node, ast.Call):
            return script.dotted(node.func) == "torch.device" and any(
                self.is_device(a, given, depth + 1) for a in node.args[:1]
            )
        if isinstance(node, ast.Attribute):
            return any(self.is_device(b, None, depth + 1) for b in self._kept(node))
        if isinstance(node, ast.IfExp) and self._asks(node.test):
            return self.is_device(node.body, given, depth + 1) and self._is_other(node.orelse)
        return (
            script.cached(Devices).spec(node) is not None or whole_choice(script, node) is not None
        )

    def is_thing(self, node: ast.expr | None, given: Given | None = None, depth: int = 0) -> bool:
        """True if `node` is a tensor, module or optimizer, or holds one, that lives on the accelerator."""
        script = self.script
        if node is None or depth > _DEEPEST:
            return False
        if isinstance(node, (ast.Tuple, ast.List)):
            return any(self.is_thing(part, given, depth + 1) for part in node.elts)
        if isinstance(node, ast.Dict):
            return any(self.is_thing(part, given, depth + 1) for part in node.values)
        if isinstance(node, ast.Name):
            return self._is_bound(node, given, depth, THING)
        if isinstance(node, ast.Attribute):
            return self._is_moved_in_place(node) or any(
                self.is_thing(b, None, depth + 1) for b in self._kept(node)
            )
        if not isinstance(node, ast.Call):
            return False
        if self.moves(node, given, depth) or self._makes(node, given, depth):
            return True
        if isinstance(node.func, ast.Attribute) and node.func.attr in _SAME:
            if node.func.attr == "to" and any(is_host(a) for a in node.args):
                return False
            if script.dotted(node.func) is None:
                return self.is_thing(node.func.value, given, depth + 1)
        dotted = script.dotted(node.func) or ""
        if dotted in _WRAPPERS or dotted.startswith("torch.optim."):
            return any(self.is_thing(a, given, depth + 1) for a in node.args[:1])
        return False

    def moves(self, call: ast.Call, given: Given | None = None, depth: int = 0) -> bool:
        """True if `call` moves a tensor or module to the accelerator."""
        func, script = call.func, self.script
        if not isinstance(func, ast.Attribute) or script.dotted(func) is not None:
            return False
        if func.attr not in {"cuda", *MOVES} or script.defines(func.value, func.attr):
            return False
        if script.is_neither_tensor_nor_module(func.value):
            return False
        if func.attr == "cuda":
            return True
        return any(
            self.is_device(a, given, depth + 1) for a in (*call.args, keyword(call, "device")) if a
        )

    def _makes(self, call: ast.Call, given: Given | None, depth: int) -> bool:
        """`torch.zeros(2, device="cuda")`."""
        device = keyword(call, "device")
        return (
            device is not None
            and makes_tensors(call, self.script.index.scope(call))
            and self.is_device(device, given, depth + 1)
        )

    def _is_bound(self, node: ast.Name, given: Given | None, depth: int, what: str) -> bool:
        script = self.script
        found = script.index.scope(node).find(node.id)
        if found is None:
            return False
        home, bindings = found
        reaching = flow.reaching(bindings, node, home, script.parents)
        if any(b.how == "parameter" for b in reaching):
            # What calls give elsewhere says nothing of what this process is given.
            return given is not None and given.get(node.id) == what and len(reaching) == 1
        if what == PLACE:
            return self._is_device_bound(reaching, home, given, depth)
        values = [b.value for b in reaching if b.how == "assign" and not b.path and b.value]
        if any(self._goes_to_the_host(value) for value in values):
            return False
        if any(self.is_thing(value, given, depth + 1) for value in values):
            return True
        return bool(values) and self._is_moved_in_place(node)

    def _is_device_bound(
        self, reaching: list[Binding], home: Scope, given: Given | None, depth: int
    ) -> bool:
        """Return True if all bindings are the accelerator, except those for a host without one."""
        sure = False
        for binding in reaching:
            if binding.how not in {"assign", "walrus"} or binding.path or binding.value is None:
                return False
            if self.is_device(binding.value, given, depth + 1):
                sure = True
            elif not (self._is_other(binding.value) and self._is_by_availability(reaching)):
                return False
        return sure

    def _is_by_availability(self, reaching: list[Binding]) -> bool:
        """`if torch.cuda.is_available(): device = "cuda"`, with another beside or before it."""
        around = (self.script.parent(b.node) for b in reaching)
        return any(isinstance(a, ast.If) and self._asks(a.test) for a in around)

    def _asks(self, test: ast.expr, depth: int = 0) -> bool:
        """`torch.cuda.is_available()`, `args.cuda and torch.cuda.is_available()`, or a name for what that gives."""
        if asks_availability(self.script, test):
            return True
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            return any(self._asks(value, depth) for value in test.values)
        if isinstance(test, ast.Name) and not depth:
            value = self.script.only_value(test)
            return value is not None and self._asks(value, 1)
        return False

    def _is_other(self, node: ast.expr) -> bool:
        """The host, or another make of accelerator."""
        if isinstance(node, ast.Call) and self.script.dotted(node.func) == "torch.device":
            return all(self._is_other(a) for a in node.args[:1])
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value.partition(":")[0] in {"cpu", *OTHER_ACCELERATORS}
        if isinstance(node, ast.IfExp):
            return self._is_other(node.body) and self._is_other(node.orelse)
        return is_host(node)

    def _kept(self, node: ast.Attribute) -> list[ast.expr]:
        """Return the values of `self.model` in the class of `self`; nothing if some are unknown, or move to the host."""
        script = self.script
        definition = script.value(node.value).definition
        if not isinstance(definition, ast.ClassDef):
            if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
                return []
            definition = script.class_around(node)
        if definition is None or definition not in script.inference.scopes:
            return []
        bound = script.inference.class_attributes(definition).get(node.attr, [])
        values = [b.value for b, _ in bound if b.value is not None]
        if len(values) != len(bound) or any(b.how != "assign" or b.path for b, _ in bound):
            return []
        return [] if any(self._goes_to_the_host(value) for value in values) else values

    def _is_moved_in_place(self, node: ast.expr) -> bool:
        """`model.cuda()` as a statement, in the scope of `model` and before its use."""
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
        return self._named(node), partial

    def _named(self, node: ast.expr) -> FunctionNode | None:
        script = self.script
        definition = script.value(node).definition
        if isinstance(definition, _FUNCTIONS):
            return definition
        found = script.local_method(node)
        if found is None and isinstance(definition, ast.ClassDef) and script.value(node).has(CLASS):
            found = next((m for m in _methods(definition) if m.name == "__init__"), None)
        if found is None and isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "self":
                owner = script.class_around(node)
                methods = _methods(owner) if owner is not None else iter(())
                found = next((m for m in methods if m.name == node.attr), None)
        return found

    def uses(self, function: FunctionNode, given: Given, depth: int = 0) -> bool:
        """True if `function`, given this, surely computes on the accelerator, itself or by functions that it calls."""
        return self.computes(function.body, given, depth)

    def computes(self, body: list[ast.stmt], given: Given, depth: int = 0) -> bool:
        """True if running these statements does."""
        return self.first_use(body, given, depth) is not None

    def first_use(self, body: list[ast.stmt], given: Given, depth: int = 0) -> ast.Call | None:
        """Return the first call in `body` that surely uses the accelerator."""
        calls = (node for node in walk_body(body) if isinstance(node, ast.Call))
        return next((call for call in calls if self._computes(call, given, depth)), None)

    def _computes(self, call: ast.Call, given: Given, depth: int) -> bool:
        if self.moves(call, given) or self._makes(call, given, 0):
            return True
        script = self.script
        dotted = script.dotted(call.func)
        if dotted is not None:
            if dotted in _USES:
                # A comparison of `current_device()` becomes one of `xla.local_rank()`.
                compared = isinstance(script.parent(call), ast.Compare)
                return not (compared and dotted == "torch.cuda.current_device")
            value = script.value(call)
            named = dotted == "torch.device" or not dotted.startswith("torch.")
            if named and value.has(DEVICE) and self.is_device(call, given):
                return not isinstance(script.parent(call), ast.Compare)
        called = [call.func, *([call.func.value] if isinstance(call.func, ast.Attribute) else [])]
        if any(
            isinstance(c, (ast.Name, ast.Attribute)) and self.is_thing(c, given) for c in called
        ):
            return True  # model(x), self.model.train(), of what others have moved
        function = self._named(call.func) if depth < _CALLS else None
        if function is None:
            return False
        handed = self.handed(function, call, given)
        return self.uses(function, handed, depth + 1)

    def handed(self, function: FunctionNode, call: ast.Call, given: Given | None = None) -> Given:
        """What the parameters of `function` are given by `call`."""
        is_method = isinstance(self.script.parent(function), ast.ClassDef)
        found = {}
        for parameter in parameters(function):
            argument = argument_for(parameter.arg, function, call, skip_self=is_method)
            if self.is_device(argument, given):
                found[parameter.arg] = PLACE
            elif self.is_thing(argument, given):
                found[parameter.arg] = THING
        return found


def _methods(definition: ast.ClassDef) -> Iterator[Any]:
    return (s for s in definition.body if isinstance(s, _FUNCTIONS))
