"""torchmetrics looks at the values that it is given, which reads from the device at each update.

Metrics of classification look for classes that they do not know (`torch.unique`, which runs on the CPU), and means and
sums for NaN. Without these checks they compute the same; what is wrong is not told. So they are left out only when
asked for:

```diff
 import torchmetrics
 from torchmetrics.classification import MulticlassF1Score
+from xla_migrate import runtime as xla

 def build(device):
-    accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=10).to("cuda")
+    accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=10, validate_args=False).to(xla.xla_device())
-    return accuracy, MulticlassF1Score(10), torchmetrics.MeanMetric()
+    return accuracy, MulticlassF1Score(10, validate_args=False), torchmetrics.MeanMetric(nan_strategy="disable")
```

Metrics that are told so stay, and so do those of regression:

```python
import torch
import torchmetrics

def build():
    device = torch.device("cpu")
    return torchmetrics.Accuracy(task="binary", validate_args=False), torchmetrics.MeanSquaredError()
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.frameworks.arguments import has_a_trainer
from ...analysis.frameworks.hooks import called_in_steps
from ...analysis.syntax import keyword
from ...edits import AddArgument
from ...finding import LOW, UNSAFE, WARNING, Finding
from ...rule import Rule
from ...symptoms import LIKELY, POSSIBLE

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule(
    "XLA819",
    "torchmetrics",
    severity=WARNING,
    effort=LOW,
    about="speed",
    shows_accelerator=False,
    behind={"no fallback": LIKELY, "host reads": POSSIBLE, "launches": POSSIBLE},
)

# Those that have `validate_args` in torchmetrics 1.9.
_KINDS = (
    "AUROC Accuracy AveragePrecision CalibrationError CohenKappa ConfusionMatrix EER ExactMatch F1Score FBetaScore "
    "HammingDistance HingeLoss JaccardIndex LogAUC MatthewsCorrCoef NegativePredictiveValue Precision "
    "PrecisionAtFixedRecall PrecisionRecallCurve ROC Recall RecallAtFixedPrecision SensitivityAtSpecificity Specificity "
    "SpecificityAtSensitivity StatScores"
).split()
_TASKS = ("", "Binary", "Multiclass", "Multilabel")
_CHECKED = tuple(
    f"{home}.{task}{kind}"
    for home in ("torchmetrics", "torchmetrics.classification")
    for task in _TASKS
    for kind in _KINDS
)
_SUMS = tuple(
    f"{home}.{kind}Metric"
    for home in ("torchmetrics", "torchmetrics.aggregation")
    for kind in ("Mean", "Sum", "Max", "Min", "Cat")
)
_READS = (
    "this metric looks at the values that it is given, which reads from the device at each update"
)


@RULE.call(*_CHECKED)
def classification(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from _checks(script, call, "validate_args", "validate_args=False")


@RULE.call(*_SUMS)
def aggregation(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from _checks(script, call, "nan_strategy", 'nan_strategy="disable"')


def _checks(script: Script, call: ast.Call, name: str, without: str) -> Iterator[Finding]:
    runs = script.runs_accelerated or has_a_trainer(script) or bool(called_in_steps(script))
    if not runs or keyword(call, name) is not None or any(k.arg is None for k in call.keywords):
        return
    message = f"{_READS}: give `{without}`"
    yield RULE.finding(script, call, message, AddArgument(call, without), safety=UNSAFE)
