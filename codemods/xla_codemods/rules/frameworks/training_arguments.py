"""Some arguments of transformers' Trainer fail on XLA.

## What it reports

Arguments of `TrainingArguments`, from the script or the command line: optimizers, float16, TF32,
compilers, the backend, activation checkpointing and FSDP.

## Why it matters on XLA

The default optimizer is a fused AdamW, which raises an exception on XLA (fact 3.26). `tf32=True`,
`torch_compile=True` and `ddp_backend="nccl"` do so as well. float16 needs a GradScaler, which
costs a graph launch and a host read per step.

## What to do

Fix: safe, unsafe or none.

Pass `optim="adamw_torch"` and use bfloat16. float16, TF32, the compiler and other optimizers are
kept on CUDA.

## Example

```diff
 from transformers import Trainer, TrainingArguments
+from xla_migrate import runtime as xla

 def train(model, dataset):
     arguments = TrainingArguments(
         "out",
-        fp16=True,
-        tf32=True,
-        torch_compile=True,
-        ddp_backend="nccl",
+        fp16=xla.device_type() == "cuda",
+        tf32=xla.device_type() == "cuda",
+        torch_compile=xla.device_type() != "xla",
+        optim="adamw_torch",
+        bf16=xla.device_type() != "cuda",
     )
+    xla.patch_accelerate()
     Trainer(model, arguments, train_dataset=dataset).train()
```

In place of optimizers of bitsandbytes and apex, XLA uses PyTorch's, with states in full precision:

```diff
 from transformers import TrainingArguments
+from xla_migrate import runtime as xla

-arguments = TrainingArguments("out", optim="paged_adamw_8bit")
+arguments = TrainingArguments("out", optim="paged_adamw_8bit" if xla.device_type() == "cuda" else "adamw_torch")
```

For arguments from the command line, only the default changes:

```diff
 from transformers import HfArgumentParser, TrainingArguments

 parser = HfArgumentParser((TrainingArguments,))
+parser.set_defaults(optim="adamw_torch")
 arguments, = parser.parse_args_into_dataclasses()
```

A parser without a name gets a name:

```diff
 from transformers import HfArgumentParser, TrainingArguments

-arguments, = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
+parser = HfArgumentParser((TrainingArguments,))
+parser.set_defaults(optim="adamw_torch")
+arguments, = parser.parse_args_into_dataclasses()
```

transformers imports PyTorch's function for activation checkpointing, which fails on XLA (fact
1.101). The runtime's function replaces it:

```diff
 from transformers import TrainingArguments
+from xla_migrate import runtime as xla

 def arguments(out):
+    from transformers import modeling_utils
+    # PyTorch's activation checkpointing fails on XLA.
+    modeling_utils.checkpoint = xla.checkpoint
     return TrainingArguments(out, optim="adamw_torch", gradient_checkpointing=True)
```

A model that enables it before needs that once (XLA509):

```diff
 from transformers import TrainingArguments
+from xla_migrate import runtime as xla

 def arguments(model, out):
+    from transformers import modeling_utils
+    # PyTorch's activation checkpointing fails on XLA.
+    modeling_utils.checkpoint = xla.checkpoint
     model.gradient_checkpointing_enable()
     return TrainingArguments(out, optim="adamw_torch", gradient_checkpointing=True)
```

FSDP is kept. With `xla.patch_accelerate()` (XLA814) the Trainer divides parameters, gradients and
the optimizer's state over all devices from one process. Start it once, with `python train.py`. A
step takes `per_device_train_batch_size` samples for each device, as on CUDA. With `{"xla": True}`
in `fsdp_config`, or after torch_xla's `use_spmd()`, the number means the batch of all devices, as
in transformers on TPUs. In a file that creates no Trainer, the call is placed before the
arguments:

```diff
 from transformers import TrainingArguments
 from mylib import MyTrainer
+from xla_migrate import runtime as xla

 def main(model, data):
+    xla.patch_accelerate()
     arguments = TrainingArguments("out", optim="adamw_torch", fsdp="full_shard auto_wrap")
     MyTrainer(model, arguments, train_dataset=data).train()
```

Offloading and hybrid strategies have no counterpart:

```python
from transformers import Trainer, TrainingArguments
from xla_migrate import runtime as xla

def main(model):
    xla.patch_accelerate()
    Trainer(model, TrainingArguments("out", optim="adamw_torch", fsdp="full_shard offload"))  # XLA801
    config = {"version": 1, "reshard_after_forward": "hybrid_shard"}  # XLA812
    Trainer(model, TrainingArguments("out", optim="adamw_torch", fsdp=True, fsdp_config=config))
```

Arguments that XLA supports, and other classes of the same name, are not reported:

```python
from transformers import TrainingArguments as HfArguments
from mylib import TrainingArguments

arguments = HfArguments("out", bf16=True, optim="adafactor", dataloader_num_workers=2)
mine = TrainingArguments("out", fp16=True)
```

## See also

XLA509, XLA812, XLA813, XLA814
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.availability import asks_availability
from ...analysis.frameworks import sharding
from ...analysis.frameworks.arguments import (
    ARGUMENTS,
    PARSERS,
    asks_runtime,
    keyword_argument,
    only_on_cuda,
    parsed_classes,
)
from ...analysis.frameworks.configurations import for_trainer
from ...analysis.frameworks.passed_values import given as given_values
from ...analysis.frameworks.sharding import patched_before
from ...analysis.frameworks.transformers_checkpointing import is_enabled_before, is_patched, patch
from ...analysis.frameworks.values import (
    HALF,
    HOST,
    OPTIMIZERS,
    OTHER_OPTIMIZERS,
    needs_more_memory,
)
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import class_values, is_literal, is_off, keyword, text_of, unparsed
from ...edits import (
    AddArgument,
    DropArgument,
    Edit,
    InsertAfter,
    InsertBefore,
    Replace,
)
from ...finding import HIGH, MEDIUM, UNSAFE, WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA801", "training-arguments")


@RULE.call(*ARGUMENTS)
def arguments(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from _of_call(script, call)


@RULE.subclass(*ARGUMENTS)
def own_arguments(script: Script, node: ast.ClassDef, scope: Scope) -> Iterator[Finding]:
    """Calls of a local class that derives from transformers'."""
    if any(script.dotted(base, scope) in ARGUMENTS for base in node.bases):
        for call, inner in script.index.calls_of(node.name):
            if script.value(call.func, inner).definition is node:
                yield from _of_call(script, call)


def _of_call(script: Script, call: ast.Call) -> Iterator[Finding]:
    yield from _optimizer(script, call)
    yield from _half(script, call)
    yield from _cuda_only(script, call)
    yield from _fully_sharded(script, call)
    yield from _left_to_a_person(script, call)


def _optimizer(script: Script, call: ast.Call) -> Iterator[Finding]:
    given = keyword(call, "optim")
    if given is None:
        if all(k.arg for k in call.keywords):
            message = 'the default optimizer is a fused AdamW, which fails on XLA: use `optim="adamw_torch"`'
            yield RULE.finding(script, call, message, AddArgument(call, 'optim="adamw_torch"'))
        return
    name = _optimizer_name(script, given)
    if name in OPTIMIZERS:
        edit = only_on_cuda(script, given, f'"{OPTIMIZERS[name]}"')
        message = f"`{name}` fails without CUDA: use an optimizer of PyTorch"
        if needs_more_memory(name):
            message += ", whose state in 32 bits takes more memory"
            yield RULE.finding(script, given, message, edit, safety=UNSAFE)
        else:
            yield RULE.finding(script, given, message, edit)
    elif name is not None and any(part in name for part in OTHER_OPTIMIZERS):
        yield RULE.finding(
            script,
            given,
            f"`{name}` fails without CUDA: use an optimizer of PyTorch",
            effort=MEDIUM,
        )


def _optimizer_name(script: Script, node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant):
        return text_of(node)
    dotted = script.dotted(node) or ""
    return dotted.rpartition(".")[2].lower() if "OptimizerNames." in dotted else None


def _half(script: Script, call: ast.Call) -> Iterator[Finding]:
    for ours, theirs in (("fp16", "bf16"), ("fp16_full_eval", "bf16_full_eval")):
        half = keyword(call, ours)
        if half is None or is_off(half):
            continue
        if not asks_runtime(script, half) and (edits := _as_bfloat16(script, call, half, theirs)):
            yield RULE.finding(script, half, HALF, *edits)


def _as_bfloat16(script: Script, call: ast.Call, half: ast.expr, theirs: str) -> list[Edit]:
    """Return edits for float16 on CUDA, and bfloat16 elsewhere; none if hardware decides already."""
    other = keyword(call, theirs)
    match half:
        case ast.UnaryOp(op=ast.Not(), operand=tested) if other and unparsed(tested) == unparsed(
            other
        ):
            return []
    if other is not None and is_literal(other, True):
        return []  # transformers refuses both
    kind = f"{script.xla}.device_type()"
    on_cuda, elsewhere = f'{kind} == "cuda"', f'{kind} != "cuda"'
    kept = Replace(half, on_cuda)
    if asks_availability(script, half):
        elsewhere = f'{kind} not in ("cpu", "cuda")'
    elif not is_literal(half, True):
        is_one = isinstance(half, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
        text = script.segment(half)
        elsewhere = f"{text if is_one else f'({text})'} and {elsewhere}"
        kept = Replace(half, f"{{0}} and {on_cuda}", (half,))
    if other is None:
        return [kept, AddArgument(call, f"{theirs}={elsewhere}")]
    if isinstance(other, ast.Constant):
        return [kept, Replace(other, elsewhere)]
    elsewhere = elsewhere.replace("{", "{{").replace("}", "}}")
    return [kept, Replace(other, f"{{0}} or ({elsewhere})", (other,))]


# Arguments that need CUDA, or fail on XLA, and the conditions under which they may stay on.
_ONLY = {
    "tf32": (
        '== "cuda"',
        "TF32 exists on NVIDIA GPUs only, and the argument fails on XLA: remove it",
    ),
    "torch_compile": ('!= "xla"', "PyTorch's compiler fails on XLA tensors: remove the argument"),
    "use_liger_kernel": (
        '== "cuda"',
        "Liger's kernels need Triton and fail on XLA: remove the argument",
    ),
}


def _cuda_only(script: Script, call: ast.Call) -> Iterator[Finding]:
    for name, (where, message) in _ONLY.items():
        given = keyword(call, name)
        if given is None or asks_runtime(script, given):
            continue
        test = f"{script.xla}.device_type() {where}"
        if is_literal(given, True):
            yield RULE.finding(script, given, message, Replace(given, test))
        elif not isinstance(given, ast.Constant):
            yield RULE.finding(
                script, given, message, Replace(given, f"{{0}} and {test}", (given,))
            )
    backend = keyword_argument(call, "ddp_backend")
    if backend is not None and is_literal(backend.value, "nccl"):
        yield RULE.finding(
            script,
            backend.value,
            "the backend NCCL fails on XLA: remove the argument, because the Trainer chooses the backend",
            DropArgument(call, backend),
        )


def _fully_sharded(script: Script, call: ast.Call) -> Iterator[Finding]:
    for name in ("fsdp", "fsdp_config"):
        given = keyword(call, name)
        if given is not None and (message := sharding.fault(given)):
            yield RULE.finding(script, given, message, effort=HIGH)
    if sharding.begins_with(script, call):
        edit = patched_before(script, call, "patch_accelerate", ARGUMENTS)
        if edit is not None:
            message = (
                "the Trainer's FSDP raises an exception on XLA: call `xla.patch_accelerate()` first"
            )
            yield RULE.finding(script, sharding.asked_for(script, call)[0], message, edit)


def _left_to_a_person(script: Script, call: ast.Call) -> Iterator[Finding]:
    for name, advice in _BY_HAND.items():
        given = keyword(call, name)
        if given is not None and not is_off(given):
            if name == "deepspeed":
                values = [one.node for one in given_values(script, call, name)]
                advice = for_trainer(script, values or [given])
            yield RULE.finding(script, given, advice, effort=HIGH)
    for name in ("use_cpu", "no_cuda"):
        given = keyword(call, name)
        if given is not None and is_literal(given, True):
            yield RULE.finding(script, given, HOST, severity=WARNING)
    for name in ("gradient_checkpointing", "activation_checkpointing"):
        given = keyword(call, name)
        if given is not None and (is_literal(given, True) or _may_be_true(script, call, name)):
            yield from _checkpointing(script, given)


_BY_HAND = {
    "deepspeed": "",  # `for_trainer`
    "group_by_length": "XLA compiles once for each batch length: pad to a fixed length",
}


def _may_be_true(script: Script, call: ast.Call, name: str) -> bool:
    """`gradient_checkpointing=args.gc`, if the command line may set it."""
    return any(found.value is True for found in given_values(script, call, name))


def _checkpointing(script: Script, node: ast.expr) -> Iterator[Finding]:
    statement = script.statement(node)
    if is_patched(script) or is_enabled_before(script, statement):
        return
    message = (
        "PyTorch's activation checkpointing fails on XLA: use `xla.checkpoint` in transformers"
    )
    yield RULE.finding(script, node, message, InsertBefore(statement, patch(script)))


@RULE.call(*PARSERS)
def parsed(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`HfArgumentParser((ModelArguments, TrainingArguments))`: the default comes from the class."""
    if not any(_takes_the_default(script, kind, scope) for kind in parsed_classes(call)):
        return
    statement = script.parent(call)
    message = (
        'the default optimizer is a fused AdamW, which fails on XLA: use `optim="adamw_torch"`'
    )
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            if f"{name}.set_defaults(" in script.source.text:
                return
            edit = InsertAfter(statement, f'{name}.set_defaults(optim="adamw_torch")')
            yield RULE.finding(script, call, message, edit)
        case ast.Attribute() if _may_be_named(script, call, scope):
            lines = f'parser = {script.segment(call)}\nparser.set_defaults(optim="adamw_torch")'
            edits = InsertBefore(script.statement(call), lines), Replace(call, "parser")
            yield RULE.finding(script, call, message, *edits)
        case _:
            yield RULE.finding(
                script,
                call,
                "the default optimizer is a fused AdamW, which fails on XLA: pass `--optim adamw_torch`",
                severity=WARNING,
            )


def _may_be_named(script: Script, call: ast.Call, scope: Scope) -> bool:
    """`HfArgumentParser(A).parse_args_into_dataclasses()` with nothing else in the assignment, and no other use of `parser`."""
    statement = script.statement(call)
    found = scope.find("parser")
    value = getattr(statement, "value", None)
    while isinstance(value, ast.Subscript):  # `(...)[0]`
        value = value.value
    return (
        isinstance(statement, (ast.Assign, ast.AnnAssign))
        and isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.value is call
        and found is None
        and "\n" not in script.segment(call)
    )


def _takes_the_default(script: Script, kind: ast.expr, scope: Scope) -> bool:
    """True if `kind` is a class of arguments, or a local one that derives from it and names no optimizer."""
    if script.dotted(kind, scope) in ARGUMENTS:
        return True
    definition = script.value(kind, scope).definition
    if not isinstance(definition, ast.ClassDef):
        return False
    named = {name for name, _ in class_values(definition)}
    bases = [script.dotted(base, scope) for base in definition.bases]
    return any(base in ARGUMENTS for base in bases) and "optim" not in named
