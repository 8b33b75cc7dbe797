"""DeepSpeed's engine needs CUDA.

## What it reports

Imports of `deepspeed`, its engine, and its configuration in the program or in JSON files.

## Why it matters on XLA

DeepSpeed's kernels and communication need CUDA.

## What to do

Fix: safe, unsafe or none.

Import the engine of `xla_migrate.runtime.compat.deepspeed`. It reads the same configuration and
makes the same updates: gradient accumulation, clipping, optimizer, schedule, and float32 weights
with bfloat16 (also for float16). Parameters are complete on each device. Under SPMD
(`xla.use_spmd(batch_per_device=True)`), parameters, gradients and states are sharded from ZeRO
stage 1 on. The engine rejects other configurations when the script starts.

## Example

```diff
 import argparse

-import deepspeed
+from xla_migrate.runtime.compat import deepspeed
 import torch
+from xla_migrate import runtime as xla

 def main(model, loader):
     parser = deepspeed.add_config_arguments(argparse.ArgumentParser())
     args = parser.parse_args()
     deepspeed.init_distributed()
     engine, _, _, _ = deepspeed.initialize(args=args, model=model, model_parameters=model.parameters())
     for x in loader:
         engine.backward(engine(x).mean())
         engine.step()
+        xla.mark_step()
```

Optimizers of DeepSpeed are the subject of XLA303. The engine's losses are values on the device:

```diff
 import argparse

-import deepspeed
+from xla_migrate.runtime.compat import deepspeed
 import torch
-from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam
+from xla_migrate import runtime as xla

 def main(model, loader, args):
     if args.offload:
-        optimizer = DeepSpeedCPUAdam(model.parameters(), lr=1e-4)
+        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0)
     else:
-        optimizer = FusedAdam(model.parameters(), lr=1e-4)
+        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0)
     engine, _, _, _ = deepspeed.initialize(args=args, model=model, optimizer=optimizer)
     for x in loader:
         loss, _ = engine(x)
         engine.backward(loss)
         engine.step()
-        print(f"loss {loss}")
+        xla.later(lambda loss=loss: print(f"loss {loss}"))
+        xla.mark_step()
```

Parts of DeepSpeed that the engine does not have are reported. If a condition decides whether they
run, `--unsafe` migrates the rest. These branches then raise an error that names the missing part:

```diff
-import deepspeed
+from xla_migrate.runtime.compat import deepspeed
 import torch

 def build(model, args):
     if args.moe:
         model.mlp = deepspeed.moe.layer.MoE(84, torch.nn.Linear(84, 84))
     return deepspeed.initialize(args=args, model=model)[0]
```

Otherwise such a file has no fix. Train with the model and its
optimizer (`loss.backward()`, `xla.optimizer_step(optimizer)`) in bfloat16 under `xla.autocast()`.
If the model does not fit, use `xla.FullyShardedDataParallel` under SPMD:

```python
import deepspeed
from deepspeed.pipe import PipelineModule

def build(layers, args):
    model = PipelineModule(layers=layers, num_stages=2)  # XLA804
    engine, _, _, _ = deepspeed.initialize(args=args, model=model)  # XLA804
    return engine
```

Configuration entries that the engine does not support are reported:

```python
import deepspeed

config = {
    "train_batch_size": 32,
    "optimizer": {"type": "OneBitAdam", "params": {"lr": 1e-4}},  # XLA804
    "sparse_attention": {"mode": "fixed"},  # XLA804
    "flops_profiler": {"enabled": False},
}

def build(model):
    return deepspeed.initialize(model=model, config=config)[0]  # XLA804
```

Imports that are only used in annotations are not reported:

```python
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mylib.engine import DeepSpeedEngine

def train(engine: DeepSpeedEngine, batch):
    return engine(batch)
```

## Limits

JSON files are read if the script names them, or if they are the nearest ones. Offloading is
reported as a note, because the results are the same.

## See also

XLA303
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.cuda_names import Import
from ...analysis.frameworks.configurations import elsewhere, place, written_out
from ...analysis.frameworks.deepspeed import asked
from ...analysis.script import Script
from ...analysis.syntax import identifiers, keyword, root_of
from ...catalog import covering, lookup
from ...edits import Edit, ReplaceStatement
from ...fallback import leftovers
from ...finding import ERROR, HIGH, INFO, MEDIUM, SAFE, UNSAFE, WARNING, Finding
from ...rule import Rule, Unhandled

RULE = Rule("XLA804", "deepspeed", effort=HIGH, words=("deepspeed",))

_HOME = "xla_migrate.runtime.compat.deepspeed"
_MODULES = ("deepspeed", "deepspeed.checkpointing", "deepspeed.zero")
_MESSAGE = "DeepSpeed's engine fails without CUDA: import the engine of the runtime, which reads the same configuration (`--parallel spmd` shards)"


@RULE.fallback
def deepspeed(script: Script, unhandled: Unhandled) -> Iterator[Finding]:
    if "deepspeed" in script.source.text:
        yield from _told_of_configurations(script)
    of_deepspeed = [use for use in unhandled.uses if _is_of_deepspeed(use.dotted)]
    missing = [use for use in of_deepspeed if not _home(use.dotted)]
    edits = {statement: _edits(statement) for statement in _imports(script)}
    unknown = [statement for statement, changes in edits.items() if changes is None]
    if (
        not _makes_an_engine(script, {use.dotted for use in of_deepspeed})
        or script.is_native  # which is no module of the runtime's copy
        or not all(_is_of_a_branch(script, one) for one in [*unknown, *(u.node for u in missing)])
        or _asks_for_more(script)
    ):
        yield from leftovers(RULE, script, unhandled, HIGH)
        return
    names = ", ".join(sorted({f"`{use.dotted}`" for use in missing}))
    message = f"{_MESSAGE}. It does not have {names}" if names else _MESSAGE
    for statement, changes in edits.items():
        if changes:
            safety = UNSAFE if missing else SAFE
            yield RULE.finding(script, statement, message, *changes, safety=safety)
    for finding in leftovers(RULE, script, unhandled._replace(uses=missing), HIGH):
        yield finding._replace(outlasts=True)


def _is_of_a_branch(script: Script, node: ast.expr | Import) -> bool:
    """Return True if a condition decides whether `node` runs, or if a function imports it when it is called."""
    if _is_conditional(script, node):
        return True
    if isinstance(node, Import):
        return script.function(node) is not None
    imports = [b.node for b in script.bindings(root_of(node)) if b.how == "import"]
    return bool(imports) and all(script.function(one) is not None for one in imports)


def _is_conditional(script: Script, node: ast.AST) -> bool:
    """Return True if `node` is in a branch, except that of `if __name__ == "__main__":`."""
    return any(
        isinstance(around, (ast.If, ast.IfExp))
        and child is not around.test
        and "__name__" not in identifiers(around.test)
        for child, around in script.upward(node)
    )


def _makes_an_engine(script: Script, named: set[str]) -> bool:
    """True if the file, or another of its project, calls `initialize`: else the engine is a library's."""
    if "deepspeed.initialize" in named:
        return True
    return bool(named) and script.project.mentions("deepspeed.initialize(")


def _is_of_deepspeed(dotted: str) -> bool:
    return dotted.partition(".")[0] == "deepspeed"


def _imports(script: Script) -> Iterator[Import]:
    for statement, _ in script.index.of(ast.Import):
        if any(_is_of_deepspeed(alias.name) for alias in statement.names):
            yield statement
    for source, _ in script.index.of(ast.ImportFrom):
        if not source.level and _is_of_deepspeed(source.module or ""):
            yield source


def _edits(statement: Import) -> list[Edit] | None:
    """Return edits that import the runtime's module; None if it lacks an imported name."""
    homes: dict[str, list[str]] = {}
    kept, others = [], []
    for alias in statement.names:
        dotted = alias.name
        if isinstance(statement, ast.ImportFrom):
            dotted = f"{statement.module}.{alias.name}"
        elif not _is_of_deepspeed(dotted):
            kept.append(alias)
            continue
        found = _home(dotted)
        if found is None:
            row = covering(dotted)
            if row is None or row.rule == RULE.code:
                return None
            others.append(alias)  # which another rule sees to
            continue
        home, name = found
        if name != dotted.rpartition(".")[2]:
            return None
        homes.setdefault(home, []).append(ast.unparse(ast.alias(name, alias.asname)))
    if others:
        return None if homes or kept else []
    lines = [f"from {home} import {', '.join(names)}" for home, names in homes.items()]
    first = [f"import {', '.join(map(ast.unparse, kept))}"] if kept else []
    return [ReplaceStatement(statement, "\n".join([*first, *lines]))]


def _home(dotted: str) -> tuple[str, str] | None:
    """Where the runtime has it, and its name there; None for what it has not."""
    if dotted in _MODULES:
        own = _HOME + dotted.removeprefix("deepspeed")
    else:
        row = lookup(dotted)
        own = row.instead if row is not None else ""
    home, _, name = own.rpartition(".")
    return (home, name) if own.startswith(_HOME) else None


# Configurations.


def _asks_for_more(script: Script) -> bool:
    """True if a call, or the configuration that is trained with, has what the runtime's engine has not."""
    calls = list(_engines(script))
    if any(keyword(call, name) is not None for call in calls for name in ("mpu", "mesh_param")):
        return True
    if any(one.refused for one in written_out(script)):
        return True
    others = elsewhere(script) if calls else []
    return bool(others) and all(one.refused for one in others)


def _engines(script: Script) -> Iterator[ast.Call]:
    """Calls of `initialize`, of DeepSpeed's and of the runtime's."""
    for call, scope in script.index.of(ast.Call):
        if script.dotted(call.func, scope) in ("deepspeed.initialize", f"{_HOME}.initialize"):
            yield call


def _told_of_configurations(script: Script) -> Iterator[Finding]:
    calls = list(_engines(script))
    if not calls:
        return
    for configuration in written_out(script):
        for one in asked(configuration.table):
            assert configuration.node is not None
            node = place(configuration.node, one.keys)
            yield _told(script, node, one.message, one.is_refused)
    others = sorted(elsewhere(script), key=lambda one: not one.refused)
    may_be_another = not all(one.refused for one in others)
    for found in others:
        of_file = list(asked(found.table))
        for call in calls if of_file else ():
            first = max(of_file, key=lambda one: one.is_refused)
            names = ", ".join(f"`{'.'.join(one.keys)}`" for one in of_file)
            node = keyword(call, "config") or keyword(call, "args") or call
            message = f"{first.message} ({names} of `{found.name}`)"
            yield _told(script, node, message, first.is_refused, may_be_another)


def _told(
    script: Script, node: ast.expr, message: str, is_refused: bool, may_be_another: bool = False
) -> Finding:
    severity = INFO if not is_refused else WARNING if may_be_another else ERROR
    return RULE.finding(script, node, message, severity=severity, effort=MEDIUM)
