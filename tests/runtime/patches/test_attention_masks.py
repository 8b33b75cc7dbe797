"""transformers' attention masks: the same results, without a read in each forward."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from xla_migrate import runtime as xla
from xla_migrate.runtime.patches import attention_masks

transformers = pytest.importorskip("transformers", "5.0")

from transformers.utils import import_utils  # noqa: E402

SMALL: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 16,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def model(kind: str) -> Any:
    torch.manual_seed(0)
    if kind == "bert":
        return transformers.BertForSequenceClassification(transformers.BertConfig(**SMALL))
    config = transformers.LlamaConfig(**SMALL, num_key_value_heads=1, pad_token_id=0)
    return transformers.LlamaForCausalLM(config)


@pytest.fixture
def patched(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_utils, "is_jax_jitting", plain())
    attention_masks.apply()


def plain() -> Any:
    return getattr(import_utils.is_jax_jitting, "__wrapped__", import_utils.is_jax_jitting)


def batches() -> list[dict[str, torch.Tensor]]:
    words = torch.arange(1, 17).view(2, 8)
    mask = torch.ones(2, 8, dtype=torch.long)
    padded = mask.clone()
    padded[1, 5:] = 0
    left = mask.clone()
    left[0, :3] = 0
    return [{"input_ids": words, "attention_mask": each} for each in (mask, padded, mask, left)] + [
        {"input_ids": words}
    ]


def reads(kind: str, device: torch.device) -> int:
    trained = model(kind).to(device)
    batch = {name: value.to(device) for name, value in batches()[0].items()}
    trained(**batch)
    xla.mark_step()
    before = xla.metrics()["host_reads"]
    trained(**batch)
    xla.mark_step()
    after = xla.metrics()["host_reads"]
    assert before is not None
    assert after is not None
    return after - before


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_transformers_asks_the_device_for_its_masks(
    device: torch.device, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_utils, "is_jax_jitting", plain())
    assert reads(kind, device) > 0


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_without_a_read_and_with_the_same_results(device: torch.device, kind: str) -> None:
    assert reads(kind, device) == 0
    ours, torchs = model(kind).to(device), model(kind)
    for batch in batches():
        kept = batch.get("attention_mask", torch.ones(2, 8)).bool()
        found, expected = (
            m(**{n: v.to(place) for n, v in batch.items()}).logits
            for m, place in ((ours, device), (torchs, "cpu"))
        )
        if kind == "llama":  # a logit for each word
            found, expected = found.cpu()[kept], expected[kept]
        torch.testing.assert_close(found.cpu(), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.usefixtures("patched")
def test_other_tensors_are_asked_as_before() -> None:
    assert not import_utils.is_tracing(torch.ones(2))
    assert not import_utils.is_tracing(None)
