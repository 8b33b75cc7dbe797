"""An argument that a library fails on may come from elsewhere: a variable, a field, an option of the command line.

Where it is written out in the call other rules rewrite it. Where it comes by a name, others may read that, too: it is
named where it stands, for a person to change.

```python
from dataclasses import dataclass, field
from transformers import AutoModelForCausalLM, TrainingArguments

@dataclass
class Arguments(TrainingArguments):
    optim: str = field(default="paged_adamw_32bit")  # XLA812

def load(name):
    device_map = "auto"  # XLA812
    return AutoModelForCausalLM.from_pretrained(name, device_map=device_map)
```

```python
import lightning
from xla_migrate import runtime as xla

xla.patch_lightning()
strategy = "deepspeed_stage_2"  # XLA812
options = {"accelerator": "gpu", "strategy": strategy}  # XLA812
trainer = lightning.Trainer(**options)
```

Settings in a file beside the script are not read here. Where they decide, a note says what they must say on XLA:

```python
import lightning
import yaml
from xla_migrate import runtime as xla

xla.patch_lightning()
settings = yaml.safe_load(open("train.yaml"))
trainer = lightning.Trainer(accelerator=settings["accelerator"], strategy=settings["strategy"])  # XLA812
```

Values that XLA takes stay, and so do names that no library of these is given.

```python
import lightning
from transformers import AutoModelForCausalLM
from xla_migrate import runtime as xla

xla.patch_lightning()
device_map = None
strategy = "auto"
optim = "paged_adamw_32bit"
model = AutoModelForCausalLM.from_pretrained("gpt2", device_map=device_map)
trainer = lightning.Trainer(strategy=strategy)
```
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from ...analysis.framework_arguments import ARGUMENTS, OPTIMIZERS, OTHER_OPTIMIZERS
from ...analysis.given_values import PassedValue, field_value, given, given_in
from ...analysis.inference.values import SETTINGS
from ...analysis.lightning_arguments import (
    fault_of_accelerator,
    fault_of_plugins,
    fault_of_strategy,
)
from ...analysis.syntax import keyword
from ...finding import ERROR, HIGH, INFO, WARNING, Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA812", "given-by-name", effort=HIGH)

Judge = Callable[["Script", PassedValue], str]

_HALF = "float16 needs a GradScaler, which reads from the device in every step: use bfloat16"
_QUANTIZED = "this quantisation needs CUDA kernels and fails on XLA: load in bfloat16"


def _optimizer(script: Script, one: PassedValue) -> str:
    name = one.value if isinstance(one.value, str) else ""
    if name in OPTIMIZERS:
        return f"`{name}` fails without CUDA: use `{OPTIMIZERS[name]}`"
    if any(part in name for part in OTHER_OPTIMIZERS):
        return f"`{name}` fails without CUDA: use an optimizer of torch"
    return ""


def _switch(message: str) -> Judge:
    return lambda script, one: message if one.value is True else ""


def _set(message: str) -> Judge:
    """What says where settings are, or holds them, and not `""`, None or False."""

    def judge(script: Script, one: PassedValue) -> str:
        is_given = bool(one.value) or isinstance(one.node, ast.Dict)
        return message if is_given else ""

    return judge


def _among(values: tuple[object, ...], message: str) -> Judge:
    return lambda script, one: message if one.value in values else ""


def _fault(find: Callable[[Script, ast.expr], str]) -> Judge:
    return lambda script, one: find(script, one.node)


_MAPS = ("auto", "balanced", "balanced_low_0", "sequential", "cuda", "cuda:0", 0)


def _device_map(script: Script, one: PassedValue) -> str:
    """`"auto"`, and `{"": 0}`."""
    values = [one.value]
    if isinstance(one.node, ast.Dict):
        values = [value.value for value in one.node.values if isinstance(value, ast.Constant)]
    if any(value in _MAPS and value is not False for value in values):
        return "`device_map` finds no XLA device: give one device, `xla.xla_device()`"
    return ""


_OF_ARGUMENTS: dict[str, Judge] = {
    "optim": _optimizer,
    "tf32": _switch("TF32 exists on NVIDIA GPUs only, and this fails on XLA: leave it out"),
    "torch_compile": _switch("torch's compiler fails on XLA tensors: leave it out"),
    "use_liger_kernel": _switch("Liger's kernels need Triton and fail on XLA: leave it out"),
}
# Which are rewritten in the call, whatever their value.
_OF_FIELDS: dict[str, Judge] = {
    **_OF_ARGUMENTS,
    "fp16": _switch(_HALF),
    "fp16_full_eval": _switch(_HALF),
    "gradient_checkpointing": _switch(
        "torch's activation checkpointing fails on XLA: put `xla.checkpoint` in `transformers.modeling_utils`"
    ),
    "fsdp": _set(
        "the Trainer's FSDP raises on XLA: shard in a loop of your own with `xla.FullyShardedDataParallel`"
    ),
    "deepspeed": _set(
        "DeepSpeed does not run on XLA: shard in a loop of your own with `xla.FullyShardedDataParallel`"
    ),
    "ddp_backend": _among(("nccl",), "the backend NCCL fails on XLA: leave it out"),
}
_OF_LOADING: dict[str, Judge] = {
    "device_map": _device_map,
    "load_in_8bit": _switch(_QUANTIZED),
    "load_in_4bit": _switch(_QUANTIZED),
    "attn_implementation": _among(
        ("flash_attention_2", "flash_attention_3"), 'its kernels are CUDA\'s: use "sdpa"'
    ),
}
_OF_LIGHTNING: dict[str, Judge] = {
    "accelerator": _fault(fault_of_accelerator),
    "strategy": _fault(fault_of_strategy),
    "plugins": _fault(fault_of_plugins),
    "precision": _among(
        (16, "16", "16-mixed", "16-true"),
        'float16 needs a GradScaler and fails on XLA: use "bf16-mixed"',
    ),
}
_LIGHTNINGS = (
    *(
        f"{home}.Trainer"
        for home in (
            "lightning",
            "lightning.pytorch",
            "pytorch_lightning",
            "lightning.pytorch.trainer",
            "pytorch_lightning.trainer",
        )
    ),
    "lightning.Fabric",
    "lightning.fabric.Fabric",
    "lightning_fabric.Fabric",
)
_LOADERS = ("transformers.", "diffusers.", "peft.", "trl.")


_READ_ELSEWHERE = "this comes from a settings file, which is not read here: on XLA it must say {}"
_LIGHTNING_SAYS = (
    "`accelerator: auto`, `strategy: auto` (or `xla_fsdp`) and `precision: bf16-true` (or 32)"
)
_TRAINER_SAYS = "`optim: adamw_torch`, and neither `fp16: true` nor `tf32: true` nor `gradient_checkpointing: true`"
_CLIS = tuple(
    f"{home}.cli.LightningCLI" for home in ("lightning", "lightning.pytorch", "pytorch_lightning")
)


@RULE.call(*_CLIS)
def of_command_line(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`LightningCLI(Model, trainer_defaults={"accelerator": "gpu"})`, and the file of settings that it reads."""
    for name, judge in _OF_LIGHTNING.items():
        for one in given_in(script, keyword(call, "trainer_defaults"), name):
            yield from _judged(script, one, judge)
    yield _read_elsewhere(script, call, _LIGHTNING_SAYS)


@RULE.node(
    ast.Call, named=("parse_yaml_file", "parse_json_file"), mentions=("parse_yaml", "parse_json")
)
def of_files(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`HfArgumentParser(TrainingArguments).parse_yaml_file("train.yaml")`."""
    if "HfArgumentParser" in script.source.text and isinstance(call.func, ast.Attribute):
        yield _read_elsewhere(script, call, _TRAINER_SAYS)


def _of_settings(
    script: Script, call: ast.Call, names: Iterable[str], says: str
) -> Iterator[Finding]:
    """`Trainer(accelerator=settings["accelerator"])`, `Trainer(**settings["trainer"])`."""
    wanted = {*names, None}
    if any(k.arg in wanted and script.value(k.value).has(SETTINGS) for k in call.keywords):
        yield _read_elsewhere(script, call, says)


def _read_elsewhere(script: Script, call: ast.Call, says: str) -> Finding:
    return RULE.finding(script, call, _READ_ELSEWHERE.format(says), severity=INFO)


@RULE.call(*ARGUMENTS)
def of_arguments(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from _of_settings(script, call, _OF_FIELDS, _TRAINER_SAYS)
    yield from _of_call(script, call, _OF_ARGUMENTS)
    yield from _of_call(script, call, _OF_FIELDS, in_dictionaries=True)


@RULE.call(*_LIGHTNINGS)
def of_lightning(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from _of_call(script, call, _OF_LIGHTNING)
    yield from _of_settings(script, call, _OF_LIGHTNING, _LIGHTNING_SAYS)


@RULE.node(ast.Call, named=("from_pretrained", "from_config", "_from_config"))
def of_loading(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if (script.dotted(call.func, scope) or "").startswith(_LOADERS):
        yield from _of_call(script, call, _OF_LOADING)


@RULE.node(ast.ClassDef, mentions=("arguments", "config"))
def of_fields(script: Script, node: ast.ClassDef, scope: Scope) -> Iterator[Finding]:
    """The fields of a class that derives from transformers' arguments."""
    if not any(script.dotted(base, scope) in ARGUMENTS for base in node.bases):
        return
    for statement in node.body:
        field = field_value(statement)
        if field is not None and field[0] in _OF_FIELDS and isinstance(field[1], ast.Constant):
            one = PassedValue(field[1], field[1].value, sure=True)
            yield from _judged(script, one, _OF_FIELDS[field[0]])


def _of_call(
    script: Script, call: ast.Call, judges: dict[str, Judge], in_dictionaries: bool = False
) -> Iterator[Finding]:
    for name, judge in judges.items():
        if in_dictionaries and any(k.arg == name for k in call.keywords):
            continue
        for one in given(script, call, name):
            yield from _judged(script, one, judge)


def _judged(script: Script, one: PassedValue, judge: Judge) -> Iterator[Finding]:
    message = judge(script, one)
    if message:
        yield RULE.finding(script, one.node, message, severity=ERROR if one.sure else WARNING)
