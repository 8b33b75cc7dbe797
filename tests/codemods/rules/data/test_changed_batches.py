"""A device loader hands out copies: a loop that changes the batches of a list iterates over the list itself."""

from __future__ import annotations

import pytest

from xla_codemods.engine import Options, migrate

_HEAD = "import torch\n\n\ndef train(model, ref, optimizer, {iterated}):\n    model.cuda()\n"
_TRAIN = """\
    for batch in {iterated}:
        loss = (model(batch["x"].cuda()) - batch["ref"].cuda()).mean()
        loss.backward()
        optimizer.step()
"""


def _wrapped(first: str, iterated: str, then: str = "") -> bool:
    loop = f"    for batch in {iterated}:\n        {first}\n"
    source = _HEAD.format(iterated=iterated) + loop + then.format(iterated=iterated)
    after = migrate(source.encode(), Options()).data.decode()
    return after.split("for batch in ")[1].startswith("xla.MpDeviceLoader")


@pytest.mark.parametrize(
    "change",
    [
        'batch["ref"] = ref(batch["x"].cuda())',
        'batch.update(ref=ref(batch["x"].cuda()))',
        'batch.setdefault("ref", ref(batch["x"].cuda()))',
    ],
)
def test_entries_that_another_loop_reads_are_kept(change: str) -> None:
    assert not _wrapped(change, "batches", _TRAIN)
    assert not _wrapped(change, "batches")  # the caller may read them


def test_moved_batches_that_another_loop_reads_are_kept() -> None:
    move = 'batch["x"] = batch["x"].cuda(); ref(batch["x"])'
    assert not _wrapped(move, "batches", _TRAIN)
    assert _wrapped(move, "batches")


def test_batches_of_loaders_are_made_anew() -> None:
    assert _wrapped('batch["ref"] = ref(batch["x"].cuda())', "train_loader", _TRAIN)


def test_a_new_dictionary_may_be_changed() -> None:
    first = 'batch = {k: v.cuda() for k, v in batch.items()}; batch["ref"] = ref(batch["x"])'
    assert _wrapped(first, "batches", _TRAIN)
