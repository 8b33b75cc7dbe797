"""The Trainer of transformers runs on XLA, but for some of its arguments.

Its default optimizer is a fused AdamW, which raises on XLA (xla-facts 7.2), and so do `tf32=True`,
`torch_compile=True` and `ddp_backend="nccl"` (7.3). float16 needs a GradScaler, which costs a run and a host read per
step: bfloat16 takes its place. TF32, the compiler and fused kernels stay where there is CUDA.

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
+        bf16=True,
+        tf32=xla.device_type() == "cuda",
+        torch_compile=xla.device_type() != "xla",
+        optim="adamw_torch",
     )
     Trainer(model, arguments, train_dataset=dataset).train()
```

Optimizers of bitsandbytes and apex give way to torch's, with states in full precision:

```diff
 from transformers import TrainingArguments

-arguments = TrainingArguments("out", optim="paged_adamw_8bit", bf16=True)
+arguments = TrainingArguments("out", optim="adamw_torch", bf16=True)
```

Arguments that come from the command line keep what is given there; the default changes:

```diff
 from transformers import HfArgumentParser, TrainingArguments

 parser = HfArgumentParser((TrainingArguments,))
+parser.set_defaults(optim="adamw_torch")
 arguments, = parser.parse_args_into_dataclasses()
```

Activation checkpointing fails in torch's own function (1.101), which transformers has imported. The runtime's takes its
place there (see XLA509):

```diff
 from transformers import TrainingArguments
+from xla_migrate import runtime as xla

 def arguments(out):
+    from transformers import modeling_utils
+    modeling_utils.checkpoint = xla.checkpoint
     return TrainingArguments(out, optim="adamw_torch", gradient_checkpointing=True)
```

Arguments that XLA runs as they are stay, and so do classes of one's own that are called the same:

```python
from transformers import TrainingArguments as HfArguments
from mylib import TrainingArguments

arguments = HfArguments("out", bf16=True, optim="adafactor", dataloader_num_workers=2)
mine = TrainingArguments("out", fp16=True)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...edits import (
    AddArgument,
    DropArgument,
    Edit,
    InsertAfter,
    InsertBefore,
    RenameArgument,
    Replace,
)
from ...findings import HIGH, MEDIUM, WARNING, Finding
from ...rule import Rule
from ...syntax import keyword
from .arguments import ARGUMENTS, asks_runtime, is_true, keyword_argument

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA801", "training-arguments")

# What stands for an optimizer whose states or kernels are CUDA's.
_OPTIMIZERS = {
    "adamw_torch_fused": "adamw_torch",
    "adamw_apex_fused": "adamw_torch",
    "adamw_bnb_8bit": "adamw_torch",
    "adamw_8bit": "adamw_torch",
    "adamw_torch_8bit": "adamw_torch",
    "adamw_torch_4bit": "adamw_torch",
    "paged_adamw_32bit": "adamw_torch",
    "paged_adamw_8bit": "adamw_torch",
    "paged_adamw": "adamw_torch",
    "rmsprop_bnb": "rmsprop",
    "rmsprop_bnb_8bit": "rmsprop",
    "rmsprop_bnb_32bit": "rmsprop",
}
_BITS = ("8bit", "4bit", "bnb", "paged", "lion_32bit", "apex", "galore", "apollo")
# Of older versions, about how float16 is done.
_HALF_OPTIONS = frozenset({"half_precision_backend", "fp16_backend", "fp16_opt_level"})


@RULE.call(*ARGUMENTS)
def arguments(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from _of_call(script, call)


@RULE.node(ast.ClassDef)
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
    yield from _left_to_a_person(script, call)


def _optimizer(script: Script, call: ast.Call) -> Iterator[Finding]:
    given = keyword(call, "optim")
    if given is None:
        if all(k.arg for k in call.keywords):
            message = "the default optimizer is a fused AdamW, which fails on XLA"
            yield RULE.at(script, call, message, AddArgument(call, 'optim="adamw_torch"'))
        return
    name = _optimizer_name(script, given)
    if name in _OPTIMIZERS:
        edit = Replace(given, f'"{_OPTIMIZERS[name]}"')
        yield RULE.at(script, given, f"`{name}` needs CUDA", edit)
    elif name is not None and any(part in name for part in _BITS):
        yield RULE.at(script, given, f"`{name}` needs CUDA: choose one of torch's", effort=MEDIUM)


def _optimizer_name(script: Script, node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    dotted = script.dotted(node) or ""
    return dotted.rpartition(".")[2].lower() if "OptimizerNames." in dotted else None


def _half(script: Script, call: ast.Call) -> Iterator[Finding]:
    message = "float16 needs a GradScaler, which reads from the device at every step: use bfloat16"
    for ours, theirs in (("fp16", "bf16"), ("fp16_full_eval", "bf16_full_eval")):
        half = keyword_argument(call, ours)
        if half is None or (isinstance(half.value, ast.Constant) and not half.value.value):
            continue
        edits = _as_bfloat16(call, half, theirs)
        if edits is None:
            continue
        yield RULE.at(script, half.value, message, *edits)
        for option in call.keywords:
            if option.arg in _HALF_OPTIONS:
                said = f"`{option.arg}` says how float16 is done"
                yield RULE.at(script, option.value, said, DropArgument(call, option))


def _as_bfloat16(call: ast.Call, half: ast.keyword, theirs: str) -> list[Edit] | None:
    """Edits that ask for bfloat16 where float16 is asked for; None where each is chosen where it fits."""
    other = keyword_argument(call, theirs)
    if other is None:
        return [RenameArgument(call, half, theirs)]
    match half.value:
        case ast.UnaryOp(op=ast.Not(), operand=asked) if ast.unparse(asked) == ast.unparse(
            other.value
        ):
            return None
    if is_true(other.value):
        return [DropArgument(call, half)]
    if isinstance(other.value, ast.Constant):
        return [DropArgument(call, other), RenameArgument(call, half, theirs)]
    both = Replace(other.value, "{0} or {1}", (other.value, half.value))
    return [both, DropArgument(call, half)]


# Arguments that need CUDA, or fail on XLA: where they may stay on.
_ONLY = {
    "tf32": ('== "cuda"', "TF32 is NVIDIA's: this fails on XLA"),
    "torch_compile": ('!= "xla"', "torch's compiler knows no XLA tensors"),
    "use_liger_kernel": ('== "cuda"', "its kernels are triton's"),
}


def _cuda_only(script: Script, call: ast.Call) -> Iterator[Finding]:
    for name, (where, message) in _ONLY.items():
        given = keyword(call, name)
        if given is None or asks_runtime(script, given):
            continue
        asked = f"{script.xla}.device_type() {where}"
        if is_true(given):
            yield RULE.at(script, given, message, Replace(given, asked))
        elif not isinstance(given, ast.Constant):
            yield RULE.at(script, given, message, Replace(given, f"{{0}} and {asked}", (given,)))
    backend = keyword_argument(call, "ddp_backend")
    if (
        backend is not None
        and isinstance(backend.value, ast.Constant)
        and backend.value.value == "nccl"
    ):
        yield RULE.at(
            script,
            backend.value,
            "there is no NCCL on XLA: the Trainer knows the backend",
            DropArgument(call, backend),
        )


def _left_to_a_person(script: Script, call: ast.Call) -> Iterator[Finding]:
    for name, advice in _BY_HAND.items():
        given = keyword(call, name)
        if given is not None and not (isinstance(given, ast.Constant) and not given.value):
            yield RULE.at(script, given, advice, effort=HIGH)
    for name in ("use_cpu", "no_cuda"):
        given = keyword(call, name)
        if given is not None and is_true(given):
            message = (
                "ignored where torch_xla is installed: set USE_TORCH_XLA=0 to train on the CPU"
            )
            yield RULE.at(script, given, message, severity=WARNING)
    for name in ("gradient_checkpointing", "activation_checkpointing"):
        given = keyword(call, name)
        if given is not None and is_true(given):
            yield from _checkpointing(script, given)


_BY_HAND = {
    "deepspeed": "XLA has no DeepSpeed engine: shard with FSDPv2 (`fsdp_config={'xla': True, 'xla_fsdp_v2': True}`)",
    "fsdp": "torch's FSDP knows no XLA devices: use `fsdp_config={'xla': True, 'xla_fsdp_v2': True}`",
    "group_by_length": "batches of every length are a graph of their own: pad to a fixed length",
}


def _checkpointing(script: Script, node: ast.expr) -> Iterator[Finding]:
    if "modeling_utils.checkpoint = " in script.source.text:
        return
    patch = (
        "from transformers import modeling_utils\n"
        f"modeling_utils.checkpoint = {script.xla}.checkpoint"
    )
    message = "torch's activation checkpointing fails on XLA"
    yield RULE.at(script, node, message, InsertBefore(script.statement(node), patch))


@RULE.call(
    "transformers.HfArgumentParser", "transformers.hf_argparser.HfArgumentParser", "trl.TrlParser"
)
def parsed(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`HfArgumentParser((ModelArguments, TrainingArguments))`: the default comes from the class."""
    kinds = call.args[0] if call.args else keyword(call, "dataclass_types")
    if kinds is None:
        return
    elements = kinds.elts if isinstance(kinds, (ast.Tuple, ast.List)) else [kinds]
    if not any(script.dotted(element, scope) in ARGUMENTS for element in elements):
        return
    statement = script.parent(call)
    message = "the default optimizer is a fused AdamW, which fails on XLA"
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            if f"{name}.set_defaults(" in script.source.text:
                return
            edit = InsertAfter(statement, f'{name}.set_defaults(optim="adamw_torch")')
            yield RULE.at(script, call, message, edit)
        case _:
            yield RULE.at(script, call, f"{message}: give `--optim adamw_torch`", severity=WARNING)
