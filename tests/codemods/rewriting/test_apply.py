"""Edits that need the surroundings of the place: f-strings, conditions, several contexts."""

from __future__ import annotations

import pytest

from xla_codemods.engine import migrate

from ..helpers import migrated
from ..rules.lines import line


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('y = f"{torch.cuda.memory_allocated()}"', "y = f\"{xla.memory_info()['bytes_used']}\""),
        ("y = f'{torch.cuda.memory_allocated()}'", "y = f'{xla.memory_info()[\"bytes_used\"]}'"),
        ('y = f"""{torch.cuda.memory_allocated()}"""', 'y = f"""{xla.memory_info()["bytes_used"]}"""'),
        ('y = f"{a:{torch.cuda.memory_allocated()}}"', "y = f\"{a:{xla.memory_info()['bytes_used']}}\""),
        ('y = f"{n}", torch.cuda.memory_allocated()', 'y = f"{n}", xla.memory_info()["bytes_used"]'),
    ],
)  # fmt: skip
def test_quotes_inside_f_strings(before: str, after: str) -> None:
    """Before Python 3.12 an f-string ends at its own quote, wherever it stands."""
    assert line(before) == after


def test_a_condition_inside_a_condition_gets_parentheses() -> None:
    before = "torch.backends.cuda.matmul.allow_tf32 = a if b else c"
    assert (
        line(before) == 'xla.set_float32_matmul_precision("high" if (a if b else c) else "highest")'
    )


def test_a_with_that_loses_every_context_loses_itself() -> None:
    before = "with torch.autograd.profiler.emit_nvtx(), torch.cuda.profiler.profile():\n    # kept\n    f()"
    assert line(before) == "# kept\nf()"


def test_comments_before_a_line_that_gets_one_before_it_stand_once() -> None:
    before = (
        "import torch\n"
        "if flag:\n"
        "    for x in loader:\n"
        "        # a comment\n"
        "        loss.backward()\n"
        "    optimizer.step()\n"
    )
    after = migrate(before.encode()).data.decode()
    assert after.count("# a comment\n        xla.mark_step()\n        loss.backward()\n") == 1
    assert after.count("# a comment") == 1


LOADER = "from torch.utils.data import DataLoader\nfrom xla_migrate import runtime as xla\n"
# The device loader pins: the loader itself need not.
FED = "for batch in xla.MpDeviceLoader(x):\n    model(batch)\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = DataLoader(d, pin_memory=True,\n    shuffle=True)", "x = DataLoader(d,\n    shuffle=True)"),
        (
            "x = DataLoader(\n    d,\n    pin_memory=True,\n    shuffle=True,\n)",
            "x = DataLoader(\n    d,\n    shuffle=True,\n)",
        ),
        (  # what is said of the other stays
            "x = DataLoader(\n    d,\n    pin_memory=True,  # fast\n    # of one size\n    drop_last=True,\n)",
            "x = DataLoader(\n    d,\n    # of one size\n    drop_last=True,\n)",
        ),
        (
            "x = DataLoader(\n    d, pin_memory=True,  # data\n    shuffle=True,\n)",
            "x = DataLoader(\n    d,  # data\n    shuffle=True,\n)",
        ),
        (
            "x = DataLoader(d,\n    shuffle=True,  # order\n    pin_memory=True)",
            "x = DataLoader(d,\n    shuffle=True  # order\n    )",
        ),
        (
            "x = DataLoader(d, pin_memory=True, pin_memory_device='cuda',\n    shuffle=True)",
            "x = DataLoader(d,\n    shuffle=True)",
        ),
        ("x = DataLoader(pin_memory=True,\n    dataset=d)", "x = DataLoader(dataset=d)"),
        (
            "k = {'num_workers': 1, 'pin_memory': True,\n     'shuffle': True}\nx = DataLoader(d, **k)",
            "k = {'num_workers': 1,\n     'shuffle': True}\nx = DataLoader(d, **k)",
        ),
    ],
)  # fmt: skip
def test_lines_and_comments_around_an_argument_that_goes(before: str, after: str) -> None:
    assert migrated(f"{LOADER}{before}\n{FED}") == f"{LOADER}{after}\n{FED}"


@pytest.mark.parametrize("unit", ["    ", "\t", "  "])
def test_a_block_that_comes_in_is_one_deeper(unit: str) -> None:
    """However deep the method is in which it comes."""
    before = (
        "import torch\n"
        "from torch.utils.checkpoint import set_device_states\n"
        "class Block(torch.nn.Module):\n"
        "    def again(self, *args):\n"
        "        if self.training:\n"
        "            set_device_states(self.devices, self.states)\n"
        "        return self.net(*args)\n"
    )
    after = migrated(before.replace("    ", unit)).splitlines()
    at = next(k for k, text in enumerate(after) if "for state in" in text)
    loop, inside = after[at], after[at + 1]
    depth = len(loop) - len(loop.lstrip())
    assert inside.startswith(loop[:depth])
    assert inside[depth] in " \t"
    assert len(inside) - len(inside.lstrip()) - depth == (1 if unit == "\t" else 4)
    compile("\n".join(after), "after", "exec")


def test_a_line_before_a_class_leaves_it_its_blank_lines() -> None:
    before = "from pytorch_lightning import Trainer\n\n\nclass Mine(Trainer):\n    pass\n"
    after = migrated(before)
    assert "\n\n\nxla.patch_lightning()\n\n\nclass Mine(Trainer):\n" in after
