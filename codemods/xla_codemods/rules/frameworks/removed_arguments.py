"""transformers 5 removed arguments of `TrainingArguments`.

## What it reports

Arguments that existed in transformers 4.57.6 and not in 5.24.0, as compared by
`docs/bench/transformers_arguments.py`, and `evaluation_strategy`, which 4.46 removed.

## Why it matters on XLA

transformers 5 raises a TypeError for each of them, on each device, before the first step.
transformers 4 and 5 both run on torch_xla 2.9. The finding is a note, because the version that
will run is not known.

## What to do

Fix: none.

Remove the argument, or pin `transformers<5`.

## Example

```python
from transformers import TrainingArguments

arguments = TrainingArguments(
    "out",
    optim="adamw_torch",
    overwrite_output_dir=True,  # XLA813
    warmup_ratio=0.1,  # XLA813
    tpu_num_cores=8,  # XLA813
)
```

Arguments that both versions accept, and arguments of other classes, are not reported:

```python
from transformers import TrainingArguments
from mylib import Settings

arguments = TrainingArguments("out", optim="adamw_torch", warmup_steps=10, save_steps=5)
settings = Settings(warmup_ratio=0.1, logging_dir="logs")
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.frameworks.arguments import ARGUMENTS, keyword_argument
from ...analysis.frameworks.passed_values import entries
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...finding import INFO, LOW, Finding
from ...rule import Rule

RULE = Rule("XLA813", "removed-arguments")

# As docs/bench/transformers_arguments.py prints them, without `_n_gpu`, which is no argument, and those that XLA801
# finds for what they do on XLA (`group_by_length`, `no_cuda`).
_REMOVED = frozenset(
    """
    adafactor fp16_backend fp16_opt_level fsdp_min_num_params fsdp_transformer_layer_cls_to_wrap
    half_precision_backend include_inputs_for_metrics include_tokens_per_second jit_mode_eval logging_dir mp_parameters
    overwrite_output_dir past_index per_gpu_eval_batch_size per_gpu_train_batch_size push_to_hub_model_id
    push_to_hub_organization push_to_hub_token ray_scope save_safetensors torchdynamo tpu_metrics_debug tpu_num_cores
    use_legacy_prediction_loop use_mps_device warmup_ratio
    """.split()
) | {"evaluation_strategy"}  # gone since 4.46
# What stands for it in 5.
_INSTEAD = {
    "evaluation_strategy": "give `eval_strategy`",
    "adafactor": 'give `optim="adafactor"`',
    "warmup_ratio": "give `warmup_steps`",
    "per_gpu_train_batch_size": "give `per_device_train_batch_size`",
    "per_gpu_eval_batch_size": "give `per_device_eval_batch_size`",
}


@RULE.call(*ARGUMENTS)
def removed(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    # trl's classes may have arguments of those names by themselves.
    if (script.dotted(call.func, scope) or "").startswith("trl."):
        return
    for name in sorted(_REMOVED):
        given = keyword_argument(call, name)
        values = [given.value] if given is not None else entries(script, call, name)
        yield from (_finding(script, value, name) for value in values)


def _finding(script: Script, node: ast.expr, name: str) -> Finding:
    advice = _INSTEAD.get(name, "remove it")
    message = f"transformers 5 has no argument `{name}` and raises TypeError: {advice}"
    return RULE.finding(script, node, message, severity=INFO, effort=LOW)
