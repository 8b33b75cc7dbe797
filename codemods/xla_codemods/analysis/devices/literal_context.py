"""Classify the code around a device's name: a call that takes a device, a variable, a test, or other code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from ...flow.calls import named, receives
from ...flow.edges import uses
from ...patterns import Pattern
from ..inference.library_types import is_of_others, result
from ..inference.values import CLASS, INSTANCE, MODULE, TENSOR, UNKNOWN, Value
from ..parsed_file import ParsedFile
from ..projects.callees import callees_of, filled
from ..scopes import FunctionNode
from ..syntax import defaults, is_literal, name_of, targets_of, text_of, texts_of
from .availability import OTHER_ACCELERATORS
from .checks.pieces import pieces
from .cuda_only.flags_of_libraries import is_for_a_simulator, is_for_another_library
from .non_device_calls import NO_DEVICES, OTHERS, TEXT_FUNCTIONS, TEXT_METHODS, is_of_an_engine
from .owners import own_methods
from .specs import (
    TENSOR_METHODS,
    Devices,
    is_device_name,
    is_plural_name,
    last_name,
    named_like_devices,
)

# What becomes of the string there.
SINK = "sink"  # a torch call takes it for a device: it becomes one
NAME = "name"  # it is kept under a name of a device, or passed on: it stays a string
TEST = "test"  # it is compared with
MAYBE = "maybe"  # handed to a function that the file does not show
KEPT = "kept"  # kept under another name
ENGINE = "engine"  # passed to a library that manages its devices itself
ELSEWHERE = "elsewhere"  # handled by another rule, or not xla-migrate's concern

_ALMOST_DEVICE = Pattern(r"gpu|cuda|accel|loc(?:ation)?$|place", re.IGNORECASE)
# `get_device`, `device_and_dtype`; not what tells something of a device.
_GIVES_DEVICE = Pattern(
    r"device(?!.*(?:capab|count|descr|info|key|label|memory|propert|report|stat|summar))",
    re.IGNORECASE,
)
_NOT_VALUES = frozenset({"choices", "help", "metavar", "desc", "description", "doc", "action"})
_LISTS = (ast.List, ast.Tuple)
_DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.ListComp, ast.GeneratorExp, ast.SetComp)


def place(script: ParsedFile, node: ast.expr) -> str:
    """What the place of `node`, the name of a device, says of it."""
    parent = script.parent(node)
    if isinstance(parent, (ast.keyword, ast.Assign)) and is_for_a_simulator(script, node):
        return ENGINE
    if is_for_another_library(script, node):
        return ELSEWHERE
    match parent:
        case ast.IfExp() | ast.BoolOp() | ast.NamedExpr():
            if isinstance(parent, ast.IfExp) and parent.test is node:
                return ELSEWHERE
            if isinstance(parent, ast.NamedExpr) and _is_name_for(script, parent.target):
                return NAME
            found = place(script, parent)
            return NAME if found == KEPT and _is_beside_the_host(node, parent) else found
        case ast.Call():
            return _argument(script, node, parent)
        case ast.keyword():
            return _keyword(script, parent)
        case ast.Assign() | ast.AnnAssign():
            return _assigned(script, node, parent)
        case ast.arguments():
            return _default(script, node, parent)
        case ast.Return():
            return _returned(script, parent)
        case ast.Dict():
            return _entry(script, node, parent)
        case ast.expr() if isinstance(parent, _DISPLAYS):
            return _element(script, node, parent)
        case ast.BinOp(op=ast.Add()) if isinstance(node, (ast.Tuple, ast.List)):
            return place(script, parent)  # `("cuda:0",) + args`
        case ast.BinOp(op=ast.Add()) | ast.FormattedValue():
            return _beside_an_index(script, node, parent)
        case ast.Subscript(value=display) if display is node and isinstance(
            node, (*_LISTS, ast.Dict)
        ):
            return _looked_up(script, parent)
        case ast.Lambda():
            return _given_by_lambda(script, parent)
        case ast.Compare():
            return TEST
    return ELSEWHERE


def _beside_an_index(script: ParsedFile, node: ast.expr, text: ast.expr) -> str:
    """Return the place of `f"{node}:{rank}"` or `node + ":0"`, in which `node` stays a string."""
    while isinstance(around := script.parent(text), (ast.JoinedStr, ast.BinOp)):
        text = around
    match pieces(text):
        case [first, ":" | ":0", *rest] if first is node and len(rest) < 2:
            found = place(script, text)
            return NAME if found == SINK else found
    return ELSEWHERE


def is_for_an_engine(script: ParsedFile, test: ast.expr) -> bool:
    """True if `test` chooses the device of an engine: `gym.make("Ant", device="cuda" if cuda.is_available() else "cpu")`."""
    choice = script.parent(test)
    return isinstance(choice, ast.IfExp) and choice.test is test and place(script, choice) == ENGINE


def _is_beside_the_host(node: ast.expr, choice: ast.expr) -> bool:
    """`"cuda" if flag else "cpu"`: a device, whatever it is called."""
    if not isinstance(choice, ast.IfExp):
        return False
    other = choice.orelse if choice.body is node else choice.body
    return is_literal(other, "cpu")


def _looked_up(script: ParsedFile, item: ast.Subscript) -> str:
    """`["cpu", "cuda"][torch.cuda.is_available()]`: a choice."""
    around = script.parent(item)
    if isinstance(around, ast.Call) and script.dotted(around.func) == "torch.device":
        return NAME  # which takes the name of any device
    found = place(script, item)
    return NAME if found == SINK else found


def _given_by_lambda(script: ParsedFile, function: ast.Lambda) -> str:
    """`field(default_factory=lambda: "cuda")`, `get_device = lambda: "cuda"`."""
    parent = script.parent(function)
    if isinstance(parent, ast.keyword) and parent.arg in {"default_factory", "factory"}:
        call = script.parent(parent)
        return _field(script, call) if isinstance(call, ast.Call) else ELSEWHERE
    names = [name for target in targets_of(parent) if (name := last_name(target)) is not None]
    return NAME if _gives_device(script, function, names) else KEPT


def _is_name_for(script: ParsedFile, target: ast.expr) -> bool:
    """True if `target` is a variable, attribute or item for a device."""
    name = last_name(target)
    return (name is not None and is_device_name(name)) or ast.unparse(target) in script.cached(
        Devices
    ).used


def _argument(script: ParsedFile, node: ast.expr, call: ast.Call) -> str:
    """A positional argument."""
    func = call.func
    if func is node or node not in call.args:
        return ELSEWHERE
    dotted = script.dotted(func)
    if dotted == "torch.device":
        return ELSEWHERE  # looked at from the call
    if dotted is not None and dotted.startswith(OTHERS):
        return ELSEWHERE
    if is_of_an_engine(dotted) and not _is_own(script, dotted):
        return ENGINE
    if dotted is None and isinstance(func, ast.Attribute) and func.attr == "to":
        own = _own_method(script, func)
        if own is not None and own.args.vararg is None:
            return _parameter_at(script, call, node)
        if own is None and any(
            method.args.vararg is None for method in own_methods(script, func.value, "to")
        ):
            return NAME if _is_device_elsewhere(script, call, node) else ELSEWHERE
        return SINK if node is call.args[0] else ELSEWHERE
    if script.cached(Devices).gives_default(call) is node:
        return NAME
    around = script.parent(call)
    if dotted in {"typer.Option", "typer.Argument"} and isinstance(around, ast.arguments):
        return _default(script, call, around)
    if is_of_others(_called_on(script, call, dotted)):
        return ELSEWHERE
    name = name_of(func)
    if name == "setattr" and call.args[-1] is node and any(map(is_device_name, _options(call))):
        return NAME
    if name == "cuda" or name in TEXT_METHODS or name in TEXT_FUNCTIONS:
        return ELSEWHERE
    if name.startswith(("register", "assert")) or name.endswith("partial"):
        return ELSEWHERE
    if named(script, func) is not None:
        return _parameter_at(script, call, node)
    if dotted is not None and dotted.partition(".")[0] in NO_DEVICES:
        return ELSEWHERE
    options = _options(call)
    if options:  # click, absl, environs: env("DEVICE", "cuda")
        return NAME if any(is_device_name(option) for option in options) else ELSEWHERE
    return NAME if dotted is not None and _is_device_elsewhere(script, call, node) else MAYBE


def _is_device_elsewhere(script: ParsedFile, call: ast.Call, node: ast.expr) -> bool:
    """Return True if another module of the program has the function called, and its parameter is a device."""
    handed = callees_of(script).handed(script.index, call)
    if handed is None or handed.target is None:
        return False
    named = [name for name, argument in filled(handed, handed.target) if argument is node]
    home = handed.target.home
    other = script if home is script.index else script.other_file(home.path)
    used = other.cached(Devices).used
    return any(is_device_name(name) or name in used for name in named)


def _own_method(script: ParsedFile, func: ast.Attribute) -> FunctionNode | None:
    """The `to` of a class of this file that is neither module nor tensor: what it takes, it says itself."""
    kinds = script.value(func.value).kinds
    if not kinds & {INSTANCE, CLASS} or kinds & {MODULE, TENSOR}:
        return None
    return script.local_method(func)


def _keyword(script: ParsedFile, argument: ast.keyword) -> str:
    call = script.parent(argument)
    name = argument.arg
    if not isinstance(call, ast.Call) or name is None or name in _NOT_VALUES:
        return ELSEWHERE
    if name == "args":
        return KEPT  # of a process, a thread, a remote call
    dotted = script.dotted(call.func)
    if dotted is not None and dotted.startswith(OTHERS):
        return ELSEWHERE
    if name == "default" or name == "envvar":
        options = _options(call)
        several = isinstance(argument.value, _DISPLAYS) and any(
            is_plural_name(option) for option in options
        )
        if several or any(is_device_name(option) for option in options):
            return NAME
        return _field(script, call)
    if is_of_an_engine(dotted) and not _is_own(script, dotted):
        return ENGINE if is_device_name(name) else ELSEWHERE
    if name == "map_location":
        return ELSEWHERE
    if name == "device_map":
        return NAME
    if is_of_others(_called_on(script, call, dotted)):
        return ELSEWHERE
    if name == "device" and _takes_devices(script, call, dotted):
        return SINK
    if is_device_name(name):
        return NAME
    is_used = name in script.cached(Devices).used
    return NAME if is_used and named(script, call.func) is not None else ELSEWHERE


def _is_own(script: ParsedFile, dotted: str | None) -> bool:
    """True if the project has a module of that name."""
    return dotted is not None and script.project.has(dotted)


def _called_on(script: ParsedFile, call: ast.Call, dotted: str | None) -> Value:
    """What `call` is a method of; of a library's function, what it returns."""
    if dotted is not None:
        return result(dotted)
    func = call.func
    return script.value(func.value) if isinstance(func, ast.Attribute) else UNKNOWN


def _takes_devices(script: ParsedFile, call: ast.Call, dotted: str | None) -> bool:
    """True if `device=` of `call` may be a torch.device: torch's own functions, and methods of tensors."""
    if dotted is not None:
        return dotted.startswith("torch.")
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr not in TENSOR_METHODS:
        return False
    kinds = script.value(func.value).kinds
    return not kinds or bool(kinds & {TENSOR, MODULE})


def _field(script: ParsedFile, call: ast.Call) -> str:
    """`device: str = field(default="cuda")`."""
    targets = targets_of(script.parent(call))
    return NAME if any(_is_name_for(script, target) for target in targets) else ELSEWHERE


def _options(call: ast.Call) -> list[str]:
    """The names that an option is declared with: `add_argument("-d", "--device", dest="device")`."""
    texts = texts_of(call.args)
    found = [text for text in texts if text and not text.startswith("cuda") and " " not in text]
    return found + texts_of(k.value for k in call.keywords if k.arg == "dest")


def _assigned(script: ParsedFile, node: ast.expr, statement: ast.Assign | ast.AnnAssign) -> str:
    targets = targets_of(statement)
    if any(_is_name_for(script, target) for target in targets):
        return ELSEWHERE if _in_enumeration(script, statement) else NAME
    if any(named_like_devices(target) for target in targets):
        return NAME
    spec = script.cached(Devices).spec(node)
    if spec is not None and spec.ordinal is not None:  # surely a device, by what it says
        if any(_ALMOST_DEVICE.search(last_name(target) or "") for target in targets):
            return NAME
    if _in_enumeration(script, statement):
        return ELSEWHERE
    used = script.cached(Devices).used
    return NAME if any(ast.unparse(read) in used for read in uses(script, node)) else KEPT


def _in_enumeration(script: ParsedFile, statement: ast.stmt) -> bool:
    """True if `statement` names the members of an Enum."""
    owner = script.parent(statement)
    return isinstance(owner, ast.ClassDef) and any(
        (script.dotted(base) or ast.unparse(base)).rpartition(".")[2].endswith("Enum")
        for base in owner.bases
    )


def _default(script: ParsedFile, node: ast.expr, arguments: ast.arguments) -> str:
    for parameter, default in defaults(arguments):
        if default is node:
            name = parameter.arg
            return NAME if is_device_name(name) or name in script.cached(Devices).used else KEPT
    return ELSEWHERE


def _returned(script: ParsedFile, statement: ast.Return) -> str:
    function = script.function(statement)
    if function is None:
        return ELSEWHERE
    return NAME if _gives_device(script, function, [function.name]) else KEPT


def _gives_device(
    script: ParsedFile, function: FunctionNode | ast.Lambda, names: Iterable[str]
) -> bool:
    """Return True if `function` returns a device: its name says so, or its result is used as a device."""
    known = script.cached(Devices).giving
    if function not in known:
        known[function] = False  # recursion ends here
        known[function] = any(
            _GIVES_DEVICE.search(name) is not None
            or any(place(script, call) in {SINK, NAME} for call, _ in script.index.calls_of(name))
            for name in names
        )
    return known[function]


def _entry(script: ParsedFile, node: ast.expr, display: ast.Dict) -> str:
    for key, value in zip(display.keys, display.values):
        if value is node and script.cached(Devices).spec(key) is not None:
            return ELSEWHERE  # a `map_location`, which `load` reads in CUDA's spelling
        if value is node:
            text = text_of(key)
            if text is not None and is_device_name(text):
                return NAME
            parent = script.parent(display)
            if isinstance(parent, ast.keyword) and parent.arg == "device_map":
                return NAME
            if isinstance(parent, ast.Subscript):
                return place(script, display)  # `{True: "cuda", False: "cpu"}[use_cuda]`
            if isinstance(parent, ast.Assign) and any(map(named_like_devices, parent.targets)):
                return NAME
            return KEPT
    return ELSEWHERE


def _element(script: ParsedFile, node: ast.expr, display: ast.expr) -> str:
    """An element of a list: what the list is for says what it is. A list of kinds is one to look things up in."""
    parent = script.parent(display)
    if _lists_kinds(display) or (
        isinstance(parent, ast.Dict) and any(_lists_kinds(value) for value in parent.values)
    ):
        return ELSEWHERE
    if isinstance(display, (ast.Tuple, ast.List)) and isinstance(parent, ast.Assign):
        index = display.elts.index(node)
        for target in parent.targets:
            elements = getattr(target, "elts", None)
            if elements is not None and index < len(elements):
                return NAME if _is_name_for(script, elements[index]) else KEPT
            if index == 0 and elements is None and _is_unpacked_into_a_move(script, target):
                return NAME
    if isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is display:
        return NAME if _is_name_for(script, parent.target) else KEPT
    found = place(script, display) if isinstance(display, _DISPLAYS) else ELSEWHERE
    return found if found in {NAME, KEPT} else ELSEWHERE


def _is_unpacked_into_a_move(script: ParsedFile, target: ast.expr) -> bool:
    """`x.to(*target)`."""
    text = ast.unparse(target)
    return any(
        isinstance(call.func, ast.Attribute)
        and script.dotted(call.func) is None
        and call.args
        and isinstance(call.args[0], ast.Starred)
        and ast.unparse(call.args[0].value) == text
        for call, _ in script.index.calls_of("to")
    )


def _lists_kinds(display: ast.expr) -> bool:
    """True if `display` holds several kinds of accelerators, such as `("cuda", "xpu")`."""
    kinds = {*OTHER_ACCELERATORS, "xla", "rocm", "tpu", "neuron"}
    return not kinds.isdisjoint(texts_of(getattr(display, "elts", [])))


def _parameter_at(script: ParsedFile, call: ast.Call, node: ast.expr) -> str:
    """A positional argument of a local function: a device if its parameter is used as one."""
    if any(isinstance(argument, ast.Starred) for argument in call.args[: call.args.index(node)]):
        return MAYBE
    received = receives(script, call, node)
    if received is None:
        return ELSEWHERE
    if is_device_name(received[1]) or received[1] in script.cached(Devices).used:
        return NAME
    return NAME if _is_kept_as_device(script, *received) else ELSEWHERE


def _is_kept_as_device(script: ParsedFile, function: FunctionNode, name: str) -> bool:
    """True if `function` keeps its parameter `name` under the name of a device: `self.device = where`."""
    parents = map(script.parent, script.index.names_below(function, name))
    targets = (t for parent in parents if isinstance(parent, ast.Assign) for t in parent.targets)
    return any(_is_name_for(script, target) for target in targets)
