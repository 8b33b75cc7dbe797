"""A launch script passes hyperparameters for GPUs.

## What it reports

`fp16` among the hyperparameters of an estimator.

## Why it matters on XLA

A script of transformers' Trainer with `--fp16` trains with a GradScaler, which reads from the
device in each step.

## What to do

Fix: safe.

Pass `bf16`.

## Example

```diff
 from sagemaker.huggingface import HuggingFace

-hyperparameters = {"epochs": 3, "fp16": True}
+hyperparameters = {"epochs": 3, "bf16": True}
 estimator = HuggingFace(entry_point="train.py", hyperparameters=hyperparameters)
```

```python
from sagemaker.huggingface import HuggingFace

hyperparameters = {"epochs": 3, "fp16": False}
estimator = HuggingFace(entry_point="train.py", hyperparameters=hyperparameters)
```

## See also

XLA801, XLA821
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal
from ...edits import Replace, ReplaceStatement
from ...finding import WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA824", "sagemaker-hyperparameters", severity=WARNING)


@RULE.node(ast.keyword, named=("hyperparameters",))
def hyperparameters(script: Script, argument: ast.keyword, scope: Scope) -> Iterator[Finding]:
    given: ast.expr | None = argument.value
    if "sagemaker" not in script.source.text:
        return
    if isinstance(given, ast.Name):
        given = script.only_value(given)
    if not isinstance(given, ast.Dict):
        return
    keys = {k.value for k in given.keys if isinstance(k, ast.Constant)}
    for key, value in zip(given.keys, given.values):
        is_half = is_literal(key, "fp16")
        on = isinstance(value, ast.Constant) and value.value in (True, "True", "true", 1)
        if key is not None and is_half and on and "bf16" not in keys:
            message = "float16 needs a GradScaler, which reads from the device at every step: use bfloat16"
            yield RULE.finding(script, key, message, *_edits(script, given, argument.value, scope))


def _edits(
    script: Script, given: ast.Dict, handed: ast.expr, scope: Scope
) -> tuple[Replace | ReplaceStatement, ...]:
    """Of the dict, or of the statement that holds it: on lines without anything of interest the tree was not walked."""
    node: ast.expr | ast.stmt = given
    if script.parent(given) is None:
        found = scope.find(handed.id) if isinstance(handed, ast.Name) else None
        statement = found[1][0].node if found is not None else None
        if not isinstance(statement, ast.Assign) or script.parent(statement) is None:
            return ()
        node = statement
    text = re.sub(r"""(["'])fp16\1(?=\s*:)""", r"\1bf16\1", script.segment(node), count=1)
    if isinstance(node, ast.stmt):
        return (ReplaceStatement(node, text),)
    return (Replace(node, text),)
