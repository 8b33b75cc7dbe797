'''Names of a user's own, mapped in the settings: a company's wrappers around CUDA (XLA003).

Four tables say what a name is; the value says what becomes of it.

```toml
[tool.xla-migrate.devices]            # called, they give the accelerator's device
"mylib.get_device" = "xla_device"     # a name without dots is one of the runtime's
"mylib.pick_gpu" = true               # is one, and stays as it is

[tool.xla-migrate.optimizers]         # optimizer classes, or functions that make one
"mylib.FusedAdamW" = "torch.optim.AdamW"
"mylib.build_optimizer" = true

[tool.xla-migrate.loaders]            # loader classes, or functions that make one
"mylib.CudaLoader" = "torch.utils.data.DataLoader"
"mylib.make_loaders" = true

[tool.xla-migrate.functions]
"mylib.cuda_sync" = "synchronize"

[tool.xla-migrate.functions."mylib.to_gpu"]
to = "{0}.to({xla}.xla_device())"     # {0}, {1}: the call's arguments; {name}: a keyword; {xla}: the runtime
message = "`to_gpu` needs a CUDA device"
safety = "safe"                       # or "unsafe": only with --unsafe
examples = [{ before = """
from mylib import to_gpu
x = to_gpu(x)
""", after = """
from xla_migrate import runtime as xla
x = x.to(xla.xla_device())
""" }]
```

With a name the arguments stay as they are written; with braces the call must have the arguments that are named, and
no others, else it is reported without a fix. The examples are tested before the settings are first used, and a run
does not begin while one of them fails.
'''

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from .edits import Edit, Replace
from .findings import SAFE, UNSAFE, Finding
from .names import Scope, resolve
from .rule import Rule
from .values import ACCEL, DEVICE, LOADER, OPTIMIZER, Value, of

if TYPE_CHECKING:
    from .script import Script

RULE = Rule("XLA003", "own-name")

TABLES: dict[str, Value | None] = {
    "devices": of(DEVICE, ACCEL),
    "optimizers": of(OPTIMIZER),
    "loaders": of(LOADER),
    "functions": None,
}
_KEYS = ("to", "message", "safety", "examples")
_MOST_HANDS = 8  # modules that hand a name on to each other
_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_HOLE = re.compile(r"\{(\w+)\}")


class OwnError(Exception):
    """A mapping that cannot be used: its key in the settings, and why."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: {reason}")
        self.key = key
        self.reason = reason


class Own(NamedTuple):
    """One name. `to` is a name, a template with braces, or empty where the name stays as it is."""

    table: str
    dotted: str
    to: str
    message: str
    safety: str
    examples: tuple[tuple[str, str], ...]

    @property
    def last(self) -> str:
        """What a file must mention to be concerned with it."""
        return self.dotted.rpartition(".")[2]


def read(tables: Mapping[str, object]) -> tuple[Own, ...]:
    """The mappings of the settings' tables.

    Raises:
        OwnError: a key or value in them is wrong.
    """
    found = []
    for table, names in tables.items():
        if not isinstance(names, dict):
            raise OwnError(table, "must be a table of names")
        for name, value in names.items():
            found.append(_read(table, name, value))
            if any(other.dotted == name for other in found[:-1]):
                raise OwnError(f'{table}."{name}"', "stands in another table, too")
    return tuple(found)


def _read(table: str, name: str, value: object) -> Own:
    key = f'{table}."{name}"'
    if not _NAME.fullmatch(name) or "." not in name:
        raise OwnError(key, 'must be a dotted name, like "mylib.to_gpu"')
    entry: dict[str, Any] = value if isinstance(value, dict) else {"to": value}
    for unknown in entry.keys() - set(_KEYS):
        raise OwnError(f"{key}.{unknown}", f"no such key; there is {', '.join(_KEYS)}")
    if "to" not in entry:
        raise OwnError(key, "`to` is missing")
    message = entry.get("message", "")
    safety = entry.get("safety", SAFE)
    if not isinstance(message, str):
        raise OwnError(f"{key}.message", "must be a string")
    if safety not in (SAFE, UNSAFE):
        raise OwnError(f"{key}.safety", 'must be "safe" or "unsafe"')
    to = _target(key, table, entry["to"])
    return Own(table, name, to, message, safety, _examples(key, entry.get("examples", [])))


def _target(key: str, table: str, to: object) -> str:
    if to is True and table != "functions":
        return ""
    if not isinstance(to, str) or not to:
        known = ", or true where it stays" if table != "functions" else ""
        raise OwnError(key, f"must be a name or a text with braces{known}, not {to!r}")
    holes = [name for name in _HOLE.findall(to) if name != "xla"]
    if len(set(holes)) < len(holes):
        raise OwnError(key, "an argument can stand in it once: it would be evaluated twice")
    try:
        ast.parse(_HOLE.sub("_", to).strip(), mode="eval")
    except SyntaxError as error:
        raise OwnError(key, f"{to!r} is no Python expression: {error.msg}") from error
    if not _HOLE.search(to) and not _NAME.fullmatch(to):
        raise OwnError(key, f"{to!r} is neither a name nor a text with braces")
    return to


def _examples(key: str, examples: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(examples, list):
        raise OwnError(f"{key}.examples", "must be a list of tables with `before` and `after`")
    pairs = []
    for example in examples:
        if not isinstance(example, dict) or sorted(example) != ["after", "before"]:
            raise OwnError(f"{key}.examples", "each must have `before` and `after`, and no more")
        if not all(isinstance(text, str) for text in example.values()):
            raise OwnError(f"{key}.examples", "`before` and `after` must be strings")
        pairs.append((example["before"], example["after"]))
    return tuple(pairs)


def names_of_runtime(entry: Own) -> list[str]:
    """The names of the runtime that a mapping speaks of: its own, or those behind `{xla}`."""
    return [entry.to] if entry.to.isidentifier() else re.findall(r"\{xla\}\.(\w+)", entry.to)


def value(own: tuple[Own, ...], dotted: str, path: str) -> Value | None:
    """What calling `dotted` returns, where a table says so."""
    entry = lookup(own, dotted, path)
    return TABLES[entry.table] if entry is not None else None


def lookup(own: tuple[Own, ...], dotted: str, path: str) -> Own | None:
    """The mapping of `dotted`; a relative name is that of the packages which the file at `path` lies in."""
    level = len(dotted) - len(dotted.lstrip("."))
    for entry in own:
        if entry.dotted == dotted:
            return entry
        if level and f".{_absolute(dotted, level, path)}".endswith(f".{entry.dotted}"):
            return entry
    return None


def _entry(script: Script, own: tuple[Own, ...], dotted: str | None) -> Own | None:
    if not dotted:
        return None
    return lookup(own, dotted, script.path) or _handed_on(script, own, dotted)


def _handed_on(script: Script, own: tuple[Own, ...], dotted: str) -> Own | None:
    """The mapping of what a module of the project hands on under its own name: `from acme.api import to_gpu`."""
    project = script.project
    if project is None or dotted.rpartition(".")[2] not in {entry.last for entry in own}:
        return None
    project.asked = True
    modules, path = project.modules, project.path
    for _ in range(_MOST_HANDS):
        found = modules.locate(dotted, path)
        scope = modules.scope(found[0]) if found is not None and len(found[1]) == 1 else None
        inner = scope.dotted(found[1][0]) if found is not None and scope is not None else None
        if found is None or inner is None:
            return None
        dotted, path = inner, found[0]
        entry = lookup(own, dotted, path)
        if entry is not None:
            return entry
    return None


def _absolute(dotted: str, level: int, path: str) -> str:
    folders = re.split(r"[\\/]", path)[:-1]
    base = folders[: len(folders) - (level - 1)]
    return ".".join([*base, dotted[level:]])


def findings(script: Script, own: tuple[Own, ...]) -> Iterator[Finding]:
    """The places where these names are used."""
    called = {}
    for call, scope in script.index.of(ast.Call):
        entry = _entry(script, own, resolve(call.func, scope))
        if entry is not None and entry.to:
            called[call.func] = True
            yield _at_call(script, call, scope, entry)
    names: list[tuple[ast.expr, Scope]] = [*script.index.of(ast.Name)]
    names += script.index.of(ast.Attribute)
    for node, scope in names:
        if node in called or isinstance(script.parent(node), ast.Attribute):
            continue
        entry = _entry(script, own, resolve(node, scope))
        if entry is not None and entry.to and isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
            yield _finding(script, node, entry, _renamed(script, node, scope, entry))


def _at_call(script: Script, call: ast.Call, scope: Scope, entry: Own) -> Finding:
    if not _HOLE.search(entry.to):
        return _finding(script, call, entry, _renamed(script, call.func, scope, entry))
    given = _arguments(call)
    wanted = [name for name in _HOLE.findall(entry.to) if name != "xla"]
    if given is None or sorted(given) != sorted(wanted):
        return _finding(script, call, entry, None)
    text = entry.to.replace("{xla}", script.xla)
    if wanted:
        text = text.replace("{", "{{").replace("}", "}}")
        for k, name in enumerate(wanted):
            text = text.replace(f"{{{{{name}}}}}", f"{{{k}}}")
    return _finding(script, call, entry, Replace(call, text, tuple(given[n] for n in wanted)))


def _renamed(script: Script, node: ast.expr, scope: Scope, entry: Own) -> Edit | None:
    """`node` under its new name, if it has one that can be written here."""
    if _HOLE.search(entry.to):
        return None
    if "." not in entry.to:
        return Replace(node, f"{script.xla}.{entry.to}")
    spelled = _spelled(script, scope, entry.to)
    return Replace(node, spelled) if spelled else None


def _spelled(script: Script, scope: Scope, dotted: str) -> str | None:
    """How `dotted` is written where `scope` is: torch is imported if need be, others must have been."""
    if dotted.startswith(("torch.", "timm.")):
        return script.spell(dotted, scope)
    for name in script.module.bindings:
        home = script.module.dotted(name)
        if home and f"{dotted}.".startswith(f"{home}.") and scope.dotted(name) == home:
            return name + dotted[len(home) :]
    return None


def _arguments(call: ast.Call) -> dict[str, ast.expr] | None:
    """The arguments of `call` by position or name; None where `*` or `**` hides them."""
    if any(isinstance(a, ast.Starred) for a in call.args) or any(
        k.arg is None for k in call.keywords
    ):
        return None
    given = {str(k): argument for k, argument in enumerate(call.args)}
    return given | {k.arg: k.value for k in call.keywords if k.arg is not None}


def _finding(script: Script, node: ast.expr, entry: Own, edit: Edit | None) -> Finding:
    message = (
        entry.message or f"`{entry.dotted}` is for CUDA: `{_shown(script, entry)}` takes its place"
    )
    if edit is None:
        why = "its arguments are not those of the mapping" if _HOLE.search(entry.to) else ""
        why = why or f"the file does not import `{entry.to.partition('.')[0]}`"
        return RULE.at(script, node, f"{message}; {why}")
    return RULE.at(script, node, message, edit, safety=entry.safety)


def _shown(script: Script, entry: Own) -> str:
    """What takes the name's place, as a person would write it."""
    if not _HOLE.search(entry.to):
        return entry.to if "." in entry.to else f"{script.xla}.{entry.to}"
    letters = dict(zip("0123", "xyzw"), xla=script.xla)
    return _HOLE.sub(lambda match: letters.get(match[1], match[1]), entry.to)


def failures(own: tuple[Own, ...]) -> Iterator[tuple[Own, str, str]]:
    """Examples that do not hold: the mapping, what was expected, and what came out.

    Raises:
        OwnError: one is no Python source.
    """
    from .engine import Options, migrate
    from .source import SourceError

    options = Options(unsafe=True, own=own)
    for entry in own:
        for before, after in entry.examples:
            try:
                got = migrate(before.encode(), options).data.decode()
            except SourceError as error:
                key = f'{entry.table}."{entry.dotted}".examples'
                where = f"line {error.line} of `before` is no Python"
                raise OwnError(key, f"{where}: {error.reason}") from error
            if got.strip() != after.strip():
                yield entry, after, got
