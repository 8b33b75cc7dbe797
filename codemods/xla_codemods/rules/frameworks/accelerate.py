"""Accelerate supports XLA devices, except for float16, its CUDA plugins and its checkpoints.

## What it reports

Arguments of `Accelerator` and its plugins that fail or are ignored on XLA, and calls that save or
load with safetensors.

## Why it matters on XLA

`mixed_precision="fp16"` trains with a GradScaler, which reads from the device in each step.
`save_state`, `load_state` and `save_model` fail, because safetensors cannot read XLA tensors.
DeepSpeed's and Megatron's plugins need CUDA. `cpu=True` is ignored if torch_xla is installed.

## What to do

Fix: safe, or none.

Use bfloat16 on XLA, which needs no GradScaler. CUDA keeps float16. Use the runtime's `xla.save_state` and `xla.load_state`, which save through the host.

## Example

```diff
 from accelerate import Accelerator
+from xla_migrate import runtime as xla

+xla.patch_accelerate()
-accelerator = Accelerator(mixed_precision="fp16")
+accelerator = Accelerator(mixed_precision="fp16" if xla.device_type() == "cuda" else "bf16")
```

float16 as the default of an option:

```diff
 import argparse
 from accelerate import Accelerator
+from xla_migrate import runtime as xla

 parser = argparse.ArgumentParser()
-parser.add_argument("--mixed_precision", default="fp16")
+parser.add_argument("--mixed_precision", default="fp16" if xla.device_type() == "cuda" else "bf16")
+xla.patch_accelerate()
 accelerator = Accelerator(mixed_precision=parser.parse_args().mixed_precision)
```

Checkpoints:

```diff
 from accelerate import Accelerator
+from xla_migrate import runtime as xla

+xla.patch_accelerate()
 accelerator = Accelerator()
 model, optimizer = accelerator.prepare(model, optimizer)
-accelerator.load_state("checkpoint")
+xla.load_state(accelerator, "checkpoint")
-accelerator.save_state(output_dir="checkpoint")
+xla.save_state(accelerator, output_dir="checkpoint")
```

With a plugin for FSDP, the Accelerator divides parameters, gradients and the optimizer's state
over all devices from one process. Start it once, with `python train.py`. A step takes a batch for
each device, schedules are the same as on CUDA, and saved files are complete. XLA613 covers numbers of
processes:

```diff
 from accelerate import Accelerator, FullyShardedDataParallelPlugin
+from xla_migrate import runtime as xla

 def main(model, optimizer, loader):
+    xla.patch_accelerate()
     plugin = FullyShardedDataParallelPlugin(auto_wrap_policy="transformer_based_wrap")
     accelerator = Accelerator(fsdp_plugin=plugin)
     model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
     for batch in loader:
         accelerator.backward(model(**batch).loss)
         accelerator.clip_grad_norm_(model.parameters(), 1.0)
         optimizer.step()
         optimizer.zero_grad()
-    accelerator.save_state("checkpoint")
+    xla.save_state(accelerator, "checkpoint")

 if __name__ == "__main__":
+    xla.use_spmd(batch_per_device=True)
     main()
```

Offloading, hybrid strategies, ignored modules and separate precisions have no counterpart:

```python
from accelerate import FullyShardedDataParallelPlugin
from torch.distributed.fsdp import CPUOffload
from xla_migrate import runtime as xla

xla.patch_accelerate()
plugin = FullyShardedDataParallelPlugin(cpu_offload=CPUOffload(offload_params=True))  # XLA802
```

Plugins for CUDA, and checkpoints of scripts that use them, are reported without a fix:

```python
from accelerate import Accelerator
from accelerate.utils import MegatronLMPlugin
from xla_migrate import runtime as xla

xla.patch_accelerate()

accelerator = Accelerator(megatron_lm_plugin=MegatronLMPlugin(tp_degree=2))  # XLA802
model, optimizer = accelerator.prepare(model, optimizer)
accelerator.save_state("checkpoint")  # XLA802
```

A file of XLA tensors loads only on XLA hosts, so accelerate writes it:

```diff
 import torch
 from accelerate import Accelerator
+from xla_migrate import runtime as xla

+xla.patch_accelerate()
 accelerator = Accelerator()
 model = accelerator.prepare(model)
 if accelerator.is_main_process:
-    torch.save(accelerator.unwrap_model(model).state_dict(), "model.pt")
+    accelerator.save(accelerator.unwrap_model(model).state_dict(), "model.pt")
```

Other arguments are not reported:

```python
from accelerate import Accelerator
from xla_migrate import runtime as xla

def main(args, model, optimizer, loader):
    xla.patch_accelerate()
    accelerator = Accelerator(mixed_precision=args.mixed_precision, log_with="wandb")
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for batch in loader:
        accelerator.backward(model(**batch).loss)
        optimizer.step()
        optimizer.zero_grad()
    accelerator.save(accelerator.get_state_dict(model), "model.pt")
```

## See also

XLA810, XLA812, XLA814, XLA817
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...analysis.frameworks.accelerator import uses_accelerate
from ...analysis.frameworks.arguments import keyword_argument, makings, only_on_cuda
from ...analysis.frameworks.configurations import for_accelerator
from ...analysis.frameworks.passed_values import given
from ...analysis.frameworks.sharding import PLUGINS, accelerator_shards, faults_of_plugin
from ...analysis.inference.values import ACCELERATOR, MODULE
from ...analysis.nodes import walk
from ...analysis.projects.callees import derives
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, keyword
from ...analysis.training.ranks.guards import is_of_host, mentions_rank, rank_names
from ...edits import AddArgument, DropArgument, Edit, Replace
from ...finding import HIGH, MEDIUM, WARNING, Finding
from ...flow.closure import reach
from ...patterns import Pattern
from ...rule import MethodCall, Rule

RULE = Rule("XLA802", "accelerate")

_HALF = "float16 needs a GradScaler, which reads from the device in every step: use bfloat16"
_PLUGINS = {
    "DeepSpeedPlugin": "",  # `for_accelerator`
    "MegatronLMPlugin": "Megatron needs NCCL and fails on XLA: shard with SPMD",
    "TorchTensorParallelPlugin": "PyTorch's tensor parallelism fails on XLA devices: shard with SPMD",
}


_ACCELERATORS = ("accelerate.Accelerator", "accelerate.accelerator.Accelerator")


@RULE.call(*_ACCELERATORS)
def accelerator(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    precision = keyword(call, "mixed_precision")
    if is_literal(precision, "fp16"):
        yield RULE.finding(
            script, precision, _HALF, only_on_cuda(script, precision, '"bf16"'), severity=WARNING
        )
    elif is_literal(precision, "fp8"):
        yield RULE.finding(
            script, precision, "float8 needs NVIDIA GPUs: use bfloat16", effort=MEDIUM
        )
    yield from _half_by_name(script, call)
    half = keyword_argument(call, "fp16")
    if half is not None and is_literal(half.value, True) and precision is None:
        precision_of = f'"fp16" if {script.xla}.device_type() == "cuda" else "bf16"'
        edits = (DropArgument(call, half), AddArgument(call, f"mixed_precision={precision_of}"))
        yield RULE.finding(script, half.value, _HALF, *edits, severity=WARNING)
    cpu = keyword(call, "cpu")
    if cpu is not None and is_literal(cpu, True):
        message = "`cpu=True` is ignored if torch_xla is installed: set USE_TORCH_XLA=0 to train on the CPU"
        yield RULE.finding(script, cpu, message, severity=WARNING)


@RULE.subclass(*_ACCELERATORS)
def derived(script: Script, node: ast.ClassDef, scope: Scope) -> Iterator[Finding]:
    """`class Mine(Accelerator)`, whose objects and `super().__init__` are given the same."""
    for call in makings(script, node):
        yield from accelerator(script, call, scope)


@RULE.call("accelerate.notebook_launcher", "accelerate.launchers.notebook_launcher")
def launched(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`notebook_launcher(train, mixed_precision="fp16")`, which the Accelerators of its processes take over."""
    precision = keyword(call, "mixed_precision")
    if is_literal(precision, "fp16"):
        yield RULE.finding(
            script, precision, _HALF, only_on_cuda(script, precision, '"bf16"'), severity=WARNING
        )
    yield from _half_by_name(script, call)
    count = keyword(call, "num_processes")
    if count is None and len(call.args) > 2:
        count = call.args[2]
    if isinstance(count, ast.Constant) and isinstance(count.value, int) and count.value > 1:
        message = "accelerate starts one process on XLA outside of Colab and Kaggle, whatever `num_processes` says: start one per XLA device with `xla.launch`"
        yield RULE.finding(script, count, message, severity=WARNING, effort=MEDIUM)


def _half_by_name(script: Script, call: ast.Call) -> Iterator[Finding]:
    """`mixed_precision="fp16" if ... else "no"`, and what a variable, a dictionary or a field says."""
    for one in given(script, call, "mixed_precision"):
        if one.value != "fp16" or _is_default_of_option(script, one.node):
            continue
        # Elsewhere the text may be compared with, too.
        stands_here = any(node is one.node for node in walk(call))
        edits = [only_on_cuda(script, one.node, '"bf16"')] if stands_here else []
        yield RULE.finding(script, one.node, _HALF, *edits, severity=WARNING)


def _is_default_of_option(script: Script, node: ast.expr) -> bool:
    above = script.parents.get(node)
    call = script.parents.get(above) if isinstance(above, ast.keyword) else None
    return isinstance(call, ast.Call) and any(
        isinstance(a, ast.Constant) and a.value in _OPTIONS for a in call.args
    )


@RULE.method("add_argument")
def option(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`--mixed_precision` with float16 for a default."""
    if not uses_accelerate(script):
        return
    named = any(isinstance(a, ast.Constant) and a.value in _OPTIONS for a in call.args)
    default = keyword(call, "default")
    if named and is_literal(default, "fp16"):
        yield RULE.finding(
            script, default, _HALF, only_on_cuda(script, default, '"bf16"'), severity=WARNING
        )


_OPTIONS = frozenset({"--mixed_precision", "--mixed-precision"})


@RULE.call(
    *(f"accelerate.{name}" for name in _PLUGINS), *(f"accelerate.utils.{name}" for name in _PLUGINS)
)
def plugin(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    name = (script.dotted(call.func, scope) or "").rpartition(".")[2]
    yield RULE.finding(script, call, _PLUGINS[name] or for_accelerator(script, call), effort=HIGH)


@RULE.call(*PLUGINS)
def sharding(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    for node, message in faults_of_plugin(call):
        yield RULE.finding(script, node, message, effort=HIGH)


@RULE.method("save_state", "load_state", "save_model")
def checkpoint(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    name = call.func.attr
    if _is_of_super(script, call.func.value):
        message = f"`{name}` fails on XLA: rename the method, and call `xla.{name}(self)` in it"
        yield RULE.finding(script, call, message, effort=MEDIUM)
    if not script.value(call.func.value, scope).has(ACCELERATOR):
        return
    if script.local_method(call.func, scope) is not None:
        return  # a class that derives from Accelerator has its own
    shards = "FullyShardedDataParallelPlugin" in script.source.text
    left = any(script.index.calls_of(plugin) for plugin in _PLUGINS)
    if left or (shards and not accelerator_shards(script)):
        advice = (
            "save `get_state_dict(model)` with `accelerator.save`, and load it with `torch.load`"
        )
        yield RULE.finding(script, call, f"`{name}` fails on XLA: {advice}", effort=MEDIUM)
        return
    holes = [call.func.value, *(a.value if isinstance(a, ast.Starred) else a for a in call.args)]
    holes += (k.value for k in call.keywords)
    heads = ["", *("*" if isinstance(a, ast.Starred) else "" for a in call.args)]
    heads += (f"{k.arg}=" if k.arg else "**" for k in call.keywords)
    given = ", ".join(f"{head}{{{k}}}" for k, head in enumerate(heads))
    edit = Replace(call, f"{script.xla}.{name}({given})", tuple(holes))
    message = f"`{name}` fails on XLA: use `xla.{name}`"
    yield RULE.finding(script, call, message, edit, effort=MEDIUM)


def _is_of_super(script: Script, node: ast.expr) -> bool:
    """`super()` in a class that derives from Accelerator."""
    if not isinstance(node, ast.Call) or getattr(node.func, "id", "") != "super":
        return False
    around = (a for a in script.ancestors(node) if isinstance(a, ast.ClassDef))
    owner = next(around, None)
    return owner is not None and derives(script, owner, _ACCELERATORS.__contains__)


@RULE.call("torch.save")
def saved(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """States, and all else, of what accelerate has put on the device."""
    if not uses_accelerate(script) or not call.args:
        return
    if not _holds_states(script, call.args[0]):
        if _holds_tensors(script, call.args[0]):
            yield from _others_saved(script, call)
        return
    name = _name_of_accelerator(script, scope)
    plain = len(call.args) <= 2 and all(k.arg == "f" for k in call.keywords)
    edits = (Replace(call.func, f"{name}.save"),) if name is not None and plain else ()
    message = "a file of XLA tensors loads only if torch_xla is installed: write it with accelerate's or Fabric's `save`"
    yield RULE.finding(script, call, message, *edits, severity=WARNING)


def _others_saved(script: Script, call: ast.Call) -> Iterator[Finding]:
    """A module, parameters, averages of weights: accelerate's `save` brings state dicts to the host, and not these."""
    message = "a file of XLA tensors loads only if torch_xla is installed: use `xla.save`"
    plain = len(call.args) <= 2 and not call.keywords
    edits: list[Edit] = [Replace(call.func, f"{script.xla}.save")] if plain else []
    if plain and _is_written_by_each(script, call):
        edits.append(AddArgument(call, "master_only=False"))
    yield RULE.finding(script, call, message, *edits, severity=WARNING)


def _is_written_by_each(script: Script, call: ast.Call) -> bool:
    """`f"state_{accelerator.process_index}.pt"`, and what stands under a test within the host."""
    if any(mentions_rank(argument, rank_names(script)) for argument in call.args[1:]):
        return True
    tests = (a.test for a in script.ancestors(call) if isinstance(a, ast.If))
    return any(is_of_host(test, rank_names(script)) for test in tests)


def _holds_tensors(script: Script, saved: ast.expr) -> bool:
    """True if what is saved surely is a module, or made of parameters, and is not brought to the host."""

    def made_of(each: ast.expr) -> list[ast.expr]:
        if _ON_THE_HOST.search(ast.unparse(each)) or _own_class(script, each) is not None:
            return []
        names = (name for name in walk(each) if isinstance(name, ast.Name))
        bindings = (binding for name in names for binding in script.bindings(name))
        return [b.value for b in bindings if b.value is not None and not b.path]

    return any(_is_made_of_parameters(script, each) for each in reach([saved], made_of))


def _is_made_of_parameters(script: Script, saved: ast.expr) -> bool:
    text = ast.unparse(saved)
    if script.value(saved).has(MODULE) or _ON_THE_HOST.search(text):
        return script.value(saved).has(MODULE)
    owner = _own_class(script, saved)
    values = _attribute_values(owner, getattr(saved, "attr", "")) if owner is not None else ()
    stored = (v for v in values if _OF_STATES.search(v) and not _ON_THE_HOST.search(v))
    return bool(_OF_PARAMETERS.search(text)) or any(stored)


def _own_class(script: Script, node: ast.expr) -> ast.ClassDef | None:
    """Return the class of this file whose attribute `node` is."""
    owner = script.value(node.value).definition if isinstance(node, ast.Attribute) else None
    return owner if isinstance(owner, ast.ClassDef) else None


def _attribute_values(owner: ast.ClassDef, name: str) -> Iterator[str]:
    """What `self.<name>` is bound to in the class, as text."""
    for node in walk(owner):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == f"self.{name}":
            yield ast.unparse(node.value)


_ON_THE_HOST = Pattern(r"\.(?:cpu|numpy|tolist|item)\(")
_OF_PARAMETERS = Pattern(
    r"\.(?:weight|bias)\b|\.(?:named_)?parameters\(|\.shadow(?:_params)?\b(?!\.|\()|unwrap_model\([^()]*\)$"
)
_OF_STATES = Pattern(r"\.(?:state_dict|(?:named_)?parameters)\(")


def _holds_states(script: Script, saved: ast.expr) -> bool:
    """True if what is saved are state dicts, by the calls in it or by those that gave it its name."""
    if isinstance(saved, ast.Name):
        values = [b.value for b in script.bindings(saved) if not b.path]
    else:
        values = [saved]
    return any(
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr in _STATES
        and not _WITHOUT_TENSORS.search(ast.unparse(n.func.value))
        for value in values
        if value is not None
        for n in walk(value)
    )


_STATES = frozenset({"state_dict", "get_state_dict"})
_WITHOUT_TENSORS = Pattern(r"sched|scaler|sampler|loader", re.IGNORECASE)


def _name_of_accelerator(script: Script, scope: Scope) -> str | None:
    """The name that an Accelerator of accelerate has in `scope`."""
    for name in ("accelerator", "accelerate", "acc"):
        found = scope.find(name)
        if found is not None and all(
            isinstance(b.value, ast.Call)
            and (script.dotted(b.value.func, found[0]) or "").startswith("accelerate.")
            for b in found[1]
        ):
            return name
    return None
