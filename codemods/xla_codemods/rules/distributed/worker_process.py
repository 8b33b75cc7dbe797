"""A process that the script starts itself cannot use the accelerator at the same time as its parent.

## What it reports

Processes, pools and executors whose functions compute on the accelerator, and XLA tensors or
models that are passed to them.

## Why it matters on XLA

A TPU chip or a NeuronCore belongs to one process. If the parent has used the device, a forked
child hangs at its first tensor (fact 3.64). XLA tensors cannot be passed to a spawned child (fact
3.65).

## What to do

Fix: none.

Start one process per device with `xla.launch` or `torchrun`, or keep the worker on the CPU.

## Example

```diff
 import torch.multiprocessing as mp
+from xla_migrate import runtime as xla

 def worker(rank, model):
-    model.cuda()
+    model.to(xla.xla_device())

 def main(model):
     workers = [mp.Process(target=worker, args=(rank, model)) for rank in range(4)]  # XLA615
     for started in workers:
         started.start()
```

Pools and executors:

```python
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import torch
from xla_migrate import runtime as xla

def embed(path, device):
    return torch.ones(len(path)).to(device).sum().item()

def embed_all(paths):
    with ProcessPoolExecutor(4) as pool:
        return list(pool.map(partial(embed, device=xla.xla_device()), paths))  # XLA615

def evaluate(model, queue):
    queue.put(model(torch.ones(2)))

def evaluate_beside(queue):
    model = torch.nn.Linear(2, 2).to(xla.xla_device())
    multiprocessing.get_context("spawn").Process(target=evaluate, args=(model, queue)).start()  # XLA615
```

Processes that compute on the host, and the only process that uses the device, are not reported:

```python
import multiprocessing as mp

import torch
from xla_migrate import runtime as xla

def read(path, queue):
    queue.put(torch.ones(len(path)))

def train(model):
    model.to(xla.xla_device())

def main(model, queue, paths):
    readers = [mp.Process(target=read, args=(path, queue)) for path in paths]
    trainer = mp.Process(target=train, args=(model,))
    with mp.Pool(8) as pool:
        pool.map(len, paths)
```

## See also

XLA604
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.workers import Workers
from ...analysis.nodes import CALLABLES, COMPREHENSIONS, LOOPS, walk
from ...analysis.scopes import FunctionNode, Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, keyword
from ...finding import HIGH, Finding
from ...rule import MethodCall, Rule

RULE = Rule("XLA615", "worker-process", effort=HIGH)

_BUSY = "the device belongs to one process, and a worker that uses it at the same time hangs or fails: start processes that compute on it with `xla.launch`, or keep the worker on the CPU"
_GIVEN = "XLA tensors cannot be passed to another process: move them to the CPU first and keep the worker there, or start processes with `xla.launch`"

_PACKAGES = ("multiprocessing", "torch.multiprocessing")
_POOLS = frozenset(
    {
        "concurrent.futures.ProcessPoolExecutor",
        "concurrent.futures.process.ProcessPoolExecutor",
        "multiprocessing.pool.Pool",
        "torch.multiprocessing.pool.Pool",
        *(f"{package}.Pool" for package in _PACKAGES),
    }
)
_CONTEXTS = frozenset(f"{package}.get_context" for package in _PACKAGES)
_COUNTS = ("processes", "max_workers")


@RULE.call(*(f"{package}.Process" for package in _PACKAGES))
def process(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    by_hand = script.dotted(call.func, scope) == "torch.multiprocessing.Process"
    if by_hand and script.index.calls_of("init_process_group"):
        return  # XLA604 speaks of it
    yield from _started(script, call, keyword(call, "target"))


@RULE.method("Process")
def process_of_context(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`ctx.Process(target=worker)`."""
    yield from _started(script, call, keyword(call, "target"))


@RULE.call(*sorted(_POOLS))
def initialized(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`Pool(4, initializer=load_model)`."""
    yield from _pooled(script, call, call, keyword(call, "initializer"), "initargs")


@RULE.method(
    "submit",
    "map",
    "starmap",
    "imap",
    "imap_unordered",
    "apply",
    "apply_async",
    "map_async",
    "starmap_async",
)
def pooled(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    """`pool.map(worker, paths)`, `executor.submit(worker, path)`."""
    pool = _pool(script, call.func.value)
    worker = call.args[0] if call.args else keyword(call, "func")
    if pool is not None and worker is not None:
        given = "" if call.func.attr == "submit" else "args" if "apply" in call.func.attr else None
        yield from _pooled(script, call, pool, worker, given)


def _pool(script: Script, node: ast.expr) -> ast.Call | None:
    """The call that has made the pool `node`, which is one of processes whatever way the program takes."""
    values: list[ast.expr | None] = [node]
    if isinstance(node, ast.Name):
        values = [b.value for b in script.bindings(node)]
    elif isinstance(node, ast.Attribute):
        owner = script.class_around(node)
        if owner is None or not isinstance(node.value, ast.Name) or node.value.id != "self":
            return None
        bound = script.inference.class_attributes(owner).get(node.attr, [])
        values = [b.value for b, _ in bound]
        values = [v for v in values if not is_literal(v, None)]
    calls = [value for value in values if isinstance(value, ast.Call)]
    if not calls or len(calls) < len(values):
        return None
    return calls[0] if all(_makes_processes(script, made) for made in calls) else None


def _makes_processes(script: Script, made: ast.Call) -> bool:
    if script.dotted(made.func) in _POOLS:
        return True
    if not isinstance(made.func, ast.Attribute) or made.func.attr != "Pool":
        return False
    context = made.func.value  # mp.get_context("spawn").Pool(4)
    if isinstance(context, ast.Name):
        made_by = script.only_value(context)
        if made_by is None:
            return False
        context = made_by
    return isinstance(context, ast.Call) and script.dotted(context.func) in _CONTEXTS


def _started(script: Script, call: ast.Call, worker: ast.expr | None) -> Iterator[Finding]:
    """Of `Process(target=worker, args=(...), kwargs={...})`."""
    if worker is None:
        return
    given = keyword(call, "args")
    arguments = list(given.elts) if isinstance(given, (ast.Tuple, ast.List)) else []
    named = keyword(call, "kwargs")
    keywords = []
    if isinstance(named, ast.Dict):
        for key, value in zip(named.keys, named.values):
            if isinstance(key, ast.Constant):
                keywords.append(ast.keyword(arg=str(key.value), value=value))
    several = _is_one_of_several(script, call)
    yield from _judged(script, call, worker, arguments, keywords, several)


def _pooled(
    script: Script, call: ast.Call, pool: ast.Call, worker: ast.expr | None, given: str | None
) -> Iterator[Finding]:
    """Yield findings of a worker that a pool runs. `given`: holds its arguments, "" for the call's own, None if they come in turn."""
    if worker is None:
        return
    arguments: list[ast.expr] = []
    keywords: list[ast.keyword] = []
    if given == "":
        arguments, keywords = call.args[1:], call.keywords
    elif given is not None:
        held = keyword(call, given) or (
            call.args[1] if call is not pool and call.args[1:] else None
        )
        arguments = list(held.elts) if isinstance(held, (ast.Tuple, ast.List)) else []
    count = next((k.value for k in pool.keywords if k.arg in _COUNTS), None)
    count = count or (pool.args[0] if pool.args else None)
    several = not (isinstance(count, ast.Constant) and count.value == 1)
    yield from _judged(script, call, worker, arguments, keywords, several)


def _judged(
    script: Script,
    call: ast.Call,
    worker: ast.expr,
    arguments: list[ast.expr],
    keywords: list[ast.keyword],
    several: bool,
) -> Iterator[Finding]:
    if not script.accelerated:
        return
    workers = script.cached(Workers)
    function, partial = workers.function(worker)
    if partial is not None:
        arguments = [*partial.args[1:], *arguments]
        keywords = [*partial.keywords, *keywords]
    if function is not None:
        made = ast.Call(func=worker, args=arguments, keywords=keywords)
        if workers.uses(function, workers.handed(function, made)):
            if several or _has_used_it(script, workers, call, function):
                yield RULE.finding(script, call, _BUSY)
                return
    things = [a for a in (*arguments, *(k.value for k in keywords)) if workers.is_thing(a)]
    if any(not _is_shared(script, thing) for thing in things):
        yield RULE.finding(script, call, _GIVEN)


def _is_shared(script: Script, thing: ast.expr) -> bool:
    """True if `share_memory()` is called on `thing`, where XLA515 says that this fails."""
    text = ast.unparse(thing)
    return any(
        isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == text
        for name in ("share_memory", "share_memory_")
        for call, _ in script.index.calls_of(name)
    )


def _is_one_of_several(script: Script, call: ast.Call) -> bool:
    """True if a loop starts such processes, and does not wait for each before the next."""
    for ancestor in script.ancestors(call):
        if isinstance(ancestor, CALLABLES):
            return False
        if isinstance(ancestor, COMPREHENSIONS):
            return True
        if isinstance(ancestor, LOOPS):
            return not any(
                isinstance(part, ast.Attribute)
                and part.attr == "join"
                and isinstance(part.value, (ast.Name, ast.Attribute))
                for statement in ancestor.body
                for part in walk(statement)
            )
    return False


def _has_used_it(script: Script, workers: Workers, call: ast.Call, function: FunctionNode) -> bool:
    """True if the process that makes `call` has computed on the accelerator before."""
    home = script.function(call)
    if home is function:
        return False
    body = home.body if home is not None else script.tree.body
    before = [s for s in body if (s.end_lineno or s.lineno) < call.lineno]
    return workers.computes(before, {})
