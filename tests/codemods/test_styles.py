"""Scripts in the styles of real training repositories: what is rewritten, and what is left to a person."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from xla_codemods.engine import migrate

STYLES = Path(__file__).parents[2] / "fixtures" / "styles"
# Codes of what is left, with how often.
LEFT = {
    "accumulation_sync": {"XLA503": 2},
    "compiled_flags": {"XLA504": 1},
    "contrastive_queue": {"XLA503": 1},
    "data_parallel_yaml": {"XLA504": 1, "XLA912": 2},
    "detection": {"XLA504": 1},
    "distillation": {},
    "dqn_replay": {"XLA503": 1},
    "ema_mixup": {"XLA503": 2},
    "fabric_script": {"XLA803": 1},  # the number of devices
    "hf_trainer": {"XLA504": 1},
    "lstm_tbptt": {"XLA918": 1},
    "no_cuda_flag": {},
    "noam_transformer": {},
    "prefetcher_class": {"XLA133": 1},
    "trainer_class": {},
    "unet_metrics": {"XLA131": 1, "XLA133": 3},
    "wgan_gp": {},
}


def test_every_style_is_here() -> None:
    assert sorted(path.stem for path in STYLES.glob("*.py")) == sorted(LEFT)


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left(name: str) -> None:
    result = migrate((STYLES / f"{name}.py").read_bytes())
    ast.parse(result.data)
    assert not result.refused
    assert Counter(finding.code for finding in result.left) == LEFT[name]
    assert migrate(result.data).data == result.data, "a second run changes something"
    text = result.data.decode()
    kept = ("torch.cuda.OutOfMemoryError", ".pin_memory() if torch.cuda.is_available()")
    for name in kept:
        text = text.replace(name, "")
    assert "torch.cuda" not in text
    assert ".cuda(" not in text


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("accumulation_sync", ["state = xla.load(resume, map_location=device)"]),
        ("compiled_flags", ["optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, fused=xla.supports_fused())"]),
        ("contrastive_queue", ["param_k.data.copy_(param_q.data)", "for i, (images, _) in enumerate(xla.MpDeviceLoader(loader)):"]),
        ("dqn_replay", ["self.losses.append(loss.detach())"]),
        ("fabric_script", ["optimizer.step()"]),
        ("no_cuda_flag", ["for x, y in xla.MpDeviceLoader(loader) if args.cuda else loader:"]),
        ("wgan_gp", ["for i, (imgs,) in enumerate(xla.MpDeviceLoader(dataloader)):"]),
    ],
)  # fmt: skip
def test_lines(name: str, lines: list[str]) -> None:
    after = migrate((STYLES / f"{name}.py").read_bytes()).data.decode()
    assert [line.strip() for line in after.splitlines() if line.strip() in lines] == lines


def test_an_average_of_weights_is_no_graph_of_its_own() -> None:
    after = migrate((STYLES / "ema_mixup.py").read_bytes()).data.decode()
    assert "mark_step" not in after  # the loader marks the steps
