"""A device from options, settings or the environment may be "cuda".

## What it reports

Values from the command line, from settings, from the environment or from another module that
become a device.

## Why it matters on XLA

Users and job files still pass "cuda", which fails on an XLA host.

## What to do

Fix: safe, or none.

Convert the value with `xla.xla_device(...)`. It accepts "cuda", "cuda:1", "gpu", a number or None
for the accelerator. It keeps "cpu" and "meta".

## Example

```diff
 import argparse
 import torch
+from xla_migrate import runtime as xla

 parser = argparse.ArgumentParser()
-parser.add_argument("--device", default="cuda")
+parser.add_argument("--device", default=xla.device_type(), type=xla.device_type)
 args = parser.parse_args()
-device = torch.device(args.device)
+device = xla.xla_device(args.device)
 x = torch.ones(2).to(device)
```

A value that never becomes a `torch.device` is converted at its use:

```diff
 import argparse
 import torch
+from xla_migrate import runtime as xla

 args = argparse.ArgumentParser().parse_args()
-model = torch.nn.Linear(2, 2).to(args.device)
+model = torch.nn.Linear(2, 2).to(xla.xla_device(args.device))
```

A value from a settings file is converted, as a string, where it gets a name:

```diff
 import torch
 import yaml
+from xla_migrate import runtime as xla

 config = yaml.safe_load(open("train.yaml"))
-device = config["device"] if torch.cuda.is_available() else "cpu"
+device = xla.device_type(config["device"]) if xla.is_available() else "cpu"
 model = torch.nn.Linear(2, 2).to(device)
```

Values from the environment:

```diff
 import os
 import torch
+from xla_migrate import runtime as xla

-DEVICE = os.environ.get("DEVICE", "cuda")
+DEVICE = xla.device_type(os.environ.get("DEVICE", xla.device_type()))
 model = torch.nn.Linear(2, 2).to(DEVICE)
```

Options from another file, which may hold a `torch.device` already:

```diff
 import torch
+from xla_migrate import runtime as xla

 class Trainer:
     def __init__(self, model, config):
-        self.device = config.device
+        self.device = xla.xla_device(config.device)
-        self.model = model.to(config.device)
+        self.model = model.to(xla.xla_device(config.device))

     def step(self, x, optimizer):
         self.model(x.to(self.device)).sum().backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
+        xla.mark_step()
```

A field that is annotated as a string keeps one, so that the settings can still be written to a file:

```diff
 import json
 from dataclasses import dataclass
 import torch
+from xla_migrate import runtime as xla

 @dataclass
 class Config:
     device: str = "cpu"
     teacher_device: str | None = None

     def __post_init__(self):
         if self.teacher_device is None:
-            self.teacher_device = self.device
+            self.teacher_device = xla.device_type(self.device)

 config = Config(**json.load(open("config.json")))
 model = torch.nn.Linear(2, 2).to(config.teacher_device)
```

Settings that a call passes as `**config` are reported without a fix if they fill a parameter for a
device:

```python
import json
import torch

class Runner:
    def __init__(self, width, device="cpu"):
        self.model = torch.nn.Linear(width, 2).to(device)

config = json.load(open("config.json"))
Runner(**config)  # XLA111
```

An object that hydra's `instantiate` or Lightning's `LightningCLI` makes gets the text of the file:

```diff
 import copy
 from hydra.utils import instantiate
+from xla_migrate import runtime as xla

 class Average:
     def __init__(self, model, device=None):
         self.model = copy.deepcopy(model)
         if device is not None:
-            self.model.to(device=device)
+            self.model.to(device=xla.xla_device(device))

 def start(cfg, model):
     return instantiate(cfg.average, model=model)
```

Values that are devices already are not reported:

```python
import torch

def like(x: torch.Tensor):
    return torch.zeros(2, device=torch.device(x.device))
```
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...analysis.devices.availability import asks_availability
from ...analysis.devices.checks.flags import is_member
from ...analysis.devices.cuda_only.flags_of_libraries import is_of_a_simulator
from ...analysis.devices.given.elsewhere import (
    is_filled,
    is_from_elsewhere,
    is_made_device,
    is_settings,
)
from ...analysis.devices.given.made_by_name import is_of_an_object_made_by_name, may_be_none
from ...analysis.devices.given.spread import devices_in_spread_settings
from ...analysis.devices.specs import (
    device_argument,
    is_device_name,
    last_name,
    leaves,
    named_like_a_device,
)
from ...analysis.inference.values import (
    ARGUMENTS,
    DEVICE,
    DTYPE,
    GIVEN,
    HOST,
    MODULE,
    NUMBER,
    SETTINGS,
    STRING,
    TENSOR,
)
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...edits import Edit, Replace
from ...finding import WARNING, Finding
from ...rule import MethodCall, Rule

RULE = Rule("XLA111", "given-device", of_what_runs=True, severity=WARNING)

_MESSAGE = "a device that is given as CUDA fails on an XLA host: convert it with `xla.xla_device`"

_SPREAD = "`**{0}` may pass a CUDA device as `{1}`, which fails on an XLA host: convert `{1}` with `{2}.xla_device`"


@RULE.call("torch.device")
def torch_device(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    given = call.args[0] if call.args else keyword(call, "type") or keyword(call, "device")
    if given is None or isinstance(given, ast.Starred) or script.device_literals.is_inside(call):
        return
    if script.device_literals.spec(given) is not None or not _is_open(script, given):
        return
    if _is_compared_with_another(script, call):
        return
    index = call.args[1] if len(call.args) > 1 else keyword(call, "index")
    edits = list(_inner(script, given))
    # torch.device(args.device, rank): the kind may be the host's
    if index is not None and not _is_current(script, index):
        text = f'{script.xla}.xla_device("{{{{}}}}:{{{{}}}}".format({{0}}, {{1}}))'
        edits.append(Replace(call, text, (given, index)))
    else:
        edits.append(Replace(call, f"{script.xla}.xla_device({{0}})", (given,)))
    yield RULE.finding(script, call, _MESSAGE, *edits)


def _is_current(script: Script, index: ast.expr) -> bool:
    """Return True for the index of the current device, which a device without an index has."""
    return isinstance(index, ast.Call) and script.dotted(index.func) in {
        "torch.cuda.current_device",
        "torch.accelerator.current_device_index",
    }


def _is_compared_with_another(script: Script, call: ast.Call) -> bool:
    """`torch.device(device) == torch.device("meta")`, `.type == "mps"`: not a test for CUDA."""
    compared: ast.AST = call
    parent = script.parent(call)
    if isinstance(parent, ast.Attribute) and parent.attr == "type":
        compared, parent = parent, script.parent(parent)
    if not isinstance(parent, ast.Compare) or len(parent.comparators) != 1:
        return False
    match parent.comparators[0] if parent.left is compared else parent.left:
        case ast.Constant(value=str(text)) if compared is not call:
            return not text.startswith("cuda")
        case ast.Call(func=func, args=[ast.Constant(value=str(text))]):
            return script.dotted(func) == "torch.device" and not text.startswith("cuda")
    return False


@RULE.method("to", "to_empty")
def moved(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    """`.to(args.device)`."""
    found = list(_handed(script, device_argument(call)))
    if found:
        kinds = script.value(call.func.value, scope).kinds
        if not kinds or kinds & {TENSOR, MODULE}:
            yield from found


@RULE.node(ast.keyword, named=("device",))
def passed(script: Script, argument: ast.keyword, scope: Scope) -> Iterator[Finding]:
    """`torch.zeros(2, device=args.device)`."""
    call = script.parent(argument)
    if isinstance(call, ast.Call):
        is_partial = bool(call.args) and script.dotted(call.func, scope) == "functools.partial"
        dotted = script.dotted(call.args[0] if is_partial else call.func, scope) or ""
        # The constructors of tensor types accept the device of their type only: `torch.FloatTensor`.
        is_of_other_rules = dotted in {"torch.device", "torch.Generator"}
        if dotted.startswith("torch.") and not (is_of_other_rules or dotted.endswith("Tensor")):
            yield from _handed(script, argument.value)


@RULE.node(ast.Call)
def passed_on(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`train(model, cfg.device)`, of a function of the file: a text stays a text."""
    yield from _spread(script, call)
    for given in (*call.args, *(argument.value for argument in call.keywords)):
        if (
            isinstance(given, (ast.Attribute, ast.Subscript))
            and named_like_a_device(given)
            and _is_text_from_outside(script, given)
            and script.value(call.func, scope).definition is not None
        ):
            edit = Replace(given, f"{script.xla}.device_type({{0}})", (given,))
            yield RULE.finding(script, given, _MESSAGE, edit)


def _spread(script: Script, call: ast.Call) -> Iterator[Finding]:
    """`Runner(**config)`, of a function of the program with a parameter `device`."""
    for argument, name in devices_in_spread_settings(script, call):
        given = script.segment(argument.value)
        yield RULE.finding(script, argument.value, _SPREAD.format(given, name, script.xla))


def _is_text_from_outside(script: Script, given: ast.expr) -> bool:
    value = script.value(given)
    return is_filled(script, given) or (
        value.has(GIVEN) and value.has(SETTINGS) and not is_made_device(script, given)
    )


def _handed(script: Script, given: ast.expr | None) -> Iterator[Finding]:
    if given is not None and is_of_an_object_made_by_name(script, given):
        edits = [] if may_be_none(script, given) else [_as_device(script, given)]
        yield RULE.finding(script, given, _MESSAGE, *edits)
    if not isinstance(given, (ast.Attribute, ast.Subscript)):
        return
    value = script.value(given)
    if is_member(script, given) or is_from_elsewhere(script, given) or is_filled(script, given):
        yield RULE.finding(script, given, _MESSAGE, _as_device(script, given))
        return
    if not value.has(GIVEN) or not script.devices.is_device(given):
        return
    if not value.has(DEVICE) and not is_made_device(script, given):
        yield RULE.finding(script, given, _MESSAGE, _as_device(script, given))


@RULE.node(ast.Assign)
def named(script: Script, assign: ast.Assign, scope: Scope) -> Iterator[Finding]:
    """`device = config["device"]`, be it on a condition."""
    parts = [
        part
        for part in leaves(assign.value)
        if isinstance(part, (ast.Attribute, ast.Subscript, ast.Call)) and _is_named(part)
    ]
    if not parts or len(assign.targets) != 1:  # before anything is evaluated
        return
    parts = [part for part in parts if not is_of_a_simulator(last_name(part) or "")]
    chosen = isinstance(assign.value, ast.IfExp) and asks_availability(script, assign.value.test)
    if not (chosen or script.devices.is_device(assign.targets[0])):
        return
    for part in parts:
        value = script.value(part, scope)
        if value.has(GIVEN) and (value.has(SETTINGS) or _is_of_environment(script, part)):
            whole = _told(script, assign, part)
            if whole is not None:
                text = "xla_device" if _falls_back_to_a_device(script, part) else "device_type"
                edit = Replace(whole, f"{script.xla}.{text}({{0}})", (whole,))
                yield RULE.finding(script, part, _MESSAGE, edit)
        elif (is_from_elsewhere(script, part) or is_filled(script, part)) and not isinstance(
            assign.value, ast.BoolOp
        ):
            is_name = chosen or _is_used_as_a_name(script, assign.targets[0])
            text = "device_type" if is_name else "xla_device"
            edit = Replace(part, f"{script.xla}.{text}({{0}})", (part,))
            yield RULE.finding(script, part, _MESSAGE, edit)


def _is_named(part: ast.expr) -> bool:
    """`config.device`, `config["device"]`, `config.get("device")`."""
    match part:
        case ast.Call(args=[ast.Constant(value=str(name)), *_]):
            return is_device_name(name)
    return named_like_a_device(part)


def _is_used_as_a_name(script: Script, target: ast.expr) -> bool:
    """`device_type = cfg.device`, `device.startswith("cuda")`, `device == "auto"`, fields that are annotated so, and
    entries of dicts, which hold settings: whoever gets it wants text.
    """
    name = ast.unparse(target)
    if name.lower().endswith("type") or isinstance(target, ast.Subscript):
        return True
    if isinstance(target, ast.Attribute) and _is_field(script, target):
        return True
    pattern = rf"(?<!for )\b{re.escape(name)}(?:\.(?:find|lower|partition|replace|split|startswith)\(| (?:==|!=|in|not in) )"
    return re.search(pattern, script.source.text) is not None


_KINDS = frozenset({"auto", "cpu", "cuda", "gpu"})


def _told(script: Script, assign: ast.Assign, part: ast.expr) -> ast.expr | None:
    """Return the part of `assign` that surely is a device's name; None if it may not be one, since the code tests it."""
    match part:
        case ast.Call(args=[_, ast.Constant(value=default)]) if not (
            isinstance(default, str) and default.partition(":")[0] in _KINDS
        ):
            return None
        case ast.Call(func=ast.Attribute(attr="get" | "getenv"), args=[_]):
            around = script.parent(part)
            if isinstance(around, ast.BoolOp):  # `os.getenv("DEVICE") or "cpu"`
                return around
            name = re.escape(ast.unparse(assign.targets[0]))
            tested = re.search(
                rf"\b{name} is (not )?None|not {name}\b|\b{name} or |if {name}:", script.source.text
            )
            return None if tested else part
    return part


def _falls_back_to_a_device(script: Script, part: ast.expr) -> bool:
    """`os.environ.get("DEVICE", torch.device("cuda"))`: who does not set it has no name, but a device."""
    match part:
        case ast.Call(args=[_, default]):
            value = script.value(default)
            return value.has(DEVICE) and not value.has(STRING)
    return False


def _is_of_environment(script: Script, part: ast.expr) -> bool:
    """`os.environ["DEVICE"]`, `os.environ.get("DEVICE", "cuda")`, `os.getenv("DEVICE")`."""
    place = part.func if isinstance(part, ast.Call) else getattr(part, "value", None)
    return script.dotted(place) in {"os.environ", "os.environ.get", "os.getenv"}


def _as_device(script: Script, given: ast.expr) -> Edit:
    return Replace(given, f"{script.xla}.xla_device({{0}})", (given,))


def _is_open(script: Script, node: ast.expr) -> bool:
    """True if `node` can be what the file does not say: not a literal, nor a device, nor the host."""
    return any(_is_unknown(script, part) for part in leaves(node))


def _is_unknown(script: Script, part: ast.expr) -> bool:
    if isinstance(part, ast.Constant) or script.devices.spec(part) is not None:
        return False
    if script.devices.is_index(part):
        return False  # XLA106's
    if is_filled(script, part):
        return True
    value = script.value(part)
    if value.has(GIVEN) or _is_parameter(script, part):
        return not (value.has(DEVICE) and not value.has(STRING))
    if isinstance(part, ast.Attribute) and part.attr == "type":
        return False  # a device's
    if isinstance(part, ast.Attribute) and _is_field(script, part):
        return True
    if isinstance(part, ast.Attribute) and part.attr == "device":
        owner = script.value(part.value)
        return owner.has(ARGUMENTS) or (
            not owner.kinds & {TENSOR, MODULE} and not value.kinds and is_settings(part.value)
        )
    if isinstance(part, ast.JoinedStr):  # f"{kind}:{n}", but not f"mps:{n}"
        return isinstance(part.values[0], ast.FormattedValue) if part.values else False
    return not value.kinds & {DEVICE, HOST, DTYPE, NUMBER, TENSOR}


def _is_field(script: Script, part: ast.Attribute) -> bool:
    """`self.device` of a class with a field `device: str`, which whoever makes one fills."""
    for ancestor in script.ancestors(part):
        if isinstance(ancestor, ast.ClassDef):
            return ast.unparse(part.value) == "self" and any(
                isinstance(field, ast.AnnAssign)
                and ast.unparse(field.target) == part.attr
                and "str" in ast.unparse(field.annotation)
                for field in ancestor.body
            )
    return False


def _is_parameter(script: Script, part: ast.expr) -> bool:
    """True if `part` may be what is passed for a parameter, which other files may choose."""
    return isinstance(part, ast.Name) and any(
        binding.how == "parameter" for binding in script.reaching(part)
    )


def _inner(script: Script, node: ast.expr) -> Iterator[Edit]:
    """Names of CUDA devices inside, which become names of the accelerator."""
    for part in _choices(script, node):
        spec = script.device_literals.spec(part)
        if spec is not None:
            yield Replace(part, *script.devices.string(spec))


def _choices(script: Script, node: ast.expr) -> Iterator[ast.expr]:
    """The branches of `node`, down to choices that are wholes."""
    if script.device_literals.spec(node) is not None:
        yield node
    elif isinstance(node, ast.IfExp):
        yield from _choices(script, node.body)
        yield from _choices(script, node.orelse)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from _choices(script, value)
