"""Where the runtime's import goes, and which imports go."""

from __future__ import annotations

import pytest

from ..helpers import IMPORT, findings, migrated

USE = "x = torch.ones(1).cuda()\n"
USED = "x = torch.ones(1).to(xla.xla_device())\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch\n", "import torch\n" + IMPORT),
        ('"""Doc."""\nimport torch\n', '"""Doc."""\nimport torch\n' + IMPORT),
        (
            '#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n"""Doc."""\nfrom __future__ import annotations\n\nimport torch\nimport os\n\n',
            '#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n"""Doc."""\nfrom __future__ import annotations\n\nimport torch\nimport os\n'
            + IMPORT
            + "\n",
        ),
        # what is set before torch is imported stays before
        (
            "import os\nos.environ['PJRT_DEVICE'] = 'CPU'\nimport torch\n",
            "import os\nos.environ['PJRT_DEVICE'] = 'CPU'\nimport torch\n" + IMPORT,
        ),
        ("import sys, torch; import os\n", "import sys, torch; import os\n" + IMPORT),
        (
            "from torch import (\n    nn,  # layers\n)\nimport torch\n",
            "from torch import (\n    nn,  # layers\n)\nimport torch\n" + IMPORT,
        ),
        # never behind a statement that uses it
        (
            "import torch; x = torch.ones(1).cuda()\n",
            IMPORT + "import torch; x = torch.ones(1).to(xla.xla_device())\n",
        ),
        (
            "import torch\nimport os; x = torch.ones(1).cuda()\n",
            "import torch\n" + IMPORT + "import os; x = torch.ones(1).to(xla.xla_device())\n",
        ),
        (
            "from torch import (\n    nn,\n); import torch; x = torch.ones(1).cuda()\n",
            IMPORT
            + "from torch import (\n    nn,\n); import torch; x = torch.ones(1).to(xla.xla_device())\n",
        ),
        (
            "try:\n    import torch\nexcept ImportError:\n    raise\n",
            IMPORT + "try:\n    import torch\nexcept ImportError:\n    raise\n",
        ),
        (
            "import os\ntry:\n    import torch\nexcept ImportError:\n    raise\n",
            "import os\n\n" + IMPORT + "try:\n    import torch\nexcept ImportError:\n    raise\n",
        ),
    ],
)
def test_added_once_behind_torch(before: str, after: str) -> None:
    assert migrated(before + USE) == after + USED


def test_existing_import_is_used() -> None:
    source = "import torch\nfrom xla_migrate import runtime as rt\n" + USE
    assert migrated(source).endswith("x = torch.ones(1).to(rt.xla_device())\n")
    assert migrated(source).count("xla_migrate") == 1


def test_another_alias_where_xla_is_taken() -> None:
    source = "import torch\nimport xla\n" + USE
    assert "from xla_migrate import runtime as xla_rt\n" in migrated(source)


def test_unused_imports_go_and_neighbours_stay() -> None:
    before = """\
        import torch
        import apex  # noqa
        from torch import (
            nn,  # kept, with its comment
            cuda as gpu,
        )

        gpu.empty_cache()
        m = nn.Linear(1, 1)
        """
    after = migrated(before)
    if "gpu" in after:
        pytest.skip("no rule removes empty_cache yet")
    assert "nn,  # kept, with its comment" in after
    assert "import apex  # noqa" in after  # was unused before: not our business


STAR = """\
from torch.cuda.amp import *

scaler = GradScaler()
for x in loader:
    with autocast():
        loss = model(x).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


def test_a_star_of_which_nothing_is_used_any_more_goes() -> None:
    assert findings(STAR).count((1, "XLA906")) == 0
    assert "import *" not in migrated(STAR)


def test_a_star_of_which_something_is_left_stays() -> None:
    assert "from torch.cuda.amp import *\n" in migrated(STAR + "isinstance(context, autocast)\n")


def test_beside_an_unknown_star_nobody_knows_whose_names_are_whose() -> None:
    source = "from mine import *\n" + STAR
    assert (2, "XLA906") in findings(source)
    assert migrated(source).startswith("from mine import *\nfrom torch.cuda.amp import *\n")


@pytest.mark.parametrize(
    "line",
    [
        "# it runs on xla, too",
        "print('xla')",
        "on = device.type == 'xla'",
        "f(xla=True)",
        "args.xla = 1",
        'def g():\n    """Not for xla."""',
    ],
)
def test_a_comment_a_string_or_an_attribute_takes_no_name(line: str) -> None:
    source = f"import torch\nx = torch.ones(2).cuda()\n{line}\n"
    assert "from xla_migrate import runtime as xla\n" in migrated(source)


@pytest.mark.parametrize(
    "line",
    ["xla = 1", "def xla(): pass", "from lib import xla", "import xla.y", "g = lambda xla: 1"],
)
def test_a_name_of_the_code_takes_it(line: str) -> None:
    source = f"import torch\nx = torch.ones(2).cuda()\n{line}\n"
    assert "from xla_migrate import runtime as xla_rt\n" in migrated(source)


AMP = "with torch.cuda.amp.autocast():\n    y = model(x.cuda())\n"


@pytest.mark.parametrize(
    ("imports", "left"),
    [
        ("import torch\nimport torch.cuda.amp\n", "import torch\n"),
        ("import torch, torch.cuda.amp\n", "import torch\n"),
        ("import torch.nn\nimport torch.cuda, torch.cuda.amp\n", "import torch.nn\n"),
        # it is what brings `torch`
        ("import torch.cuda.amp\n", "import torch.cuda.amp\n"),
    ],
)
def test_modules_of_cuda_that_are_used_no_more_go(imports: str, left: str) -> None:
    use = "z = torch.ones(1)\n"
    assert migrated(imports + AMP + use).startswith(left + IMPORT)


def test_modules_of_cuda_that_are_used_still_stay() -> None:
    source = "import torch\nimport torch.cuda.amp\n" + AMP + "s = torch.cuda.amp.common\n"
    assert "import torch.cuda.amp\n" in migrated(source)


def test_modules_of_cuda_that_were_never_used_are_none_of_our_business() -> None:
    assert "import torch.cuda.amp\n" in migrated("import torch\nimport torch.cuda.amp\n" + USE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"""Doc."""\n\nAMP\n\n\ndef f', '"""Doc."""\n\nRUNTIME\n\n\ndef f'),
        ("AMP\n\n\ndef f", "RUNTIME\n\n\ndef f"),
        ("AMP\n\n\n@g\ndef f", "RUNTIME\n\n\n@g\ndef f"),
        ("AMP\n\nx = 1\n\ndef f", "RUNTIME\n\nx = 1\n\ndef f"),
        ("# licence\n\nAMP\n\nimport torch\n\ndef f", "# licence\n\nimport torch\nRUNTIME\n\ndef f"),
        (
            "from __future__ import annotations\n\nAMP\n\n\ndef f",
            "from __future__ import annotations\n\nRUNTIME\n\n\ndef f",
        ),
    ],
)  # fmt: skip
def test_blank_lines_where_the_first_import_was(before: str, after: str) -> None:
    before, after = (
        text.replace("AMP", "from torch.cuda.amp import autocast").replace("RUNTIME", IMPORT[:-1])
        for text in (before, after)
    )
    body = "(m, x):\n    with {}autocast():\n        return m(x)\n"
    assert migrated(before + body.format("")) == after + body.format("xla.")


@pytest.mark.parametrize(
    "line",
    [
        "# xla would do",
        'print("xla")',
        'd = {"xla": 1}',
        "args.xla = f(xla=True)",
        "from foo import is_xla, bar as my_xla",
    ],
)
def test_only_code_takes_the_name_of_the_runtime(line: str) -> None:
    assert IMPORT in migrated(f"import torch\n{line}\n{USE}")


@pytest.mark.parametrize(
    "use",
    [
        'def f(scaler: "GradScaler"): ...',
        'def f(scaler: Optional["GradScaler"] = None): ...',
        'def f() -> "GradScaler": ...',
        'async def f() -> list["GradScaler"]: ...',
        'scaler: "dict[str, GradScaler]" = {}',
        'scaler = cast("GradScaler", None)',
        '__all__ = ["GradScaler"]',
    ],
)
def test_an_import_that_a_string_needs_stays(use: str) -> None:
    source = f"import torch\nfrom torch.cuda.amp import GradScaler\n{use}\ns = GradScaler()\ns.update()\n"
    assert "from torch.cuda.amp import GradScaler\n" in migrated(source)
    other = source.replace(use, 'print("GradScaler")')
    assert "from torch.cuda.amp import GradScaler\n" not in migrated(other)


GUARDED = """import importlib.util
import torch
from .tools import is_apex_available, has_wandb
{guard}
def step(loss, optimizer):
    with amp.scale_loss(loss, optimizer) as scaled:
        scaled.backward()
"""


@pytest.mark.parametrize(
    ("guard", "left"),
    [
        ("if is_apex_available():\n    from apex import amp\n", ""),
        ("if importlib.util.find_spec('apex'):\n    from apex import amp\n", ""),
        ("if has_wandb and is_apex_available():\n    from apex import amp\n", ""),
        ("if APEX:\n    import apex\n    from apex import amp\n", "    import apex\n"),
        ("if APEX:\n    from apex import amp\nelse:\n    print(1)\n", "else:\n    print(1)\n"),
        ("if A:\n    print(0)\nelif APEX:\n    from apex import amp\n", "elif APEX:\n    pass\n"),
        ("if install():\n    from apex import amp\n", "if install():\n    pass\n"),
    ],
)
def test_a_test_whose_imports_go_goes_with_them(guard: str, left: str) -> None:
    after = migrated(GUARDED.format(guard=guard))
    assert "from apex import amp" not in after
    if left:
        assert left in after
    else:
        assert "if " not in after
        assert "pass" not in after
        assert ("is_apex_available" in after) is ("is_apex" not in guard)


@pytest.mark.parametrize(
    ("head", "use"),
    [
        ("import torch, torch.backends.cudnn as cudnn", "cudnn.benchmark = True"),
        ("import torch.backends.cudnn as cudnn, torch", "cudnn.benchmark = True"),
        ("import torch, torch.cuda.amp as amp", "scaler = amp.GradScaler()\nscaler.update()"),
        ("import torch, torch.cuda.nvtx as nvtx", "nvtx.range_push('step')"),
        ("import torch, torch.cuda as cuda", "cuda.synchronize()"),
    ],
)
def test_an_import_beside_that_of_torch_goes_by_itself(head: str, use: str) -> None:
    after = migrated(f"{head}\n\nmodel = torch.nn.Linear(2, 2).cuda()\n{use}\n")
    assert after.startswith("import torch\nfrom xla_migrate import runtime as xla\n")


def test_a_test_around_an_import_that_goes_with_its_try_goes_too() -> None:
    after = migrated(
        """
        import torch

        def train(args, model, x):
            if args.fp16:
                try:
                    from torch.cuda import amp
                except AttributeError:
                    raise AttributeError("fp16 requires Pytorch >= 1.6")
            with amp.autocast():
                return model(x)
        """
    )
    assert "args.fp16" not in after
    assert "pass" not in after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import os\nfrom time import time\n\nimport torch\n",
         f"import contextlib\nimport os\nfrom time import time\n\nimport torch\n{IMPORT}"),
        ("import argparse\nimport os\n\nimport torch\n",
         f"import argparse\nimport contextlib\nimport os\n\nimport torch\n{IMPORT}"),
        ("import argparse\n\nimport torch\n",
         f"import argparse\nimport contextlib\n\nimport torch\n{IMPORT}"),
        ("from __future__ import annotations\n\nimport torch\n",
         f"from __future__ import annotations\n\nimport torch\nimport contextlib\n{IMPORT}"),
    ],
)  # fmt: skip
def test_modules_of_the_library_go_to_their_section(before: str, after: str) -> None:
    before = before.replace("import torch", "from functools import partial\nimport torch")
    used = (
        "def f(copy):\n    context = partial(torch.cuda.stream, torch.cuda.Stream())\n"
        "    with context():\n        copy(os, time, argparse)\n"
    )
    result = migrated(before + used)
    assert result.startswith(after.replace(IMPORT, ""))


AT_TOP = "import torch\n" + IMPORT


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"import torch\n{USE}{IMPORT}", f"{AT_TOP}{USED}{IMPORT}"),
        (
            f"import torch\ndef f():\n    {USE}f()\n{IMPORT}xla.device_name()\n",
            f"{AT_TOP}def f():\n    {USED}f()\n{IMPORT}xla.device_name()\n",
        ),
        (
            f"import torch\ndef f():\n    {USE}def g():\n    f()\ng()\n{IMPORT}",
            f"{AT_TOP}def f():\n    {USED}def g():\n    f()\ng()\n{IMPORT}",
        ),
        (
            f"import torch\ndef f():\n    {USE}    {IMPORT}    xla.device_name()\n",
            f"{AT_TOP}def f():\n    {USED}    xla.device_name()\n",
        ),
        # called after it
        (
            f"import torch\ndef f():\n    {USE}{IMPORT}f()\n",
            f"import torch\ndef f():\n    {USED}{IMPORT}f()\n",
        ),
    ],
)
def test_an_import_after_the_first_use_does_not_serve_it(before: str, after: str) -> None:
    assert migrated(before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from torch.utils.data import DataLoader\nfrom torchrl.data import Buffer\n",
         "import torch\nfrom torch.utils.data import DataLoader\nfrom torchrl.data import Buffer\n"),
        ("import os\n\nimport numpy\nimport zarr\nfrom torchrl.data import Buffer\n",
         "import os\n\nimport numpy\nimport torch\nimport zarr\nfrom torchrl.data import Buffer\n"),
    ],
)  # fmt: skip
def test_a_package_goes_where_isort_places_it(before: str, after: str) -> None:
    used = "\n\ndef make(storage):\n    return Buffer(storage, pin_memory={})\n"
    result = migrated(before + used.format("True"))
    assert result == after + used.format("torch.cuda.is_available()")
