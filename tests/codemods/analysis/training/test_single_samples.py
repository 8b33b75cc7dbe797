"""A device loader goes around a loader of batches, not around single samples or texts."""

from __future__ import annotations

import pytest

from ...helpers import migrated


def _result(header: str, made: str) -> str:
    return migrated(
        f"""\
        import torch

        def train(model, data, dataset, texts, encode, train_set, optimizer):
            for {header}:
                {made}
                loss = model(x).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        """
    )


@pytest.mark.parametrize(
    ("header", "made"),
    [
        ("x, y in dataset", "x = x.cuda()"),
        ("i, x in enumerate(train_set)", "x = x.cuda()"),
        ("text in texts", "x = encode(text).cuda()"),
        ("x in data", "x = x.cuda().unsqueeze(0)"),
        ("x in data", 'x = x.to("cuda")[None]'),
        ("sample in data", 'x = sample["image"].to("cuda")[None, ...]'),
        ("x in data", "x = torch.stack([x.cuda()])"),
    ],
)
def test_single_samples(header: str, made: str) -> None:
    result = _result(header, made)
    assert "MpDeviceLoader" not in result
    assert "xla.mark_step()" in result


@pytest.mark.parametrize(
    ("header", "made"),
    [
        ("x, y in data", "x = x.cuda()"),
        ("x, y in data", "x = x.cuda().unsqueeze(1)"),
        ("batch in dataset", "x = batch.cuda()"),
    ],
)
def test_batches(header: str, made: str) -> None:
    assert "xla.MpDeviceLoader(data" in _result(header, made)
