"""XLA808: quantisation that a flag for CUDA chooses, where the same flag moves the model."""

from __future__ import annotations

import pytest

from ...helpers import findings, migrated

HEAD = """import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

FLAG = torch.cuda.is_available()
x = torch.ones(2)
if FLAG:
    x = x.cuda()
"""
CUDA = "torch.cuda.is_available()"


@pytest.mark.parametrize(
    "line",
    [
        'model = AutoModelForCausalLM.from_pretrained("a", load_in_8bit=TEST)',
        'options = {"load_in_4bit": TEST, "revision": "main"}',
        "config = BitsAndBytesConfig(load_in_4bit=True) if TEST else None",
    ],
)
def test_it_stays_for_cuda_and_the_flag_moves_tensors(line: str) -> None:
    result = migrated(f"{HEAD}{line.replace('TEST', 'FLAG')}\n")
    assert line.replace("TEST", CUDA) in result
    assert "FLAG = xla.is_available()" in result
    assert findings(result) == []


@pytest.mark.parametrize(
    "lines",
    [
        'm = AutoModelForCausalLM.from_pretrained("a", load_in_8bit=torch.cuda.is_available())',
        "config = BitsAndBytesConfig(load_in_8bit=True) if torch.cuda.is_available() else None",
        "if torch.cuda.is_available():\n    config = BitsAndBytesConfig(load_in_8bit=True)\n"
        "else:\n    config = None",
    ],
)
def test_a_test_for_cuda_that_chooses_it_stays(lines: str) -> None:
    source = f"{HEAD.partition('FLAG')[0]}{lines}\n"
    assert migrated(source) == source
    assert findings(source) == []


def test_without_a_choice_it_is_reported() -> None:
    source = f"{HEAD.partition('FLAG')[0]}config = BitsAndBytesConfig(load_in_8bit=True)\n"
    assert [code for _, code in findings(source)] == ["XLA808"]
