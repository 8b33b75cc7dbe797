"""DeepSpeed's engine, where it is data parallelism, comes with the runtime; the rest of DeepSpeed is for CUDA.

The engine of `xla_migrate.runtime.compat.deepspeed` reads the same configuration, and makes the same updates: gradient
accumulation, clipping, optimizer and schedule, weights in float32 behind bfloat16 (float16 is bfloat16, too), the
parameters whole on each device. Under SPMD (`xla.use_spmd(batch_per_device=True)`) parameters, gradients and states are
sharded from ZeRO's stage 1 on. What a configuration asks for beyond that is refused when the script starts.

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

Where the file uses more of DeepSpeed, or a configuration in it asks for more, it is left to a person: train with the model
and its optimizer (`loss.backward()`, `xla.optimizer_step(optimizer)`), in bfloat16 under `xla.autocast()`, and where shards
are needed to fit the model, with `xla.FullyShardedDataParallel` under SPMD.

```python
import deepspeed
from deepspeed.pipe import PipelineModule

def build(layers, args):
    model = PipelineModule(layers=layers, num_stages=2)  # XLA804
    engine, _, _, _ = deepspeed.initialize(args=args, model=model)  # XLA804
    return engine
```

An import that only annotates stays.

```python
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mylib.engine import DeepSpeedEngine

def train(engine: DeepSpeedEngine, batch):
    return engine(batch)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.nodes import walk
from ...analysis.syntax import keyword
from ...catalog import covering, lookup
from ...edits import Edit, ReplaceStatement
from ...fallback import leftovers
from ...finding import HIGH, Finding
from ...rule import Rule, Unhandled

if TYPE_CHECKING:
    from ...analysis.cuda_names import Import
    from ...analysis.script import Script

RULE = Rule("XLA804", "deepspeed", effort=HIGH)

_HOME = "xla_migrate.runtime.compat.deepspeed"
_MODULES = ("deepspeed", "deepspeed.zero")
# The parts of a configuration that the runtime's engine hears, or that change nothing on XLA.
TAKEN = frozenset(
    "train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps gradient_clipping optimizer scheduler "
    "fp16 bf16 bfloat16 zero_optimization steps_per_print wall_clock_breakdown dump_state memory_breakdown "
    "prescale_gradients gradient_predivide_factor communication_data_type seq_parallel_communication_data_type "
    "zero_allow_untested_optimizer zero_force_ds_cpu_optimizer activation_checkpointing aio data_types checkpoint "
    "comms_logger disable_allgather fp32_allreduce graph_harvesting timers dataloader_drop_last "
    "load_universal_checkpoint".split()
)
_MESSAGE = "DeepSpeed's engine fails without CUDA: import the runtime's, which reads the same configuration (`--parallel spmd` shards)"


@RULE.fallback
def deepspeed(script: Script, unhandled: Unhandled) -> Iterator[Finding]:
    named = {use.dotted for use in unhandled.uses if _is_of_deepspeed(use.dotted)}
    statements = list(_imports(script))
    edits = [_edits(statement) for statement in statements]
    if (
        not _makes_an_engine(script, named)
        or script.is_native  # which is no module of the runtime's copy
        or not all(map(_home, named))
        or None in edits
        or _asks_for_more(script)
    ):
        yield from leftovers(RULE, script, unhandled, HIGH)
        return
    for statement, changes in zip(statements, edits):
        if changes:
            yield RULE.finding(script, statement, _MESSAGE, *changes)


def _makes_an_engine(script: Script, named: set[str]) -> bool:
    """True if the file, or another of its project, calls `initialize`: else the engine is a library's."""
    if "deepspeed.initialize" in named:
        return True
    return (
        bool(named)
        and script.project is not None
        and script.project.mentions("deepspeed.initialize(")
    )


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
    """Edits that import the runtime's module; None where it has not what is imported."""
    homes: dict[str, list[str]] = {}
    kept = []
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
            if row is None or row.rule == RULE.code or len(statement.names) > 1:
                return None
            return []  # which another rule sees to
        home, name = found
        if name != dotted.rpartition(".")[2]:
            return None
        homes.setdefault(home, []).append(ast.unparse(ast.alias(name, alias.asname)))
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


# A configuration.


def _asks_for_more(script: Script) -> bool:
    """True if the file has a configuration, or a call, with what the runtime's engine has not."""
    for call, scope in script.index.of(ast.Call):
        if script.dotted(call.func, scope) == "deepspeed.initialize":
            if any(keyword(call, name) is not None for name in ("mpu", "mesh_param")):
                return True
    # All of the tree: in a file that does not train no line of a configuration is hot.
    dictionaries = (node for node in walk(script.tree) if isinstance(node, ast.Dict))
    return any(not _is_taken(node) for node in dictionaries if _is_configuration(node))


def _is_configuration(node: ast.Dict) -> bool:
    return bool(_MARKS & _entries(node).keys())


def _is_taken(node: ast.Dict) -> bool:
    for name, value in _entries(node).items():
        if name in _KINDS and isinstance(value, ast.Dict):
            kind = _entries(value).get("type")
            if isinstance(kind, ast.Constant) and str(kind.value).lower() not in _KINDS[name]:
                return False
        if name not in TAKEN and not _is_off(value):
            return False
    return True


def _is_off(value: ast.expr) -> bool:
    if isinstance(value, ast.Dict):
        enabled = _entries(value).get("enabled")
        return enabled is not None and _is_off(enabled)
    return isinstance(value, ast.Constant) and not value.value


def _entries(node: ast.Dict) -> dict[str, ast.expr]:
    return {
        key.value: value
        for key, value in zip(node.keys, node.values)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


_MARKS = {"train_batch_size", "train_micro_batch_size_per_gpu", "zero_optimization"}
# Of optimizers and schedules, the kinds that the runtime's engine makes, in small letters.
_KINDS = {
    "optimizer": frozenset(
        "adam adamw sgd adagrad adadelta adamax asgd nadam radam rmsprop rprop".split()
    ),
    "scheduler": frozenset({"warmuplr", "warmupdecaylr", "warmupcosinelr"}),
}
