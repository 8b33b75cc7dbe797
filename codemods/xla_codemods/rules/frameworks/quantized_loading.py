"""Weights in 8 or 4 bits need CUDA kernels.

## What it reports

`BitsAndBytesConfig`, `load_in_8bit=`, `load_in_4bit=` and configurations of GPTQ and AWQ.

## Why it matters on XLA

The kernels of bitsandbytes, GPTQ and AWQ run on CUDA only.

## What to do

Fix: safe, or none.

Where a flag for CUDA chooses it, it is chosen only on CUDA. Otherwise, load in bfloat16: `from_pretrained(name, torch_dtype=torch.bfloat16)`. QLoRA becomes LoRA. If the
base model does not fit the device, shard it (FSDPv2 under SPMD).

## Example

```python
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

def build(name):
    config = BitsAndBytesConfig(load_in_4bit=True)  # XLA808
    return AutoModelForCausalLM.from_pretrained(name, quantization_config=config)
```

A flag for CUDA that also moves the model:

```diff
 import torch
 from transformers import AutoModelForCausalLM
+from xla_migrate import runtime as xla

 def build(name, x):
-    use_cuda = torch.cuda.is_available()
+    use_cuda = xla.is_available()
-    model = AutoModelForCausalLM.from_pretrained(name, load_in_8bit=use_cuda)
+    model = AutoModelForCausalLM.from_pretrained(name, load_in_8bit=torch.cuda.is_available())
-    return model(x.cuda() if use_cuda else x)
+    return model(x.to(xla.xla_device()) if use_cuda else x)
```

Weights in bfloat16 are not reported:

```python
import torch
from transformers import AutoModelForCausalLM

def build(name):
    return AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.checks.flags import is_flag
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, name_of
from ...analysis.training.tensors.half_on_xla import for_cuda_only, is_true_on_xla
from ...finding import HIGH, LOW, Finding
from ...rule import Rule

RULE = Rule("XLA808", "quantized-loading", effort=HIGH, of_what_runs=True)

_OPTIONS = ("load_in_8bit", "load_in_4bit")
_CONFIGS = (
    "BitsAndBytesConfig",
    "GPTQConfig",
    "AwqConfig",
    "EetqConfig",
    "AqlmConfig",
    "HqqConfig",
    "TorchAoConfig",
)
_BY_FLAG = "the quantisation needs CUDA kernels, but the rewritten script would also use it on XLA: quantise only on CUDA"
_MESSAGE = "the quantisation needs CUDA kernels and fails on XLA: load in bfloat16"


@RULE.call(
    *(f"transformers.{name}" for name in _CONFIGS),
    "transformers.utils.quantization_config.BitsAndBytesConfig",
    "diffusers.BitsAndBytesConfig",
    "peft.prepare_model_for_kbit_training",
    "peft.prepare_model_for_int8_training",
    "accelerate.utils.load_and_quantize_model",
    "accelerate.utils.BnbQuantizationConfig",
)
def configured(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    match script.parent(call):
        case ast.IfExp(test=test, body=body) if body is call:
            by_flag = list(_by_flag(script, test))
        case _:
            by_flag = []
    yield from by_flag or [RULE.finding(script, call, _MESSAGE)]


@RULE.node(ast.keyword, named=_OPTIONS)
def loaded(script: Script, argument: ast.keyword, scope: Scope) -> Iterator[Finding]:
    """`from_pretrained(..., load_in_8bit=True)`."""
    value, call = argument.value, script.parent(argument)
    if not isinstance(call, ast.Call) or name_of(call.func) != "from_pretrained":
        return
    if is_literal(value, True):
        yield RULE.finding(script, value, _MESSAGE)
    else:
        yield from _by_flag(script, value)


@RULE.node(ast.Dict)
def in_options(script: Script, made: ast.Dict, scope: Scope) -> Iterator[Finding]:
    """`options = {"load_in_4bit": use_cuda}`."""
    for key, value in zip(made.keys, made.values):
        if isinstance(key, ast.Constant) and key.value in _OPTIONS:
            yield from _by_flag(script, value)


def _by_flag(script: Script, value: ast.expr) -> Iterator[Finding]:
    if is_flag(script, value) and is_true_on_xla(script, value):
        yield RULE.finding(script, value, _BY_FLAG, *for_cuda_only(script, value), effort=LOW)
