"""torchmetrics checks its inputs, which reads from the device at each update.

## What it reports

Metrics whose updates check their inputs: binary and multilabel metrics, curves of several
classes, means and sums.

## Why it matters on XLA

Each update reads from the device. Checks for unknown classes use `torch.unique`, which runs on
the CPU (fact 3.37). Means and sums search for NaN.

## What to do

Fix: unsafe.

Switch the checks off with `validate_args=False` or `nan_strategy="disable"`. Valid inputs give
the same results, but wrong inputs are no longer reported, so the fix is unsafe.

## Example

```diff
 import torchmetrics
 from torchmetrics.classification import MultilabelF1Score
+from xla_migrate import runtime as xla

 def build(device):
-    accuracy = torchmetrics.Accuracy(task="binary").to("cuda")
+    accuracy = torchmetrics.Accuracy(task="binary", validate_args=False).to(xla.xla_device())
-    return accuracy, MultilabelF1Score(10), torchmetrics.MeanMetric()
+    return accuracy, MultilabelF1Score(10, validate_args=False), torchmetrics.MeanMetric(nan_strategy="disable")
```

Metrics without checks, metrics of regression and counts of several classes are not reported:

```python
import torch
import torchmetrics

def build():
    device = torch.device("cpu")
    counts = torchmetrics.Accuracy(task="multiclass", num_classes=3)
    return counts, torchmetrics.Accuracy(task="binary", validate_args=False), torchmetrics.MeanSquaredError()
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.frameworks.arguments import has_a_trainer
from ...analysis.frameworks.hooks import called_in_steps
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...edits import AddArgument
from ...finding import LOW, UNSAFE, WARNING, Finding
from ...rule import Rule
from ...symptoms import LIKELY, POSSIBLE

RULE = Rule(
    "XLA819",
    "torchmetrics",
    severity=WARNING,
    effort=LOW,
    about="speed",
    shows_accelerator=False,
    behind={"no fallback": LIKELY, "host reads": POSSIBLE, "launches": POSSIBLE},
)

# By task, the kinds that were seen to read in torchmetrics 1.9: those that count, and curves of several classes.
_COUNTS = frozenset(
    "Accuracy F1Score FBetaScore HammingDistance Precision Recall Specificity StatScores".split()
)
_CURVES = frozenset("AUROC AveragePrecision PrecisionRecallCurve ROC".split())
_READING = {"binary": _COUNTS, "multilabel": _COUNTS, "multiclass": _CURVES}
_CHECKED = tuple(
    f"{home}.{task}{kind}"
    for home in ("torchmetrics", "torchmetrics.classification")
    for task in ("", *(task.capitalize() for task in _READING))
    for kind in sorted(_COUNTS | _CURVES)
)
_SUMS = tuple(
    f"{home}.{kind}Metric"
    for home in ("torchmetrics", "torchmetrics.aggregation")
    for kind in ("Mean", "Sum", "Max", "Min", "Cat")
)
_READS = "the metric checks its inputs, which reads from the device at each update"


@RULE.call(*_CHECKED)
def classification(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    name = (script.dotted(call.func, scope) or "").rpartition(".")[2]
    given = keyword(call, "task")
    chosen = given.value if isinstance(given, ast.Constant) else None
    for task, kinds in _READING.items():
        kind = name if chosen == task else name.removeprefix(task.capitalize())
        if kind in kinds and (chosen == task or kind != name):
            yield from _checks(script, call, "validate_args", "validate_args=False")


@RULE.call(*_SUMS)
def aggregation(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from _checks(script, call, "nan_strategy", 'nan_strategy="disable"')


def _checks(script: Script, call: ast.Call, name: str, without: str) -> Iterator[Finding]:
    runs = script.runs_accelerated or has_a_trainer(script) or bool(called_in_steps(script))
    if not runs or keyword(call, name) is not None or any(k.arg is None for k in call.keywords):
        return
    message = f"{_READS}: pass `{without}`"
    yield RULE.finding(script, call, message, AddArgument(call, without), safety=UNSAFE)
