"""XLA904: an attention that a flag for CUDA chooses, where the same flag moves the model."""

from __future__ import annotations

import pytest

from ...helpers import findings, migrated

HEAD = """import torch
from transformers import AutoModelForCausalLM

FLAG = QUESTION
"""
TAIL = """model = AutoModelForCausalLM.from_pretrained("gpt2", attn_implementation=attn)
if FLAG:
    model = model.cuda()
"""
QUESTION = "torch.cuda.is_available()"


@pytest.mark.parametrize(
    ("question", "kept"),
    [(QUESTION, QUESTION), (f"{QUESTION} and not cpu", f"FLAG and {QUESTION}")],
)
@pytest.mark.parametrize(
    "choice",
    [
        'attn = "flash_attention_2" if TEST else "eager"\n',
        'attn = "sdpa" if not TEST else "flash_attention_3"\n',
        "attn = name if TEST else 'sdpa'\n",
        'if TEST:\n    attn = "flash_attention_2"\nelse:\n    attn = "sdpa"\n',
        'attn = "sdpa"\nif TEST:\n    attn = "flash_attention_2"\n',
    ],
)
def test_it_stays_for_cuda_and_the_flag_moves_the_model(
    choice: str, question: str, kept: str
) -> None:
    source = HEAD.replace("QUESTION", question) + choice.replace("TEST", "FLAG") + TAIL
    result = migrated(source)
    kept = f"({kept})" if "not TEST" in choice and " and " in kept else kept
    assert choice.replace("TEST", kept).replace("'", '"') in result.replace("'", '"')
    assert "FLAG = xla.is_available()" in result
    assert findings(result) == []


def test_an_attention_that_runs_everywhere_follows_the_flag() -> None:
    source = HEAD.replace("QUESTION", QUESTION) + 'attn = "sdpa" if FLAG else "eager"\n' + TAIL
    assert 'attn = "sdpa" if FLAG else "eager"' in migrated(source)
