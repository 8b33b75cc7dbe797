"""A variable, a field or an option may hold an argument that fails on XLA.

## What it reports

Values for transformers, accelerate and Lightning that come from a variable, a field of a data
class, an option or a settings file.

## Why it matters on XLA

The library fails as if the value were written in the call. Other rules rewrite values in calls.

## What to do

Fix: safe, or none.

Change the value. It is rewritten only if nothing else reads it.

## Example

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
options = {"accelerator": "gpu", "precision": "16-mixed", "strategy": strategy}
trainer = lightning.Trainer(**options)
print(options)
```

After `xla.patch_lightning()`, Lightning accepts CUDA, DDP and 16-mixed on XLA from any source. A
value that only Lightning receives is rewritten:

```diff
 import lightning
 from xla_migrate import runtime as xla

 xla.patch_lightning()
-accelerator = "cuda"
+accelerator = "auto"
 trainer = lightning.Trainer(accelerator=accelerator)
```

If a settings file decides, a note says what it must contain on XLA. When you migrate a folder,
YAML files are read themselves (XLA959):

```python
import lightning
import yaml
from xla_migrate import runtime as xla

xla.patch_lightning()
settings = yaml.safe_load(open("train.yaml"))
trainer = lightning.Trainer(accelerator=settings["accelerator"], strategy=settings["strategy"])  # XLA812
```

Values that XLA supports, and values that no such library receives, are not reported:

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

## See also

XLA801, XLA802, XLA803
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from ...analysis.frameworks.arguments import ARGUMENTS, makings, only_on_cuda
from ...analysis.frameworks.attention import is_chosen, is_key
from ...analysis.frameworks.configurations import for_trainer
from ...analysis.frameworks.lightning import (
    DEVICES,
    GPUS,
    HALVES,
    UNPATCHED,
    fault_of_accelerator,
    fault_of_plugins,
    fault_of_strategy,
    is_patched_for,
    is_taken,
)
from ...analysis.frameworks.passed_values import (
    PassedValue,
    field_values,
    given,
    given_in,
    is_only_given,
    possible,
)
from ...analysis.frameworks.values import (
    HOST,
    LOADED_HALF,
    OF_ARGUMENTS,
    OF_FIELDS,
    OF_LOADING,
    OF_TRAINER,
    OF_TYPES,
    Fault,
)
from ...analysis.inference.values import SETTINGS
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...edits import Edit, Replace
from ...finding import ERROR, HIGH, INFO, SAFE, WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA812", "given-by-name", effort=HIGH)

Judge = Callable[["Script", PassedValue], str]


def _valued(faults: dict[str, Fault]) -> dict[str, Judge]:
    """Judges of what is written out."""
    return {name: _of_value(fault) for name, fault in faults.items()}


def _of_value(fault: Fault) -> Judge:
    return lambda script, one: fault(_plain(one))


def _plain(one: PassedValue) -> object:
    """The value; of a dictionary what is written out in it."""
    if not isinstance(one.node, ast.Dict):
        return one.value
    values = enumerate(one.node.values)
    return {k: value.value if isinstance(value, ast.Constant) else value for k, value in values}


def _fault(find: Callable[[Script, ast.expr], str]) -> Judge:
    return lambda script, one: find(script, one.node)


# Options that are read at their use, in addition.
_OF_HOST = ("use_cpu", "no_cuda")
_OF_ARGUMENTS = _valued({**OF_ARGUMENTS, **{name: OF_FIELDS[name] for name in _OF_HOST}})
_OF_FIELDS: dict[str, Judge] = {
    **_valued(OF_FIELDS),
    "deepspeed": lambda script, one: for_trainer(script, [one.node]) if _plain(one) else "",
}
_OF_LOADING = _valued(OF_LOADING)
_OF_TYPES = _valued(OF_TYPES)
_OF_LIGHTNING: dict[str, Judge] = {
    **_valued(OF_TRAINER),
    "accelerator": _fault(fault_of_accelerator),
    "strategy": _fault(fault_of_strategy),
    "plugins": _fault(fault_of_plugins),
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


_READ_ELSEWHERE = "the value comes from a settings file, which must contain {} on XLA"
_LIGHTNING_SAYS = "`strategy: auto` (or `xla_fsdp`) instead of strategies other than DDP, and no `precision: 16-true`"
_TRAINER_SAYS = "`optim: adamw_torch`, and neither `fp16: true` nor `tf32: true` nor `gradient_checkpointing: true`"
_CLIS = tuple(
    f"{home}.cli.LightningCLI" for home in ("lightning", "lightning.pytorch", "pytorch_lightning")
)


@RULE.call(*_CLIS)
def of_command_line(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`LightningCLI(Model, trainer_defaults={"accelerator": "gpu"})`, and the file of settings that it reads."""
    for name, judge in _OF_LIGHTNING.items():
        defaults = keyword(call, "trainer_defaults")
        if name == "devices" and _is_unpatched(given_in(script, defaults, "accelerator")):
            continue
        for one in given_in(script, defaults, name):
            if not is_taken(script, name, one.node):
                yield from _judged(script, one, judge)
    yield _read_elsewhere(script, call, _LIGHTNING_SAYS)


@RULE.node(ast.Call, named=("parse_yaml_file", "parse_json_file"))
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
    for name, judge in _OF_LIGHTNING.items():
        if name == "devices" and (
            not is_patched_for(call) or _is_unpatched(given(script, call, "accelerator"))
        ):
            continue
        for one in given(script, call, name):
            for finding in _judged(script, one, judge):
                if edits := _edits(script, one.node, name):
                    yield finding._replace(edits=edits, safety=SAFE)
                elif not (is_patched_for(call) and is_taken(script, name, one.node)):
                    yield finding
    yield from _of_settings(script, call, _OF_LIGHTNING, _LIGHTNING_SAYS)


def _is_unpatched(accelerators: list[PassedValue]) -> bool:
    """Return True if one of the values is an accelerator whose number of devices Lightning checks itself."""
    return any(one.value in UNPATCHED for one in accelerators)


def _edits(script: Script, node: ast.expr, name: str) -> tuple[Edit, ...]:
    """Return the value for Lightning in place of `node`, if no other code uses the value."""
    value = node.value if isinstance(node, ast.Constant) else None
    if value not in _AS_IN_THE_CALL.get(name, ()) or isinstance(value, bool):
        return ()
    if not is_only_given(script, node, name, lambda call: script.dotted(call.func) in _LIGHTNINGS):
        return ()
    if name == "precision":
        return (only_on_cuda(script, node, '"bf16-mixed"'),)
    return (Replace(node, '"auto"'),)


# What XLA803 rewrites where it stands in the call.
_AS_IN_THE_CALL: dict[str, tuple[object, ...]] = {
    "accelerator": GPUS,
    "precision": HALVES,
}


@RULE.node(ast.Call, named=("from_pretrained", "from_config", "_from_config"))
def of_loading(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if (script.dotted(call.func, scope) or "").startswith(_LOADERS):
        yield from _of_call(script, call, _OF_LOADING)
        if script.accelerated:
            yield from _of_call(script, call, _OF_TYPES)


@RULE.node(ast.Assign)
def of_attention(script: Script, node: ast.Assign, scope: Scope) -> Iterator[Finding]:
    """`config._attn_implementation = args.attn`."""
    if any(isinstance(target, ast.Attribute) and is_key(target.attr) for target in node.targets):
        for one in possible(script, node.value):
            yield from _judged(script, one, _OF_LOADING["attn_implementation"])


@RULE.subclass(*_CLIS)
def of_command_lines(script: Script, node: ast.ClassDef, scope: Scope) -> Iterator[Finding]:
    """`class CLI(LightningCLI)`."""
    for call in makings(script, node):
        yield from of_command_line(script, call, scope)


@RULE.subclass(*_LIGHTNINGS)
def of_trainers(script: Script, node: ast.ClassDef, scope: Scope) -> Iterator[Finding]:
    """`class MyTrainer(L.Trainer)`."""
    for call in makings(script, node):
        yield from of_lightning(script, call, scope)


@RULE.subclass(*ARGUMENTS)
def of_fields(script: Script, node: ast.ClassDef, scope: Scope) -> Iterator[Finding]:
    """The fields of a class that derives from transformers' arguments."""
    if not any(script.dotted(base, scope) in ARGUMENTS for base in node.bases):
        return
    for name, value in field_values(node):
        if name in _OF_FIELDS and isinstance(value, ast.Constant):
            one = PassedValue(value, value.value, sure=True)
            yield from _judged(script, one, _OF_FIELDS[name])


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
    is_attention = judge is _OF_LOADING["attn_implementation"]
    if message and not (is_attention and is_chosen(script, one.node)):  # XLA904, XLA916
        fails = one.sure and message not in (HOST, LOADED_HALF)
        severity = INFO if message == DEVICES else ERROR if fails else WARNING
        yield RULE.finding(script, one.node, message, severity=severity)
