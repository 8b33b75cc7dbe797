"""What is left of a compound statement of which a rule removes a part."""

from __future__ import annotations

import textwrap

import pytest

from ..helpers import migrated

GONE = "torch.cuda.empty_cache()"


def _in_a_function(body: str) -> str:
    return f"import torch\n\ndef f(args, s):\n{textwrap.indent(textwrap.dedent(body), '    ')}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if args.a:\n    GONE\nelse:\n    x = 1\n", "if not args.a:\n    x = 1\n"),
        ("if not args.a:\n    GONE\nelse:\n    x = 1\n", "if args.a:\n    x = 1\n"),
        ("if args.a is None:\n    GONE\nelse:\n    x = 1\n", "if args.a is not None:\n    x = 1\n"),
        ("if args.a in s:\n    GONE\nelse:\n    x = 1\n", "if args.a not in s:\n    x = 1\n"),
        ("if args.n != 3:\n    GONE\nelse:\n    x = 1\n", "if args.n == 3:\n    x = 1\n"),
        # tensors and NaN: `<` is not the opposite of `>=`
        ("if args.n < 3:\n    GONE\nelse:\n    x = 1\n", "if not args.n < 3:\n    x = 1\n"),
        (
            "if args.a and args.b:\n    GONE\nelse:\n    x = 1\n",
            "if not (args.a and args.b):\n    x = 1\n",
        ),
        ("if (args.a\n    and s):\n    GONE\nelse:\n    x = 1\n", "if not (args.a\n    and s):\n    x = 1\n"),
        ("if (y := s()):\n    GONE\nelse:\n    x = y\n", "if not (y := s()):\n    x = y\n"),
        ("if s(): GONE\nelse: x = 1\n", "if not s(): x = 1\n"),
        (
            "if args.a:\n    GONE\n# otherwise\nelse:  # there\n    # here\n    x = 1\n",
            "# otherwise\nif not args.a:  # there\n    # here\n    x = 1\n",
        ),
        (
            "if args.a:\n    GONE\nelif args.b or args.c:\n    x = 1\n",
            "if not args.a and (args.b or args.c):\n    x = 1\n",
        ),
        (
            "if args.a:\n    GONE\nelif args.b:\n    x = 1\nelse:\n    x = 2\n",
            "if not args.a:\n    if args.b:\n        x = 1\n    else:\n        x = 2\n",
        ),
        ("if args.a:\n    x = 1\nelse:\n    GONE\n", "if args.a:\n    x = 1\n"),
        ("if args.a:\n    x = 1\nelif args.b:\n    GONE\n", "if args.a:\n    x = 1\n"),
        (
            "if args.a:\n    x = 1\nelif args.b:\n    GONE\nelse:\n    x = 2\n",
            "if args.a:\n    x = 1\nelif not args.b:\n    x = 2\n",
        ),
        (
            "if args.a:\n    x = 1\nelif args.b:\n    GONE\nelif args.c:\n    x = 2\nelse:\n    x = 3\n",
            "if args.a:\n    x = 1\nelif args.b:\n    pass\nelif args.c:\n    x = 2\nelse:\n    x = 3\n",
        ),
        ("if args.a:\n    GONE\nelif args.b:\n    GONE\nx = 1\n", "x = 1\n"),
        ("if args.a:\n    GONE\nelse:\n    if args.b:\n        GONE\nx = 1\n", "x = 1\n"),
        # what a test does must go on being done
        ("if args.a:\n    x = 1\nelif s():\n    GONE\n", "if args.a:\n    x = 1\nelif s():\n    pass\n"),
        ("if s():\n    GONE\nelse:\n    GONE\n", "if s():\n    pass\n"),
    ],
)  # fmt: skip
def test_an_if_without_a_branch(before: str, after: str) -> None:
    assert migrated(_in_a_function(before.replace("GONE", GONE))) == _in_a_function(after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("try:\n    GONE\nfinally:\n    # last\n    x = 1\n", "# last\nx = 1\n"),
        ("try: GONE\nfinally: x = 1\n", "x = 1\n"),
        ("try:\n    GONE\nexcept OSError:\n    x = 1\nelse:\n    x = 2\n", "x = 2\n"),
        (
            "try:\n    GONE\nexcept OSError:\n    x = 1\nelse:\n    x = 2\nfinally:\n    x = 3\n",
            "try:\n    x = 2\nfinally:\n    x = 3\n",
        ),
        ("try:\n    GONE\nexcept OSError:\n    x = 1\nfinally:\n    GONE\nx = 4\n", "x = 4\n"),
        ("try:\n    x = s()\nfinally:\n    GONE\n", "x = s()\n"),
        (
            "try:\n    x = s()\nexcept OSError:\n    x = 1\nfinally:\n    GONE\n",
            "try:\n    x = s()\nexcept OSError:\n    x = 1\n",
        ),
        (
            "try:\n    x = s()\nexcept OSError:\n    x = 1\nelse:\n    GONE\n",
            "try:\n    x = s()\nexcept OSError:\n    x = 1\n",
        ),
        # an error that is swallowed goes on being swallowed
        (
            "try:\n    x = s()\nexcept OSError:\n    GONE\n",
            "try:\n    x = s()\nexcept OSError:\n    pass\n",
        ),
        (
            "if args.a:\n    try:\n        GONE\n    except OSError:\n        pass\nelse:\n    x = 1\n",
            "if not args.a:\n    x = 1\n",
        ),
    ],
)
def test_a_try_without_a_block(before: str, after: str) -> None:
    assert migrated(_in_a_function(before.replace("GONE", GONE))) == _in_a_function(after)


def test_a_deeper_block_keeps_the_indentation_of_the_file() -> None:
    before = "import torch\nclass A:\n  def f(self):\n    for i in range(3):\n      if i:\n        torch.cuda.empty_cache()\n      elif i > 1:\n        x = 1\n      else:\n        x = 2\n"
    assert migrated(before).endswith(
        "      if not i:\n        if i > 1:\n          x = 1\n        else:\n          x = 2\n"
    )


def test_a_block_that_gets_something_in_the_place_of_what_goes_stays() -> None:
    before = """\
        import torch

        def step(model, x, scaler: torch.amp.GradScaler, optimizer, last):
            loss = model(x.cuda()).sum()
            scaler.scale(loss).backward()
            if last:
                scaler.step(optimizer)
                scaler.update()
            else:
                scaler.update()
        """
    after = migrated(before)
    assert "    if last:\n        xla.optimizer_step(optimizer)\n" in after
    assert "pass" not in after


@pytest.mark.parametrize(
    ("over", "is_left"),
    [
        ("opts", False),
        ("opts.values()", False),
        ("self.opts.items()", False),
        ("zip(opts, names)", False),
        ("enumerate(opts.values(), 1)", False),
        ("next(opts)", True),
        ("opts.pop()", True),
        ("zip(opts, make())", True),
    ],
)
def test_a_loop_in_which_nothing_is_left_goes_where_its_elements_only_come(
    over: str, is_left: bool
) -> None:
    loop = f"for o in {over}:\n    scaler.unscale_(o)\n"
    source = f"import torch\nscaler = torch.GradScaler('cuda')\nscaler.scale(x).backward()\n{loop}"
    assert (f"for o in {over}:\n    pass\n" in migrated(source)) == is_left
    assert "unscale_" not in migrated(source)


_ASKED = """
import torch

def is_main():
    "Of the first process."
    return RANK == 0

def due(step, every=2):
    return step % every == 0

def pop(s):
    return s.pop()

class Trainer:
    def updates(self):
        return self._updates

    def advance(self):
        self._updates += 1
        return self._updates

    def step(self, cuda, s):
        if {test}:
            torch.cuda.empty_cache()
        return s
"""


@pytest.mark.parametrize(
    ("test", "goes"),
    [
        ("cuda and self.updates() == 0", True),
        ("is_main()", True),
        ("due(self.updates(), every=3)", True),
        ("cuda and self.advance() == 0", False),
        ("pop(s)", False),
        ("due(pop(s))", False),
        ("unknown(s)", False),
    ],
)
def test_a_test_that_calls_what_only_answers_goes(test: str, goes: bool) -> None:
    result = migrated(_ASKED.format(test=test))
    assert "empty_cache" not in result
    assert (f"if {test}:" not in result) is goes


BY_KIND = """import torch
def empty_cache(device, kind, x):
    {head}
        torch.cuda.empty_cache()
    {rest}
"""


@pytest.mark.parametrize(
    ("head", "rest", "left"),
    [
        ("if device.type == 'cuda':", "elif device.type == 'mps':\n        f()", "    if device.type == 'mps':\n        f()\n"),
        ("if device.type == 'cuda':", "elif device.type == 'mps':\n        f()\n    else:\n        pass",
         "    if device.type == 'mps':\n        f()\n    else:\n        pass\n"),
        ("if device.type == 'cuda':", "elif device.type == 'mps':\n        f()\n    elif device.type == 'xpu':\n        g()",
         "    if device.type == 'mps':\n        f()\n    elif device.type == 'xpu':\n        g()\n"),
        ("if x.device.type == 'cuda':", "elif x.device.type == 'mps':\n        f()", "    if x.device.type == 'mps':\n        f()\n"),
        # where something else is done, it is done for CUDA as well
        ("if device.type == 'cuda':", "elif device.type == 'mps':\n        f()\n    else:\n        g()", "not xla.is_accelerator(device)"),
        ("if device.type == 'cuda':", "elif x:\n        f()", "not xla.is_accelerator(device) and x"),
        ("if device.type == 'cuda':", "elif x.device.type == 'mps':\n        f()", "not xla.is_accelerator(device) and"),
        ("if device.type == 'cuda':", "elif device.type == 'mps':\n        f()\n    elif x:\n        g()", "not xla.is_accelerator(device)"),
    ],
)  # fmt: skip
def test_tests_for_other_kinds_stand_for_themselves(head: str, rest: str, left: str) -> None:
    assert left in migrated(BY_KIND.format(head=head, rest=rest))


_WRAPPED = """
import torch
from torch.nn.parallel import DistributedDataParallel

def wrap(model, rank, several):
    {assigned}
    return DistributedDataParallel(model.cuda(), device_ids=chosen){used}
"""


@pytest.mark.parametrize(
    ("assigned", "used", "goes"),
    [
        ("chosen = [rank]", "", True),
        ("chosen = None if several else [rank]", "", True),
        ("chosen = [torch.cuda.current_device()]", "", True),
        ("chosen = [rank]", ", chosen", False),
        ("chosen = rank()", "", False),
        ("chosen = [rank]\n    chosen = chosen or None", "", False),
    ],
)
def test_a_local_name_that_only_a_removed_argument_reads_goes(
    assigned: str, used: str, goes: bool
) -> None:
    after = migrated(_WRAPPED.format(assigned=assigned, used=used))
    assert "device_ids" not in after
    assert ("chosen = " not in after) is goes
