"""XLA819: metrics that were seen to read at each update, and those that were not."""

from __future__ import annotations

import pytest

from ...helpers import findings

CODE = "XLA819"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ('torchmetrics.Accuracy(task="binary")', True),
        ('torchmetrics.F1Score(task="multilabel", num_labels=3)', True),
        ('torchmetrics.AUROC(task="multiclass", num_classes=3)', True),
        ("torchmetrics.classification.BinaryRecall()", True),
        ("torchmetrics.SumMetric()", True),
        ('torchmetrics.Accuracy(task="multiclass", num_classes=3)', False),
        ("torchmetrics.classification.MulticlassF1Score(3)", False),
        ("torchmetrics.Accuracy(task=task)", False),
        ("torchmetrics.classification.BinaryRecall(validate_args=False)", False),
        ('torchmetrics.MeanMetric(nan_strategy="disable")', False),
        ("torchmetrics.classification.BinaryRecall(**options)", False),
    ],
)
def test_metrics_that_read(made: str, expected: bool) -> None:
    text = f'import torch\nimport torchmetrics\n\nmetric = {made}.to("cuda")\n'
    assert (CODE in {code for _, code in findings(text)}) is expected
