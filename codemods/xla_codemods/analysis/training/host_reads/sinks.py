"""Output calls: consoles, logging, progress bars, files and trackers, whose arguments may arrive later."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ....flow.closure import ends
from ....flow.edges import known_sources, sources
from ....patterns import Pattern
from ...inference.values import ACCELERATOR
from ...nodes import walk
from ...script import Script
from ...syntax import is_literal, keyword, name_of, root_of, unparsed, walk_body
from ..training import Loop
from .deferral import Deferral

_LEVELS = frozenset("debug info warning error critical log".split())
_OF_THE_MOMENT = frozenset({"exc_info", "stack_info", "stacklevel"})
_BARS = frozenset("set_postfix set_postfix_str set_description set_description_str".split())
_LOGGER = Pattern(r"log(?:ger|ging)?$")
_BAR = Pattern(r"tqdm|bar$|progress$")
_READERS = frozenset(
    "Popen check_call check_output copyfile getsize loadtxt open run stat system".split()
)
STREAMS = frozenset({"sys.stdout", "sys.stderr"})
# `console.print`, `fabric.print`: to `sys.stdout`.
_PRINTING = frozenset({"accelerate", "lightning", "lightning_fabric", "rich"})
_WRITES = frozenset(f"{stream}.write" for stream in STREAMS)
TRACKERS = frozenset(
    "aim clearml comet_ml dvclive loguru mlflow neptune swanlab tensorboardX torch.utils.tensorboard"
    " trackio visdom wandb".split()
)
# Libraries whose objects train: only these methods log.
_TRAINERS = frozenset({"accelerate", "lightning", "lightning_fabric"})
_LOG_METHODS = frozenset({"log", "log_dict", "log_images"})
_TENSORBOARD = "torch.utils.tensorboard"
_ENDING = frozenset({"close", "end", "end_run", "end_training", "finish", "stop"})


def is_shown_on_a_console(script: Script, call: ast.Call) -> bool:
    """`print`, `sys.stdout.write`, `logging`, tqdm, `accelerator.print`: the runtime keeps the order of what they write."""
    func = call.func
    scope = script.index.scope(call)
    file = keyword(call, "file")
    own = file is None or script.dotted(file) in STREAMS
    if isinstance(func, ast.Name):
        is_print = func.id == "print" and scope.find("print") is None
        return own and (is_print or script.dotted(func) == "rich.print")
    if not isinstance(func, ast.Attribute) or script.local_method(func) is not None:
        return False
    dotted = script.dotted(func) or ""
    if func.attr in _LEVELS:
        if any(k.arg in _OF_THE_MOMENT for k in call.keywords):
            return False
        return dotted.startswith("logging.") or (not dotted and _is_a_logger(script, call, func))
    if func.attr in _BARS:
        return not dotted
    if func.attr == "write":
        if dotted in _WRITES:
            return isinstance(
                script.parent(call), ast.Expr
            )  # the number of written characters is unused
        return _is_called(func.value, _BAR) and own
    return func.attr == "print" and _library_of(_makers(script, func.value)) in _PRINTING


def _is_a_logger(script: Script, call: ast.Call, func: ast.Attribute) -> bool:
    """Return True for a logger of `logging`, which is named so and not known to be of a project's class."""
    if not _is_called(func.value, _LOGGER) or (
        func.attr == "log" and not _has_a_level(script, call)
    ):
        return False
    stored = [s.value for s, _ in script.index.assignments(unparsed(func.value))]
    made = {name for owner in (func.value, *stored) for name in _makers(script, owner) if name}
    found = map(script.project.definition, made)
    return not any(
        isinstance(f[0], ast.ClassDef) or "logg" not in ast.unparse(f[0]).lower()
        for f in found
        if f is not None
    )


def _has_a_level(script: Script, call: ast.Call) -> bool:
    """Return True for `logger.log(logging.INFO, ...)` and `logger.log(20, ...)`."""
    match call.args:
        case [ast.Constant(value=int()), _, *_]:
            return True
        case [level, _, *_]:
            return (script.dotted(level) or "").startswith("logging.")
    return False


def shown_to(script: Script, call: ast.Call) -> str | None:
    """Return the file or tracker that `call` writes its arguments to, as `xla.later` takes it with `to=`.

    Empty for consoles, and for writers whose loop waits at its end. None if the call may do more.
    """
    if is_shown_on_a_console(script, call) or is_tracked(script, call):
        return ""
    return file_of(script, call) or logged_to(script, call)


def is_tracked(script: Script, call: ast.Call) -> bool:
    """Return True for `writer.add_scalar(tag, value, step)` in a loop that waits at its end."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr not in {"add_scalar", "add_scalars"}:
        return False
    is_numbered = len(call.args) > 2 or keyword(call, "global_step") is not None
    is_own = script.local_method(func) is not None or script.dotted(func) is not None
    return is_numbered and not is_own and is_waited_for(script, call)


def logged_to(script: Script, call: ast.Call) -> str | None:
    """Return the tracker that the statement `call` logs to: `run`, `self.writer`; None if it does more."""
    owner = _tracker(call)
    if owner is None or not isinstance(script.parent(call), ast.Expr):
        return None
    assert isinstance(call.func, ast.Attribute)
    library = _library_of(_makers(script, owner))
    is_log = call.func.attr in _LOG_METHODS if library in _TRAINERS else library in TRACKERS
    return unparsed(owner) if is_log and call.func.attr not in _ENDING else None


def takes_tensors(script: Script, call: ast.Call) -> bool:
    """Return True if the tracker takes a host copy of a tensor as the tensor; loguru prints its device."""
    owner = _tracker(call)
    library = _library_of(_makers(script, owner)) if owner is not None else ""
    return library in _TRAINERS or (library in TRACKERS and library != "loguru")


def logged_in_each_step(deferral: Deferral, owner: str) -> list[ast.Call]:
    """Return the calls that log to `owner` in every step.

    The read stays if the object is used for a result there, which would wait for the calls.
    """
    script = deferral.script
    found: list[ast.Call] = []
    for node in deferral.always:
        if not isinstance(node, (ast.Name, ast.Attribute)) or unparsed(node) != owner:
            continue
        statement = script.statement(node)
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and logged_to(script, call) == owner:
            found.append(call)
        elif _library_of(_makers(script, node)) not in _TRAINERS and not _is_tested(script, node):
            deferral.refuse(f"the script uses `{owner}` in other ways in every step")
    return found


def _tracker(call: ast.Call) -> ast.expr | None:
    """Return `run` of `run["loss"].append()`, `self.logger`, `Logger.current_logger()`."""
    if not isinstance(call.func, ast.Attribute):
        return None
    node = root_of(call.func.value, ast.Subscript)
    inner = node.func if isinstance(node, ast.Call) and not (node.args or node.keywords) else node
    return node if isinstance(root_of(inner), ast.Name) else None


def _is_tested(script: Script, node: ast.AST) -> bool:
    """Return True for `if writer is not None:`, `if writer:` and `if writer and verbose:`."""
    around = script.parent(node)
    while isinstance(around, ast.BoolOp):
        around = script.parent(around)
    match around:
        case ast.Compare(ops=[ast.Is() | ast.IsNot()]) | ast.UnaryOp(op=ast.Not()) | ast.If():
            return True
    return False


def is_waited_for(script: Script, call: ast.Call) -> bool:
    """True if the loop's end is a device loader's, which waits for everything, and its only one."""
    loop = script.training.loop_of(call)
    return loop is not None and loop.fed and runs_to_its_end(loop)


def goes_on_after(loop: Loop) -> bool:
    """Return True if the line after `loop` runs when it has ended, also by `break`."""
    leaves = (ast.Return, ast.Yield, ast.YieldFrom)
    node = loop.node
    if not isinstance(node, (ast.For, ast.While)) or node.orelse:
        return False
    return not any(isinstance(n, leaves) for n in walk_body(node.body))


def runs_to_its_end(loop: Loop) -> bool:
    """True if nothing leaves `loop` before it has ended."""
    return (
        isinstance(loop.node, ast.For)
        and not loop.node.orelse
        and not any(isinstance(n, (ast.Break, ast.Return)) for n in walk_body(loop.node.body))
    )


def file_of(script: Script, call: ast.Call) -> str | None:
    """The name of the open file that `call` writes to."""
    func = call.func
    match func:
        case ast.Name(id="print"):
            file = keyword(call, "file")
            known = isinstance(file, ast.Name) and script.index.scope(call).find("print") is None
            return _opened(script, file) if known and isinstance(file, ast.Name) else None
        case ast.Attribute(attr="write", value=ast.Name() as file):
            return _opened(script, file)
        case ast.Attribute(attr="writerow", value=ast.Name() as writer):
            made = _made_once(script, writer)
            if (
                isinstance(made, ast.Call)
                and script.dotted(made.func) in {"csv.writer", "csv.DictWriter"}
                and made.args
                and isinstance(made.args[0], ast.Name)
                and _writes_alone(script, call, writer)
            ):
                return _opened(script, made.args[0])
    return None


def _opened(script: Script, file: ast.Name) -> str | None:
    """Return the name of `file` if this function opens it once, and nothing reads it in the loop."""
    loop = script.training.loop_of(file)
    is_read = loop is not None and any(map(may_read_files, walk(loop.node)))
    made = _made_once(script, file)
    is_opened = isinstance(made, ast.Call) and name_of(made.func) == "open"
    return file.id if is_opened and not is_read else None


def may_read_files(node: ast.AST) -> bool:
    """`open(path)`, `path.read_text()`, `pd.read_csv(path)`, `subprocess.run(...)`."""
    if not isinstance(node, ast.Call):
        return False
    name = name_of(node.func)
    return name in _READERS or name.startswith("read_")


def _made_once(script: Script, name: ast.Name) -> ast.expr | None:
    """Return the value of the only binding of `name`, outside the loop that uses it."""
    bindings, loop = script.bindings(name), script.training.loop_of(name)
    if len(bindings) != 1 or script.function(bindings[0].node) is not script.function(name):
        return None
    (binding,) = bindings
    is_inside = loop is not None and loop.node in script.ancestors(binding.node)
    is_known = binding.how in {"assign", "with"} and not binding.path
    return binding.value if is_known and not is_inside else None


def _writes_alone(script: Script, call: ast.Call, writer: ast.Name) -> bool:
    """True if no other row is written in the loop: a writer's own rows are not seen to come between."""
    loop = script.training.loop_of(call)
    return loop is not None and not any(
        node is not writer and loop.node in script.ancestors(node)
        for node, _ in script.index.names(writer.id)
    )


def _is_called(node: ast.expr, pattern: Pattern) -> bool:
    name = name_of(node)
    return pattern.search(name.lower()) is not None


def _library_of(made: set[str]) -> str:
    """The library that all of `made` are names of."""
    roots = {_root(dotted) for dotted in made}
    return roots.pop() if len(roots) == 1 else ""


def _root(dotted: str) -> str:
    return _TENSORBOARD if dotted.startswith(_TENSORBOARD) else dotted.partition(".")[0]


def _makers(script: Script, node: ast.expr) -> set[str]:
    """What `node` is, or is made by, by dotted names; an empty one for what is not known. None of them for `None`."""
    made = ends([node], lambda value: _sources(script, value))
    return {_maker(script, value) for value in made if not is_literal(value, None)}


def _maker(script: Script, value: ast.expr) -> str:
    is_accelerator = _is_accelerator(script, value)
    return script.dotted(value) or ("accelerate.Accelerator" if is_accelerator else "")


def _sources(script: Script, value: ast.expr) -> Sequence[ast.expr]:
    """Return what `value` comes from; nothing for a name of a library, and if a caller may pass something else."""
    if _maker(script, value):
        return []
    match value:
        case ast.Call(func=source) | ast.Subscript(value=source):
            return [source]
        case ast.Attribute(value=owner) if name_of(owner) != "self":
            return [owner]
        case ast.Name():
            bindings = script.reaching(value)
            entered = [b.part for b in bindings if b.how == "with" and b.part is not None]
            taking = [script.function(b.node) for b in bindings if b.how == "parameter"]
            is_open = any(script.is_imported_elsewhere(f.name) for f in taking if f is not None)
            return entered or ([] if is_open else known_sources(script, value))
    return sources(script, value)


def _is_accelerator(script: Script, value: ast.expr) -> bool:
    return isinstance(value, (ast.Name, ast.Attribute)) and script.value(value).has(ACCELERATOR)
