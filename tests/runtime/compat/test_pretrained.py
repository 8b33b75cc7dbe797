"""Models of transformers, saved from the device in their own way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from xla_migrate import runtime as xla

transformers = pytest.importorskip("transformers")


@pytest.fixture
def model() -> Any:
    """Small, with tied weights."""
    config = transformers.GPT2Config(n_embd=16, n_layer=1, n_head=2, vocab_size=30)
    return transformers.GPT2LMHeadModel(config)


def test_safetensors_cannot_read_xla_tensors(
    model: Any, device: torch.device, tmp_path: Path
) -> None:
    """What this is for. Where it passes one day, XLA708 is no longer needed."""
    with pytest.raises(RuntimeError, match="storage"):
        model.to(device).save_pretrained(tmp_path)


@pytest.mark.parametrize("given", [False, True])
def test_what_is_saved_is_what_the_cpu_would_save(
    model: Any, device: torch.device, tmp_path: Path, given: bool
) -> None:
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.save_pretrained(tmp_path / "cpu")
    model.to(device)
    options = {"state_dict": model.state_dict()} if given else {}
    xla.save_pretrained(model, tmp_path / "xla", **options)
    sizes = [(tmp_path / kind / "model.safetensors").stat().st_size for kind in ("cpu", "xla")]
    assert given or sizes[0] == sizes[1], "tied weights are written once"
    saved = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "xla").state_dict()
    assert saved.keys() == before.keys()
    assert all(torch.equal(saved[name], before[name]) for name in before)
    assert model.lm_head.weight.device == device
    assert model.state_dict()["lm_head.weight"].device == device


class Pipeline:
    """Like those of diffusers: it has models, and is none."""

    def __init__(self, device: torch.device) -> None:
        self.components = {"unet": nn.Linear(2, 2).to(device), "tokenizer": "words"}

    def save_pretrained(self, folder: Path, *, variant: str) -> dict[str, torch.Tensor]:
        assert variant == "fp16"
        part = self.components["unet"]
        assert isinstance(part, nn.Module)
        return part.state_dict()


def test_the_parts_of_a_pipeline(device: torch.device, tmp_path: Path) -> None:
    state = xla.save_pretrained(Pipeline(device), tmp_path, variant="fp16")
    assert {tensor.device.type for tensor in state.values()} == {"cpu"}


def test_where_there_is_no_xla_it_is_the_models_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XLA_MIGRATE_BACKEND", "eager")
    pipeline = Pipeline(torch.device("cpu"))
    assert xla.save_pretrained(pipeline, tmp_path, variant="fp16")["weight"].shape == (2, 2)


class Saving(nn.Linear):
    """Writes as diffusers' classes do: of LoRA's tensors that it is given, or of its own."""

    @classmethod
    def save_lora_weights(cls, folder: Path, **layers: Any) -> dict[str, Any]:
        return layers

    def save_lora_adapter(self, folder: Path) -> dict[str, Any]:
        return self.state_dict()


def test_lora_is_saved_from_the_host(device: torch.device, tmp_path: Path) -> None:
    model = Saving(2, 2).to(device)
    layers = xla.save_lora(
        Saving.save_lora_weights, tmp_path, unet=model.state_dict(), text=None, settings={"r": 4}
    )
    assert layers["text"] is None
    assert layers["settings"] == {"r": 4}
    for state in (layers["unet"], xla.save_lora(model.save_lora_adapter, tmp_path)):
        assert {tensor.device.type for tensor in state.values()} == {"cpu"}
        assert torch.equal(state["weight"], model.weight.cpu())
    assert model.state_dict()["weight"].device == device
