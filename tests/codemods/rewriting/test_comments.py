"""Comments go with what they speak of, and with nothing else."""

from __future__ import annotations

import pytest

from ..helpers import migrated

SCALED = """\
import torch
{above}
scaler = torch.amp.GradScaler("cuda")
{below}
for x in loader:
    loss = model(x.cuda()).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


def _kept(statement: str, comment: str, below: str = "\nx = torch.ones(1)\n") -> bool:
    source = f"import torch\n\n{comment}\n{statement}\n{below}y = torch.ones(1).cuda()\n"
    after = migrated(source)
    assert statement not in after
    assert below.strip() in after
    return comment in after


@pytest.mark.parametrize(
    ("statement", "comment"),
    [
        ("torch.cuda.empty_cache()", "# Clear the CUDA cache"),
        ("torch.cuda.empty_cache()", "# free memory before evaluation"),
        ("torch.cuda.empty_cache()", "#release GPU memory"),
        ("torch.cuda.empty_cache()", "# avoid OOM"),
        ("torch.cuda.ipc_collect()", "# empty the cache,\n# and collect memory of dead processes"),
        ("s = torch.cuda.Stream()", "# a side stream for the copies"),
        ("from apex import amp", "# apex for mixed precision"),
    ],
)
def test_a_comment_of_what_is_removed_goes(statement: str, comment: str) -> None:
    assert not _kept(statement, comment, "\n# next\nx = torch.ones(1)\n") or "\n" in comment


@pytest.mark.parametrize(
    "comment",
    [
        "# initialize a GradScaler. If enabled=False scaler is a no-op",
        "# Creates a GradScaler once at the beginning of training.",
        "# scaler for mixed precision",
        "# AMP",
        "# Gradient scaler\n# (float16 only)",
    ],
)
def test_of_a_scaler(comment: str) -> None:
    assert comment not in migrated(SCALED.format(above=comment, below="\n# train"))


@pytest.mark.parametrize(
    ("statement", "comment", "below"),
    [
        # it may be of what follows, too
        ("torch.cuda.empty_cache()", "# clean up", "x = torch.ones(1)\n"),
        ("torch.cuda.empty_cache()", "# free memory and evaluate", "\nx = evaluate()\n"),
        ("torch.cuda.empty_cache()", "# clear the cache, reset x", "x = torch.ones(1)\n"),
        ("torch.cuda.empty_cache()", "# clear caches", "clear_caches()\n"),
        ("torch.cuda.empty_cache()", "# the memory of the evaluation", "\nevaluation = 1\n"),
        # it stands apart
        ("torch.cuda.empty_cache()", "# clear the cache\n", "x = 1\n"),
        # it is for other readers, or more than a remark
        ("torch.cuda.empty_cache()", "# TODO: clear the cache only once", "\nx = 1\n"),
        ("torch.cuda.empty_cache()", "# ------ memory ------", "\nx = 1\n"),
        ("torch.cuda.empty_cache()", "# Memory:", "\nx = 1\n"),
        ("torch.cuda.empty_cache()", "# %% the cache", "\nx = 1\n"),
        ("torch.cuda.empty_cache()", "# region memory", "\nx = 1\n"),
        ("torch.cuda.empty_cache()", "# endregion memory", "\nx = 1\n"),
        ("torch.cuda.empty_cache()", "# 2. clear the cache", "\nx = 1\n"),
        ("torch.cuda.empty_cache()", "# torch.cuda.reset_peak_memory_stats()", "\nx = 1\n"),
        ("torch.cuda.empty_cache()", "# cache\n# of\n# all\n# kinds", "\nx = 1\n"),
        # it says nothing of what goes
        ("torch.cuda.empty_cache()", "# once per epoch", "\nx = 1\n"),
        ("from apex import amp", "# third party", "\nx = 1\n"),
        ("s = torch.cuda.Stream()", "# a streaming data set", "\nx = data_set()\n"),
    ],
)
def test_any_other_comment_stays(statement: str, comment: str, below: str) -> None:
    assert _kept(statement, comment, below)


def test_the_comment_of_a_line_that_becomes_another_stays() -> None:
    source = """\
        import torch
        scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            loss = model(x.cuda()).sum()
            # scale the loss
            scaler.scale(loss).backward()
            # unscale, and step the optimizer
            scaler.step(optimizer)
            # update the scale for the next iteration
            scaler.update()
        """
    after = migrated(source)
    assert "# scale the loss\n    loss.backward()\n" in after
    assert "# unscale, and step the optimizer\n    xla.optimizer_step(optimizer)\n" in after
    assert "update the scale" not in after


def test_no_two_blank_lines_are_left_of_one() -> None:
    source = "import torch\n\ndef f(x):\n    x = x.cuda()\n\n    # clear the cache\n    torch.cuda.empty_cache()\n\n    return x\n"
    assert migrated(source).endswith("def f(x):\n    x = x.to(xla.xla_device())\n\n    return x\n")


def test_with_other_line_ends() -> None:
    from xla_codemods.engine import migrate

    source = b"import torch\r\n\r\n# clear the cache\r\ntorch.cuda.empty_cache()\r\n\r\nx = 1\r\n"
    assert migrate(source).data == b"import torch\r\n\r\nx = 1\r\n"


def test_a_comment_stays_above_the_blank_line_that_follows_what_is_removed() -> None:
    source = (
        "import torch\n\nif flag:\n"
        "    # a comment\n    torch.cuda.empty_cache()\n\n    optimizer.step()\n"
    )
    after = migrated(source)
    assert "if flag:\n    # a comment\n\n    xla.optimizer_step(optimizer)\n" in after


def test_comments_of_several_removed_statements_stay_in_order() -> None:
    source = (
        "import torch\n\ndef f():\n    # one\n    torch.cuda.empty_cache()\n"
        "    # two\n    torch.cuda.empty_cache()\n    x = 1\n"
    )
    assert migrated(source).endswith("def f():\n    # one\n    # two\n    x = 1\n")
