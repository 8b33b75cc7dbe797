"""Weights in 8 or 4 bits need CUDA kernels.

## What it reports

`BitsAndBytesConfig`, `load_in_8bit=`, `load_in_4bit=` and configurations of GPTQ and AWQ.

## Why it matters on XLA

The kernels of bitsandbytes, GPTQ and AWQ run on CUDA only.

## What to do

Fix: none.

Load in bfloat16: `from_pretrained(name, torch_dtype=torch.bfloat16)`. QLoRA becomes LoRA. If the
base model does not fit the device, shard it (FSDPv2 under SPMD).

## Example

```python
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

def build(name):
    config = BitsAndBytesConfig(load_in_4bit=True)  # XLA808
    return AutoModelForCausalLM.from_pretrained(name, quantization_config=config)
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

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal
from ...finding import HIGH, Finding
from ...rule import Rule

RULE = Rule("XLA808", "quantized-loading", effort=HIGH)

_CONFIGS = (
    "BitsAndBytesConfig",
    "GPTQConfig",
    "AwqConfig",
    "EetqConfig",
    "AqlmConfig",
    "HqqConfig",
    "TorchAoConfig",
)
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
    yield RULE.finding(script, call, _MESSAGE)


@RULE.node(ast.keyword, named=("load_in_8bit", "load_in_4bit"))
def loaded(script: Script, argument: ast.keyword, scope: Scope) -> Iterator[Finding]:
    """`from_pretrained(..., load_in_8bit=True)`."""
    if is_literal(argument.value, True):
        call = script.parent(argument)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            if call.func.attr == "from_pretrained":
                yield RULE.finding(script, argument.value, _MESSAGE)
