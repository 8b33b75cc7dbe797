"""A file of XLA tensors loads only on hosts with torch_xla.

## What it reports

`torch.save`, and pickles of tensors, in files that train or compute on an accelerator.

## Why it matters on XLA

`torch.save` stores the XLA device in the file (fact 1.43). With several replicas, each one would
write the same file.

## What to do

Fix: safe.

Use `xla.save`. It writes CPU tensors, so plain PyTorch loads the file anywhere (fact 1.42). It
replaces a file only when the new one is complete. With several replicas all of them call it, and
one writes.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 def train(model, optimizer, loss, path):
     loss.backward()
-    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
+    xla.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
```

Files that each replica or each host writes for itself:

```diff
 import torch
+from xla_migrate import runtime as xla

 def train(model, loss, folder, rank):
     loss.backward()
-    torch.save(torch.cuda.get_rng_state(), f"{folder}/random_{rank}.pt")
+    xla.save(xla.get_rng_state(), f"{folder}/random_{rank}.pt", master_only=False)
```

A path that callers make of the rank is such a file, too:

```diff
 import os
 import torch
+from xla_migrate import runtime as xla

 def write(part, folder, name):
     path = os.path.join(folder, f"{name}.pt")
-    torch.save(part, path)
+    xla.save(part, path, master_only=False)

 def train(model, loss, folder, rank):
     loss.backward()
     write(model.state_dict(), folder, f"part_{rank}")
```

Files that neither train nor compute on an accelerator are not reported:

```python
import torch

def prepare(images, path):
    torch.save(torch.stack(images), path)
```

## See also

XLA606, XLA702
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...analysis.frameworks.accelerator import uses_accelerate
from ...analysis.inference.library_types import RUNTIME
from ...analysis.inference.values import (
    ACCEL,
    ARGUMENTS,
    ARRAY,
    DATASET,
    DEVICE,
    HOST,
    LOADER,
    MODULE,
    NUMBER,
    OPTIMIZER,
    STRING,
    TENSOR,
)
from ...analysis.nodes import NAMED, walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_handed_on, is_literal, keyword, name_of, unparsed
from ...analysis.training.ranks.guards import guard, is_of_host, mentions_rank, rank_names
from ...analysis.training.unmoved_modules import is_as_made
from ...edits import AddArgument, DropArgument, Edit, Replace
from ...finding import INFO, WARNING, Finding
from ...flow.closure import reach
from ...flow.edges import sources
from ...patterns import Pattern
from ...rule import Rule

RULE = Rule("XLA701", "save", of_step="file", severity=WARNING, shows_accelerator=False)

_LOADS = frozenset({"torch.load", "torch.serialization.load", f"{RUNTIME}.load"})
_NAMES = ("torch.save", "torch.serialization.save")
_ORDER = ("obj", "f", "pickle_module", "pickle_protocol", "_use_new_zipfile_serialization")
_MESSAGE = "a file of XLA tensors loads only if torch_xla is installed: use `xla.save`"
_ON_THE_HOST = "with several XLA devices every process writes the same file: write it only in the first process"
_ON_CPU = Pattern(r"[\w.]+\.device(?:\.type == 'cpu'| == torch\.device\('cpu'\))")
_SAVES_A_MODEL = Pattern(
    r"save.*(?:checkpoint|ckpt|model|state|snapshot|weight)|checkpoint.*save", re.IGNORECASE
)


_NO_RESULTS = frozenset({HOST, ARRAY, NUMBER, STRING, DATASET, LOADER, ARGUMENTS})
_OPTIONS = Pattern(
    r"(?:\w+_)?args|opts?|options|config|cfg|hparams|(?:\w+_)?vocab(?:ulary|s)?|(?:\w+_)?tokenizer|datasets?"
)
_ON_THE_HOST_ALREADY = Pattern(r"\.(?:cpu|numpy|tolist)\(")
_OPT = Pattern(r"(?:^|\.)opts?\b")  # options have no `state_dict`: these are optimizers
_BUFFER = Pattern(r"buf(?:fer)?$|bytes|^bio$", re.IGNORECASE)


@RULE.call(*_NAMES)
def save(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    saved = call.args[0] if call.args else keyword(call, "obj")
    if saved is None or uses_accelerate(script) or not _concerns(script, call, saved):
        return
    file = call.args[1] if len(call.args) > 1 else keyword(call, "f")
    if _holds_no_results(script, saved, scope) or _is_in_memory(script, file, scope):
        return
    edits: list[Edit] = [Replace(call.func, f"{script.xla}.save")]
    for name, argument in list(zip(_ORDER, call.args))[2:]:
        edits += [DropArgument(call, argument), AddArgument(call, f"{name}={{0}}", (argument,))]
    if _each_writes(script, call, file):
        edits.append(AddArgument(call, "master_only=False"))
    if _was_brought_back(script, call, saved):
        yield RULE.finding(script, call, _ON_THE_HOST, *edits, severity=INFO)
    else:
        yield RULE.finding(script, call, _MESSAGE, *edits)


@RULE.call("pickle.dump", "pickle.dumps", "joblib.dump", "cloudpickle.dump", "dill.dump")
def pickled(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`pickle.dump(model.state_dict(), file)`, `joblib.dump(model, path)`."""
    if not (script.trains or script.runs_accelerated) or uses_accelerate(script) or not call.args:
        return
    saved = call.args[0]
    if _ON_THE_HOST_ALREADY.search(unparsed(saved)) or _was_brought_back(script, call, saved):
        return
    states = (
        part.func.value
        for part in walk(saved)
        if isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and part.func.attr == "state_dict"
    )
    held = [saved, *states]
    if any(script.value(owner, scope).kinds & {MODULE, OPTIMIZER} for owner in held):
        message = (
            "a pickle of XLA tensors loads only if torch_xla is installed: write it with `xla.save`"
        )
        yield RULE.finding(script, call, message)


def _was_brought_back(script: Script, call: ast.Call, saved: ast.expr) -> bool:
    """True if `saved` is a module, or its state dict, that the block has moved to the CPU before: `model.cpu()`."""
    match saved:
        case ast.Call(func=ast.Attribute(value=owner, attr="state_dict"), args=[]):
            pass
        case _:
            owner = saved
    name = unparsed(owner)
    if owner is not saved and is_as_made(script, owner, call):
        return True
    for earlier in _before(script, call):
        match earlier:
            case ast.Assert(test=test) if _ON_CPU.fullmatch(unparsed(test)):
                if unparsed(test).startswith(f"{name}.device"):
                    return True
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=moved, attr=how)) as move):
                if _root(moved) == name and how in {"cpu", "to", "cuda"}:
                    to = move.args[0] if move.args else None
                    return how == "cpu" or (how == "to" and is_literal(to, "cpu"))
    return False


def _before(script: Script, call: ast.Call) -> Iterator[ast.stmt]:
    """The statements of the function that surely ran before `call`, last first."""
    statement = script.statement(call)
    while True:
        block = script.block(statement)
        yield from reversed(block[: block.index(statement)])
        parent = script.parents.get(statement)
        if not isinstance(parent, ast.stmt) or isinstance(parent, NAMED):
            return
        statement = parent


def _root(chain: ast.expr) -> str:
    """`model` of `model.eval().half()`."""
    while isinstance(chain, ast.Call) and isinstance(chain.func, ast.Attribute):
        chain = chain.func.value
    return unparsed(chain)


@RULE.reference(*_NAMES)
def handed_on(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`partial(torch.save, state)`, `save=torch.save`."""
    if uses_accelerate(script) or not (script.trains or script.runs_accelerated):
        return
    if is_handed_on(node, script.parents):
        yield RULE.finding(script, node, _MESSAGE, Replace(node, f"{script.xla}.save"))


def _holds_no_results(script: Script, node: ast.expr, scope: Scope) -> bool:
    """Data of the host, a dataset, options."""
    if isinstance(node, ast.Name) and _was_loaded_to_the_host(script, node, scope):
        return True
    if isinstance(node, ast.Dict):
        return _is_of_the_host(script, node, scope)
    kinds = script.value(node, scope).kinds
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "state_dict":
        assert isinstance(node.func, ast.Attribute)
        node = node.func.value  # `vocab["words"].state_dict()`
        if script.value(node, scope).kinds & {MODULE, OPTIMIZER} or _OPT.search(unparsed(node)):
            return False
    elif kinds & {MODULE, OPTIMIZER}:
        return False
    while isinstance(node, ast.Subscript):
        node = node.value
    last = name_of(node)
    return bool(kinds & _NO_RESULTS) or _OPTIONS.fullmatch(last) is not None


_TO_THE_HOST = frozenset({"cpu", "numpy", "tolist"})
_OF_PYTHON = frozenset("bool dict float int len list str tuple".split())


def _is_of_the_host(script: Script, entries: ast.Dict, scope: Scope) -> bool:
    """`{"step": step, "shape": tuple(p.shape), "tensor": p.cpu()}`: who writes that has taken all tensors off the device."""
    fetched = 0
    for value in entries.values:
        match value:
            case ast.Call(func=ast.Attribute(attr=name), args=[]) if name in _TO_THE_HOST:
                fetched += 1
            case ast.Constant() | ast.JoinedStr():
                pass
            case ast.Name() | ast.Attribute() if not script.value(value, scope).has(TENSOR):
                pass
            case ast.Call(func=ast.Name(id=name)) if name in _OF_PYTHON:
                pass
            case _:
                return False
    return fetched > 0 and None not in entries.keys


def _was_loaded_to_the_host(script: Script, node: ast.Name, scope: Scope) -> bool:
    """`state = torch.load(path, map_location="cpu")`, in which nothing but names and constants is stored before."""
    found = scope.find(node.id)
    if found is None or any(not _loads_to_the_host(script, b.value, scope) for b in found[1]):
        return False
    return not any(
        isinstance(part, ast.Call)
        for assign, home in script.index.of(ast.Assign)
        for target in assign.targets
        if home is found[0] and isinstance(target, ast.Subscript)
        if any(isinstance(n, ast.Name) and n.id == node.id for n in walk(target.value))
        for part in walk(assign.value)
    )


def _loads_to_the_host(script: Script, value: ast.expr | None, scope: Scope) -> bool:
    """True if `value` loads a file to the host, or is of a function of this file that puts such files together."""

    def inside(call: ast.Call) -> list[ast.Call]:
        made = script.value(call.func).definition
        if not isinstance(made, ast.FunctionDef) or script.trains:
            return []
        return [
            part for part in walk(made) if isinstance(part, ast.Call) and part in script.parents
        ]

    calls = reach([value] if isinstance(value, ast.Call) else [], inside)
    loads = (call for call in calls if script.dotted(call.func) in _LOADS)
    places = (keyword(call, "map_location") for call in loads)
    return any(
        is_literal(place, "cpu") or (place and _is_the_host(script, place)) for place in places
    )


def _is_the_host(script: Script, place: ast.expr) -> bool:
    kinds = script.value(place).kinds
    return kinds >= {DEVICE, HOST} and ACCEL not in kinds  # not `cuda if ... else cpu`


def _is_in_memory(script: Script, file: ast.expr | None, scope: Scope) -> bool:
    """Return True if `file` is a buffer, which each replica fills for itself."""
    if not isinstance(file, ast.Name):
        return False
    values = [b.value for b in script.bindings(file)]
    return _BUFFER.search(file.id) is not None or any(
        isinstance(value, ast.Call) and script.dotted(value.func, scope) == "io.BytesIO"
        for value in values
    )


def _each_writes(script: Script, call: ast.Call, file: ast.expr | None) -> bool:
    """Return True if each replica writes a separate file, or if others than the first write."""
    names = rank_names(script)

    def step(node: ast.expr) -> list[ast.expr]:
        inside = [
            n for n in walk(node) if n is not node and isinstance(n, (ast.Name, ast.Attribute))
        ]
        return [*inside, *sources(script, node)]

    made_of = reach([file] if file is not None else [], step)
    return any(mentions_rank(part, names) for part in made_of) or _is_kept_from_the_first(
        script, call
    )


def _is_kept_from_the_first(script: Script, call: ast.Call) -> bool:
    """Under `if rank != 0:`, or under `if local_rank == 0:`, which lets one of each host pass.

    So is a function of this file that is called so alone: `if local_rank == 0: save_checkpoint(...)`.
    """
    if _is_under_such_a_guard(script, call):
        return True
    function = script.function(call)
    calls = script.index.calls_of(function.name) if function is not None else []
    return bool(calls) and all(_is_under_such_a_guard(script, c) for c, _ in calls)


def _is_under_such_a_guard(script: Script, call: ast.Call) -> bool:
    node: ast.AST = call
    while (parent := script.parent(node)) is not None:
        if isinstance(parent, ast.If) and node in parent.body:
            found = guard(parent.test, rank_names(script))
            if found is not None and (
                not found.first or is_of_host(parent.test, rank_names(script))
            ):
                return True
        node = parent
    return False


def _concerns(script: Script, call: ast.Call, saved: ast.expr) -> bool:
    """True if the file computes, or this saves what another one has computed: a state dict, a checkpoint."""
    if script.trains or script.runs_accelerated:
        return True
    function = script.function(call)
    if function is not None and _SAVES_A_MODEL.search(function.name):
        return True
    return any(
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr == "state_dict"
        for n in walk(saved)
    )
