"""A step without a step mark lets the graph grow in each iteration.

## What it reports

Loops that train, evaluate or sample, and that neither a step mark nor a device loader ends.

## Why it matters on XLA

XLA runs nothing until the graph ends. A read such as `loss.item()` does not end it: the updates
stay pending, and each step traces all steps before it again (fact 3.20). A loop without any read
becomes one graph (fact 3.32).

## What to do

Fix: safe.

Add `xla.mark_step()` after the optimizer step, and after averages of weights that are updated
with it. Add it before host reads, so that a read does not run the forward pass a second time
(fact 3.21).

A device loader marks each batch. In a loop over one, a mark is added only before such a read, or
if several replicas train and one of them may act alone: it would launch a graph that the other
replicas launch elsewhere, and wait for them (fact 1.41).

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 def train(model, get_batch, steps):
     optimizer = torch.optim.AdamW(model.parameters())
     for step in range(steps):
         x, y = get_batch()
         loss = model(x, y)
         optimizer.zero_grad()
         loss.backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
+        xla.mark_step()
         print(loss.item())
```

If an inner loop accumulates gradients, each micro-batch gets a mark. The mark is at the
beginning, so that the last micro-batch and the optimizer step run together:

```diff
 import torch
+from xla_migrate import runtime as xla

 def train(model, get_batch, steps):
     optimizer = torch.optim.AdamW(model.parameters())
     for step in range(steps):
         for micro_step in range(4):
+            xla.mark_step()
             loss = model(*get_batch()) / 4
             loss.backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
+        xla.mark_step()
         optimizer.zero_grad()
```

Evaluation and sampling loops:

```diff
 import torch
+from xla_migrate import runtime as xla

 @torch.no_grad()
 def evaluate(model, get_batch):
     model.eval()
     total = 0.0
     for k in range(20):
         x, y = get_batch()
         loss = model(x, y)
+        xla.mark_step()
         total += loss.item()
     return total / 20
```

Loops that act in an environment, and loops that compute gradients and step by hand, get a mark as
well. Loops whose gradients are differentiated, and loops that belong to a training step, do not:

```diff
 import torch
+from xla_migrate import runtime as xla

 def fit(weight, x, y):
     for k in range(100):
-        loss = ((x.cuda() @ weight - y.cuda()) ** 2).mean()
+        loss = ((x.to(xla.xla_device()) @ weight - y.to(xla.xla_device())) ** 2).mean()
         (gradient,) = torch.autograd.grad(loss, [weight])
         weight = (weight - 0.1 * gradient).detach().requires_grad_()
+        xla.mark_step()
         print(k, loss.item())
     return weight
```

The loaders that accelerate prepares mark each step at the next batch. A loop without one needs a mark:

```diff
 from accelerate import Accelerator
+from xla_migrate import runtime as xla

+xla.patch_accelerate()
 accelerator = Accelerator()

 def train(model, optimizer, loader, x):
     model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
     for k in range(100):
         accelerator.backward(model(x[k]).mean())
         optimizer.step()
+        xla.mark_step()
         optimizer.zero_grad()
     for batch in loader:
         accelerator.backward(model(batch).mean())
         optimizer.step()
         optimizer.zero_grad()
```

Loops inside a model's forward pass are part of one graph. They are not reported:

```python
from torch import nn

class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from ...analysis.devices.checks.on_xla import is_guarded
from ...analysis.frameworks.accelerator import uses_accelerate
from ...analysis.inference import library_types
from ...analysis.inference.values import ACCELERATOR
from ...analysis.nodes import walk
from ...analysis.optimizers import is_scaler
from ...analysis.script import Script
from ...analysis.syntax import name_of
from ...analysis.training.acting import (
    is_hook,
    is_part_of_a_model,
    is_part_of_a_step,
    outermost_places,
    unmarked_evaluations,
)
from ...analysis.training.engines import evaluations_of_engines
from ...analysis.training.host_reads.fetching import made_later
from ...analysis.training.ranks.divergence import has_replicas, may_be_alone, separates
from ...analysis.training.reads_behind import marked_after, read_after, reads, reads_in_each_turn
from ...analysis.training.steps import calls_of, is_of_an_optimizer
from ...analysis.training.training import (
    BACKWARD,
    FORWARD,
    GRADIENTS,
    MARK,
    STEP,
    TRAINING,
    Loop,
    Step,
    outside_loops,
)
from ...edits import Edit, InsertAfter, InsertBefore, ReplaceStatement
from ...finding import WARNING, Finding
from ...flow.closure import all_ends
from ...flow.conditions import after
from ...patterns import Pattern
from ...rule import Rule
from ...symptoms import LIKELY, REMOTE

RULE = Rule(
    "XLA502",
    "step-mark",
    of_what_runs=True,
    of_step="mark",
    shows_accelerator=False,
    behind={"bounded graph": LIKELY, "static shapes": REMOTE, "launches": REMOTE},
)

_AS_ONE = "without `xla.mark_step()` XLA compiles the iterations of the loop as one graph until a value is read: mark each iteration"
_IN_PIECES = "without `xla.mark_step()` each read in the loop launches a graph that contains the whole forward pass: mark each iteration before its first read"
_KEPT = "the read runs only its own part of the graph, so the graph of the state that the object keeps grows with each call: add `xla.mark_step()` before the read"
_WAITS = frozenset({"torch.cuda.synchronize", f"{library_types.RUNTIME}.synchronize"})
# Alone: a second condition next to it may hold only now and then.
_ASKS_FOR_ONE = Pattern(
    r"^(?:torch\.cuda\.is_available\(\)|[\w.]+ == .cuda.|[\w.]+\.is_cuda|\w+\.is_(?:available\(\)|accelerator\([\w.]+\))|(?:use_)?cuda)$"
)
_COUNTING = frozenset({"range", "trange", "count"})
_LEAVES = (ast.Continue, ast.Break, ast.Return, ast.Raise)


@RULE.file
def after_optimizer_steps(script: Script) -> Iterator[Finding]:
    """One mark behind the last step of each loop or function that steps."""
    by_loaders = uses_accelerate(script)
    if by_loaders:
        if _is_of_fabric(script):
            return  # Fabric marks each step behind it
        yield from _before_what_accelerates_main_process_does(script)
    for anchor, loop, step in _last_steps(script):
        if by_loaders and (loop is None or _takes_batches(loop)):
            continue  # the loader that accelerate prepares marks at the next batch
        if marked_after(script, anchor) or is_hook(script, step.call):
            continue
        if _is_within_a_forward_pass(script, step.call):
            continue
        own = script.statement(step.call)
        edits: list[Edit] = []
        if own is not anchor and not marked_after(script, own) and read_after(script, own):
            # in the block of the step, before it is read there
            edits += _behind(script, _last_update(script, own))
        if loop is None or not loop.fed or read_after(script, anchor):
            edits += _behind(script, _last_update(script, anchor))
        if not edits:
            continue
        if loop is None or not loop.fed:
            edits += _behind_what_some_update(script, anchor)
        if loop is not None and not loop.fed:
            edits += _before_continues(script, loop, anchor)
        yield RULE.finding(
            script,
            step.call,
            "without `xla.mark_step()` XLA does not run the step until a value is read: mark the end of the step",
            *edits,
        )


def _is_of_fabric(script: Script) -> bool:
    return script.source.mentions("fabric") and not script.source.mentions("accelerate")


def _takes_batches(loop: Loop) -> bool:
    """Return True if the loop may take batches of a loader: if it counts no numbers, or calls `next`."""
    names = {name_of(node.func) for node in walk(loop.node) if isinstance(node, ast.Call)}
    over = loop.iterable
    counts = over is None or any(name_of(node) in _COUNTING for node in walk(over))
    return bool(loop.drivers) or "next" in names or not counts


def _is_within_a_forward_pass(script: Script, node: ast.AST) -> bool:
    """True in `forward` of a module, as of codebooks that train themselves: the step of the model around it is marked."""
    function = script.function(node)
    return (
        function is not None
        and function.name in {"forward", "__call__"}
        and script.is_in_a_module(function)
    )


def _before_what_accelerates_main_process_does(script: Script) -> Iterator[Finding]:
    """The loaders of accelerate mark the steps, at the next batch: too late for what one process saves behind the step."""
    for anchor, loop, step in _last_steps(script):
        block = script.block(anchor)
        behind = block[block.index(anchor) + 1 :]
        behind = behind[: next((k for k, s in enumerate(behind) if _waits(script, s)), None)]
        alone = any(_is_for_one_process(script, node) for s in behind for node in walk(s))
        if loop is not None and alone and not marked_after(script, anchor):
            message = "code that only one process runs after the step launches the reduction there alone, and all processes wait: mark the end of the step"
            yield RULE.finding(script, step.call, message, *_behind(script, anchor))


def _waits(script: Script, statement: ast.stmt) -> bool:
    """`accelerator.wait_for_everyone()`, a rendezvous on XLA, which launches what is pending before it waits."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="wait_for_everyone"))):
            return script.value(owner).has(ACCELERATOR)
    return False


def _is_for_one_process(script: Script, node: ast.AST) -> bool:
    """A test of the rank, or what hides one; not accelerate's methods and the runtime's, which all processes call."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        own = (script.dotted(node.func) or "").startswith(f"{library_types.RUNTIME}.")
        if own or script.value(node.func.value).has(ACCELERATOR):
            return False
    return separates(script, node)


def _last_update(script: Script, step: ast.stmt) -> ast.stmt:
    """The step, or the last statement behind it that updates tensors too, before anything is read.

    Averages of weights and target networks then run in the launch of the step, and so does what is read later: behind the mark
    it would be a part of the next step's graph, and the first step's another one. Not what one replica alone averages, whose
    launch would be another than that of the others, with the same collectives in it.
    """
    block = script.block(step)
    last, later = step, made_later(script)
    for statement in block[block.index(step) + 1 :]:
        if reads(script, statement) or any(isinstance(n, _LEAVES) for n in walk(statement)):
            break
        if has_replicas(script) and may_be_alone(script, statement):
            break
        if any(node in later or _is_update(script, node) for node in walk(statement)):
            last = statement
    return last


def _behind_what_some_update(script: Script, anchor: ast.stmt) -> Iterator[Edit]:
    """`if ema: ema.update(model)`, of the first replica: cut off, so that its next step is launched as the others'."""
    if not has_replicas(script):
        return
    block = script.block(anchor)
    for statement in block[block.index(anchor) + 1 :]:
        if any(isinstance(node, _LEAVES) for node in walk(statement)):
            return
        updates = any(_is_update(script, node) for node in walk(statement))
        if updates and may_be_alone(script, statement) and not reads(script, statement):
            yield InsertAfter(statement, f"{script.xla}.mark_step()")


def _is_update(script: Script, node: ast.AST) -> bool:
    """A call that changes tensors by its name: `t.lerp_(...)`, `ema.update()`, `soft_update(...)`."""
    if not isinstance(node, ast.Call):
        return False
    func = node.func
    if isinstance(func, ast.Attribute) and is_scaler(script, func.value):
        return False  # `scaler.update()` goes, and would take the mark with it
    name = name_of(func)
    in_place = name.endswith("_") and not name.startswith("_") and isinstance(func, ast.Attribute)
    return in_place or "ema" in name.split("_") or "update" in name


def _behind(script: Script, anchor: ast.stmt) -> list[Edit]:
    """A mark behind `anchor`; where that returns what the step gives, between the two."""
    mark = f"{script.xla}.mark_step()"
    if not isinstance(anchor, ast.Return) or anchor.value is None:
        return [InsertAfter(anchor, mark)]
    scope = script.index.scope(anchor.value)
    name = next(n for n in ("result", "stepped", "_result") if scope.find(n) is None)
    text = f"{name} = {{0}}\n{mark}\nreturn {name}"
    return [ReplaceStatement(anchor, text, (anchor.value,))]


def _last_steps(script: Script) -> list[tuple[ast.stmt, Loop | None, Step]]:
    """The last step of each block, with the statement that holds it and the loop around it."""
    last: dict[int, tuple[ast.stmt, Loop | None, Step]] = {}
    for step in script.training.steps:
        loop = script.training.loop_of(step.call)
        for place in outermost_places(script, step.call) if loop is None else [step.call]:
            loop = script.training.loop_of(place)
            owner = loop.node if loop is not None else _block_owner(script, place)
            anchor = script.training.anchor(place, owner)
            last[id(script.block(anchor))] = (anchor, loop, step)
    return list(last.values())


@RULE.file
def in_other_loops(script: Script) -> Iterator[Finding]:
    """Loops that accumulate gradients, evaluate or sample, and that no device loader feeds."""
    evaluations = loops = unmarked_evaluations(script)
    if uses_accelerate(script):
        yield from _of_reads_that_cut(script)
    else:
        loops = script.training.loops
    for loop in loops:
        if not loop.is_statement or is_of_an_optimizer(script, loop.node):
            continue
        inference = script.training.is_inference(loop.node)
        if not (inference or script.trains or script.training.may_take_gradients):
            continue
        effects = loop.effects
        if not (inference or script.trains or GRADIENTS in effects):
            continue
        if STEP in effects or MARK in effects or loop.fed or is_part_of_a_model(script, loop):
            continue
        if any(_waits_for_the_device(script, statement) for statement in loop.body):
            continue
        if BACKWARD in effects:
            if _differentiates_its_elements(script, loop) and (
                _are_losses(script, loop) or _step_follows(script, loop)
            ):
                continue  # losses of one forward pass, which is one graph with the code around it
            cut = (
                _at_start(script, loop)
                if _step_follows(script, loop)
                else _before_read(script, loop, BACKWARD)
            )
            yield RULE.finding(
                script,
                loop.node,
                _AS_ONE,
                *cut,
            )
        elif GRADIENTS in effects:
            if not is_part_of_a_step(script, loop):
                cut = _before_read(script, loop, GRADIENTS)
                yield RULE.finding(
                    script,
                    loop.node,
                    _AS_ONE,
                    *cut,
                )
        elif loop in evaluations:
            fetches = reads_in_each_turn(script, loop)
            yield RULE.finding(
                script,
                loop.node,
                _IN_PIECES if fetches else _AS_ONE,
                *_before_read(script, loop),
                severity=WARNING if fetches else None,
            )


@RULE.file
def in_evaluations_of_engines(script: Script) -> Iterator[Finding]:
    """`Engine(evaluate)`, whose loop over the batches is in another module or in a library."""
    for function in () if uses_accelerate(script) else evaluations_of_engines(script):
        if MARK not in script.training.function_effects(function):
            yield RULE.finding(script, function, _AS_ONE, *_behind(script, function.body[-1]))


@RULE.file
def before_reads_of_actions(script: Script) -> Iterator[Finding]:
    """`agent.act(state)`, called in loops of other modules, that reads its action and keeps a state on the device."""
    if uses_accelerate(script) or not script.runs_accelerated:
        return
    for function, _ in script.index.of(ast.FunctionDef):
        if function.name == "__init__" or not any(map(_keeps, function.body)):
            continue
        effects = script.training.function_effects(function)
        if FORWARD not in effects or effects & {*TRAINING, MARK, GRADIENTS}:
            continue
        if not _keeps_what_it_computes(script, function):
            continue
        read = _first_read(script, function.body)
        if read is None:
            continue
        if script.training.is_inference(read) and script.callers.call_in_a_loop(function):
            edit = InsertBefore(read, f"{script.xla}.mark_step()")
            yield RULE.finding(script, read, _KEPT, edit, severity=WARNING)


def _keeps_what_it_computes(script: Script, function: ast.FunctionDef) -> bool:
    """Return True for `self.state = h, z` of results, which the read of another result leaves pending."""
    computed = False
    for statement in function.body:
        if computed and _keeps(statement):
            return True
        computed = computed or FORWARD in script.training.effects_of([statement])
    return False


def _keeps(statement: ast.stmt) -> bool:
    """Return True for `self.state = h, z`."""
    match statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"))], value=value):
            return not isinstance(value, ast.Constant)
    return False


def _of_reads_that_cut(script: Script) -> Iterator[Finding]:
    """Loops beside accelerate's loaders, which mark: a read that is made later cut their turns one from another."""
    for loop in script.training.loops:
        if BACKWARD not in loop.effects or loop.effects & {STEP, MARK}:
            continue
        if any(map(script.training.feeding.is_called_a_loader, loop.drivers)):
            continue
        if loop.is_statement and any(n in made_later(script) for s in loop.body for n in walk(s)):
            yield RULE.finding(script, loop.node, _AS_ONE, *_at_end(script, loop))


def _waits_for_the_device(script: Script, statement: ast.AST) -> bool:
    """`torch.cuda.synchronize()`, also behind a question for CUDA: it becomes the runtime's, which cuts the turn."""
    match statement:
        case ast.Expr(value=ast.Call(func=func)):
            return script.dotted(func) in _WAITS and not is_guarded(script, statement)
        case ast.If(test=test, body=body, orelse=[]):
            is_test = _ASKS_FOR_ONE.search(script.segment(test)) is not None
            return is_test and all(_waits_for_the_device(script, s) for s in body)
    return False


def _block_owner(script: Script, node: ast.AST) -> ast.AST:
    """The function (or module) whose body holds `node`, when no loop does."""
    for ancestor in script.ancestors(node):
        if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
            return ancestor
    return script.tree


def _before_continues(script: Script, loop: Loop, anchor: ast.stmt) -> Iterator[Edit]:
    """A `continue` before the mark after `anchor` would skip it (fact 3.34); unless nothing is computed yet."""
    end = anchor.end_lineno or anchor.lineno
    for node in outside_loops(loop.body):
        if isinstance(node, ast.Continue) and node.lineno <= end and node is not anchor:
            before = [s for s in loop.body if getattr(s, "lineno", 0) <= node.lineno]
            if script.training.effects_of(before) & {FORWARD, BACKWARD, GRADIENTS, STEP}:
                yield InsertBefore(node, f"{script.xla}.mark_step()")


def _step_follows(script: Script, loop: Loop) -> bool:
    """Return True if an optimizer step, which is marked, follows the loop: in the code around it, or in each caller's."""

    def is_followed(node: ast.AST) -> bool:
        below = (s for inner in _run_with(script, node) for s in after(script, inner))
        return any(STEP in script.training.effects_of([statement]) for statement in below)

    def called(node: ast.AST) -> list[ast.AST]:
        *_, last = _run_with(script, node)
        function = script.parent(last)
        if not isinstance(function, ast.FunctionDef) or is_followed(node):
            return []
        return [*calls_of(script, function)]

    start: list[ast.AST] = [loop.node]
    return all_ends(start, called, is_followed)


def _run_with(script: Script, node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statement of `node` and those around it that run what follows it in their block."""
    statement = script.statement(node)
    yield statement
    while isinstance(around := script.parent(statement), (ast.With, ast.If, ast.Try)):
        statement = around
        yield statement


def _differentiates_its_elements(script: Script, loop: Loop) -> bool:
    """Return True for `for loss in losses: loss.backward()`, whose iterations compute no loss."""
    if not isinstance(loop.node, ast.For) or FORWARD in loop.effects:
        return False
    elements = {n.id for n in walk(loop.node.target) if isinstance(n, ast.Name)}
    calls = [call for call, _ in script.index.calls_of("backward")]
    inside = [call for call in calls if loop.node in script.ancestors(call)]
    return bool(inside) and all(
        elements & {n.id for n in walk(call) if isinstance(n, ast.Name)} for call in inside
    )


def _are_losses(script: Script, loop: Loop) -> bool:
    """Return True if the iterations of `for loss in losses: loss.backward()` call nothing else."""
    calls = [n for part in loop.body for n in walk(part) if isinstance(n, ast.Call)]
    return all(isinstance(c.func, ast.Attribute) and c.func.attr == "backward" for c in calls)


def _at_start(script: Script, loop: Loop) -> list[Edit]:
    first = loop.body[0]
    assert isinstance(first, ast.stmt)
    return [InsertBefore(first, f"{script.xla}.mark_step()")]


def _at_end(script: Script, loop: Loop) -> list[Edit]:
    last = loop.body[-1]
    assert isinstance(last, ast.stmt)
    mark = f"{script.xla}.mark_step()"
    edits: list[Edit] = [
        InsertBefore(last, mark) if isinstance(last, _LEAVES) else InsertAfter(last, mark)
    ]
    return [*edits, *_before_continues(script, loop, last)]


def _before_read(script: Script, loop: Loop, effect: str = FORWARD) -> list[Edit]:
    """Before the first statement that reads what the model computed; without one, at the end."""
    read = _first_read(script, loop.body, effect)
    if read is not None:
        return [InsertBefore(read, f"{script.xla}.mark_step()")]
    return _at_end(script, loop)


def _first_read(script: Script, body: Iterable[ast.AST], effect: str = FORWARD) -> ast.stmt | None:
    """Return the first statement of `body` that reads after it has computed, if there is one."""
    computed = False
    for statement in body:
        assert isinstance(statement, ast.stmt)
        if computed and reads(script, statement):
            return statement
        computed = computed or effect in script.training.effects_of([statement])
    return None
