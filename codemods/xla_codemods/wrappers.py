'''Names of your own wrappers around CUDA, mapped in the settings.

## What it reports

Uses of names that four tables of the settings map. The value says what replaces the name.

## Why it matters on XLA

Without the settings, xla-migrate does not know that a wrapper of your project uses CUDA.

## What to do

Fix: safe, unsafe or none.

Map the names in `pyproject.toml`.

## Example

```toml
[tool.xla-migrate.devices]            # functions that return the accelerator's device
"mylib.get_device" = "xla_device"     # a name without dots belongs to the runtime
"mylib.pick_gpu" = true               # returns the device, and stays

[tool.xla-migrate.optimizers]         # optimizer classes, or functions that create one
"mylib.FusedAdamW" = "torch.optim.AdamW"
"mylib.build_optimizer" = true

[tool.xla-migrate.loaders]            # loader classes, or functions that create one
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

If the value is a name, the arguments of the call stay. If it contains braces, the call must have exactly the arguments in
the braces. Other calls are reported without a fix. The examples are tested before the settings are first used, and the run
does not start if one of them fails.
'''

from __future__ import annotations

import ast
from collections.abc import Iterator

from .analysis.scopes import Scope, resolve
from .analysis.script import Script
from .analysis.wrappers import HOLE, Wrapper, lookup
from .edits import Edit, Replace
from .finding import Finding
from .flow.closure import reach
from .rule import Rule
from .symptoms import POSSIBLE

# A user's own replacement may change anything.
RULE = Rule("XLA003", "own-name", behind={"loss": POSSIBLE, "weights": POSSIBLE})


def _entry(script: Script, own: tuple[Wrapper, ...], dotted: str | None) -> Wrapper | None:
    if not dotted:
        return None
    return lookup(own, dotted, script.path) or _handed_on(script, own, dotted)


def _handed_on(script: Script, own: tuple[Wrapper, ...], dotted: str) -> Wrapper | None:
    """The mapping of what a module of the project hands on under its own name: `from acme.api import to_gpu`."""
    project = script.project
    if dotted.rpartition(".")[2] not in {entry.last for entry in own}:
        return None
    modules = project.modules

    def inner(place: tuple[str, str]) -> list[tuple[str, str]]:
        home, names = modules.locate(*place) or ("", [])
        scope = modules.scope(home) if len(names) == 1 else None
        found = scope.dotted(names[0]) if scope is not None else None
        return [(found, home)] if found is not None else []

    _, *places = reach([(dotted, project.path)], inner)
    return next(filter(None, (lookup(own, *place) for place in places)), None)


def findings(script: Script, own: tuple[Wrapper, ...]) -> Iterator[Finding]:
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


def _at_call(script: Script, call: ast.Call, scope: Scope, entry: Wrapper) -> Finding:
    if not HOLE.search(entry.to):
        return _finding(script, call, entry, _renamed(script, call.func, scope, entry))
    given = _arguments(call)
    wanted = [name for name in HOLE.findall(entry.to) if name != "xla"]
    if given is None or sorted(given) != sorted(wanted):
        return _finding(script, call, entry, None)
    text = entry.to.replace("{xla}", script.xla)
    if wanted:
        text = text.replace("{", "{{").replace("}", "}}")
        for k, name in enumerate(wanted):
            text = text.replace(f"{{{{{name}}}}}", f"{{{k}}}")
    return _finding(script, call, entry, Replace(call, text, tuple(given[n] for n in wanted)))


def _renamed(script: Script, node: ast.expr, scope: Scope, entry: Wrapper) -> Edit | None:
    """`node` under its new name, if it has one that can be written here."""
    if HOLE.search(entry.to):
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


def _finding(script: Script, node: ast.expr, entry: Wrapper, edit: Edit | None) -> Finding:
    message = entry.message or f"`{entry.dotted}` is for CUDA: use `{_shown(script, entry)}`"
    if edit is None:
        why = "its arguments differ from the mapping's" if HOLE.search(entry.to) else ""
        why = why or f"the file does not import `{entry.to.partition('.')[0]}`"
        return RULE.finding(script, node, f"{message}; {why}")
    return RULE.finding(script, node, message, edit, safety=entry.safety)


def _shown(script: Script, entry: Wrapper) -> str:
    """Return the name's replacement, as a user would write it."""
    if not HOLE.search(entry.to):
        return entry.to if "." in entry.to else f"{script.xla}.{entry.to}"
    letters = dict(zip("0123", "xyzw"), xla=script.xla)
    return HOLE.sub(lambda match: letters.get(match[1], match[1]), entry.to)
