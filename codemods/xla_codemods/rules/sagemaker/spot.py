"""A spot instance without checkpoints starts from the beginning after an interruption.

## What it reports

`use_spot_instances=True` without `checkpoint_s3_uri`.

## Why it matters on XLA

Each start on Trainium also compiles, so a restart costs more than on GPUs.

## What to do

Fix: none.

Pass `checkpoint_s3_uri`. The job then finds its earlier files in `/opt/ml/checkpoints`, and
`xla.latest` returns the last complete checkpoint.

## Example

```python
from sagemaker.pytorch import PyTorch

PyTorch(entry_point="train.py", instance_type="ml.trn1.32xlarge", use_spot_instances=True, max_wait=7200)  # XLA823
```

```python
from sagemaker.pytorch import PyTorch

PyTorch(entry_point="train.py", instance_type="ml.trn1.32xlarge", use_spot_instances=True, max_wait=7200,
        checkpoint_s3_uri="s3://bucket/run")
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal
from ...finding import MEDIUM, WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA823", "sagemaker-spot", severity=WARNING, effort=MEDIUM)

_FLAGS = ("use_spot_instances", "enable_managed_spot_training")


@RULE.node(ast.keyword, named=_FLAGS)
def spot(script: Script, argument: ast.keyword, scope: Scope) -> Iterator[Finding]:
    on = is_literal(argument.value, True)
    text = script.source.text
    if (
        on
        and "sagemaker" in text
        and "checkpoint_s3_uri" not in text
        and "checkpoint_config" not in text
    ):
        message = "an interrupted spot instance starts from the beginning: pass a location for checkpoints (`checkpoint_s3_uri`)"
        yield RULE.finding(script, argument.value, message)
