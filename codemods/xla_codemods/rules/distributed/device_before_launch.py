"""The XLA device is used before the processes of the training start.

## What it reports

Device use in the process that calls `xla.launch` (or `mp.spawn`) later: at the top level of the
module, or earlier in the function and its callers.

## Why it matters on XLA

A TPU chip or a NeuronCore belongs to one process. `xla.launch` fails with "Runtime is already
initialized" if the process that calls it has used the device (fact 1.9). Statements at the top
level run again in each new process, before that process knows which device is its own. A rehearsal
on XLA:CPU raises the same error.

## What to do

Fix: none.

Move the line into the function that `xla.launch` starts. `xla.is_available()`,
`xla.device_count()`, `xla.device_type()` and `xla.manual_seed()` do not use the device. If only the
device object is needed, use `torch.device(xla.device_type())`.

## Example

```python
import torch
from xla_migrate import runtime as xla

def train(rank, model):
    model.to(xla.xla_device())

def main():
    print("training on", xla.device_name())  # XLA618
    xla.manual_seed(0)
    if not xla.is_available():
        raise SystemExit("no accelerator")
    xla.launch(train, args=(torch.nn.Linear(2, 2),))

if __name__ == "__main__":
    main()
```

At the top level of the module:

```python
import torch
from xla_migrate import runtime as xla

device = xla.xla_device()  # XLA618

def train(rank):
    torch.ones(2, device=device)

if __name__ == "__main__":
    xla.launch(train)
```

Another way through the program, and a device that is used afterwards, are not reported:

```python
import torch
from xla_migrate import runtime as xla

def train(rank):
    torch.ones(2).to(xla.xla_device())

def main(args):
    if args.single:
        print(xla.device_name())
        return train(0)
    if args.several:
        xla.launch(train)
    else:
        train(0)
    print(xla.device_name())
```

## See also

XLA604, XLA615
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.availability import asks_availability
from ...analysis.devices.workers import Workers
from ...analysis.nodes import FUNCTIONS, LOOPS
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...finding import HIGH, Finding
from ...flow.calls import callers
from ...flow.closure import reach
from ...rule import Rule

RULE = Rule("XLA618", "device-before-launch", effort=HIGH)

_MESSAGE = "`{launch}` in line {line} cannot start processes on XLA after the device is used here: move the use into the function that the processes run"

_DEFINITIONS = (*FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom)


@RULE.call(
    "torch.multiprocessing.spawn",
    "torch.multiprocessing.spawn.spawn",
    "torch.multiprocessing.start_processes",
    "torch.multiprocessing.spawn.start_processes",
    "xla_migrate.runtime.launch",
)
def launched(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if not script.accelerated:
        return
    seen = script.cached(_reported)
    use = script.cached(Workers).first_use(list(_before(script, call)), {})
    if use is not None and use not in seen:
        seen.add(use)
        launch = ast.unparse(call.func)
        yield RULE.finding(script, use, _MESSAGE.format(launch=launch, line=call.lineno))


def _reported(script: Script) -> set[ast.Call]:
    """Return the uses that are reported: several launches may follow one use."""
    return set()


def _before(script: Script, launch: ast.Call) -> Iterator[ast.stmt]:
    """Yield statements that always run before `launch`, in the order of the file."""

    def outside(call: ast.Call) -> list[ast.Call]:
        function = script.function(call)
        return [] if function is None else callers(script, function)

    found = [s for call in reach([launch], outside) for s in _preceding(script, call)]
    found += [s for s in script.tree.body if not isinstance(s, (*_DEFINITIONS, ast.If))]
    for statement in sorted(set(found), key=lambda s: s.lineno):
        if statement.lineno < launch.lineno or script.function(statement) is None:
            yield from _unconditional(script, statement)


def _preceding(script: Script, node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements before `node` in the blocks around it, up to its function."""
    inner: ast.AST = node
    for outer in script.ancestors(node):
        for block in ("body", "orelse", "finalbody"):
            statements = getattr(outer, block, None)
            if isinstance(statements, list) and inner in statements:
                yield from statements[: statements.index(inner)]
        if isinstance(outer, FUNCTIONS):
            return
        inner = outer


def _unconditional(script: Script, statement: ast.stmt) -> Iterator[ast.stmt]:
    """Yield `statement`, or the parts of it that run on every host with an accelerator."""
    if isinstance(statement, ast.If):
        yield ast.Expr(statement.test)
        if asks_availability(script, statement.test):
            for part in statement.body:
                yield from _unconditional(script, part)
    elif not isinstance(statement, (*_DEFINITIONS, *LOOPS)):
        yield statement
