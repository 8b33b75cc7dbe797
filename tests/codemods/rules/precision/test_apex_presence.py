"""Tests whether apex is there: the rewrite removes the import together with everything that asks for it."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check, migrate

from ...helpers import migrated

SCRIPT = """\
import argparse
import importlib.util
import sys

import torch
from torch import nn
{imports}
parser = argparse.ArgumentParser()
parser.add_argument("--amp", default="apex")
args = parser.parse_args()
{asked}
net = nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
if args.amp == "apex":
    net, optimizer = {amp}.initialize(net, optimizer, opt_level="O1")
"""
APEX = "try:\n    import apex\nexcept ImportError:\n    apex = None\n"
AMP = APEX.replace("import apex", "from apex import amp").replace("apex = None", "amp = None")
FLAG = (
    "try:\n    from apex import amp\n    HAS_APEX = True\n"
    "except ImportError:\n    HAS_APEX = False\n"
)
RAISES = "    raise RuntimeError('apex is needed')\n"


def script(imports: str, asked: str, amp: str = "apex.amp") -> str:
    return SCRIPT.format(imports=imports, asked=asked, amp=amp)


@pytest.mark.parametrize(
    ("imports", "asked", "amp"),
    [
        (APEX, 'if args.amp == "apex" and "apex" not in sys.modules:\n' + RAISES, "apex.amp"),
        (APEX, 'if not "apex" in sys.modules.keys():\n' + RAISES, "apex.amp"),
        (APEX, 'if sys.modules.get("apex") is None:\n' + RAISES, "apex.amp"),
        (APEX, 'assert "apex.amp" in sys.modules, "apex is needed"\n', "apex.amp"),
        (APEX, 'if apex is None and args.amp == "apex":\n' + RAISES, "apex.amp"),
        ("import apex\n", 'if importlib.util.find_spec("apex") is None:\n' + RAISES, "apex.amp"),
        ("import apex\n", 'if not importlib.util.find_spec("apex"):\n' + RAISES, "apex.amp"),
        (AMP, 'if args.amp == "apex":\n    if amp is None:\n    ' + RAISES, "amp"),
        (AMP, 'if amp is None:\n    print("no apex")\n    sys.exit(1)\n', "amp"),
        (FLAG, "if not HAS_APEX:\n    parser.error('apex is needed')\n", "amp"),
        (FLAG, "assert HAS_APEX or args.amp != 'apex'\n", "amp"),
        (FLAG, 'if not HAS_APEX or not _is_package_available("apex"):\n' + RAISES, "amp"),
        ("import apex\n", 'assert RequirementCache("apex>=0.1")\n', "apex.amp"),
        (
            'HAS_APEX = importlib.util.find_spec("apex") is not None\n',
            "from apex import amp\nif not HAS_APEX:\n    sys.exit('apex is needed')\n",
            "amp",
        ),
    ],
)  # fmt: skip
def test_what_only_refuses_is_removed_with_the_import(imports: str, asked: str, amp: str) -> None:
    after = migrated(script(imports, asked, amp))
    assert "import apex" not in after
    assert "from apex" not in after
    assert "sys.modules" not in after
    assert "exit(" not in after
    assert "raise" not in after
    assert "parser.error" not in after
    assert "assert" not in after
    assert "xla.mixed_precision(net)" in after


def test_a_flag_that_chooses_is_true_once_nothing_needs_the_import() -> None:
    asked = 'use = "apex" if args.amp and HAS_APEX else "none"\n'
    after = migrated(script(FLAG, asked, "amp"))
    assert "\nHAS_APEX = True\n" in after
    assert "from apex" not in after
    assert "try:" not in after


def test_a_flag_stays_if_apex_is_still_used() -> None:
    asked = 'if HAS_APEX:\n    amp.unknown()\nuse = "apex" if HAS_APEX else "none"\n'
    after = migrated(script(FLAG, asked, "amp"))
    assert FLAG in after


@pytest.mark.parametrize(
    "asked",
    [
        'if "apex" in sys.modules:\n    args.amp = "apex"\nelse:\n    raise SystemExit\n',
        'args.amp = "apex" if "apex" in sys.modules else "none"\n',
        'if "apex" not in sys.modules:\n    args.amp = "none"\n',
        'if (found := sys.modules.get("apex")) is None:\n    raise SystemExit\n',
    ],
)
def test_the_import_stays_if_the_answer_chooses_what_runs(asked: str) -> None:
    source = script(APEX, asked)
    assert APEX in migrated(source)
    assert asked in migrated(source)
    assert any("test for apex" in f.message for f in check(source.encode()))


def test_tests_in_other_modules() -> None:
    files = {
        "train.py": script("import apex\nfrom helpers import check_amp\n", "check_amp(args)\n"),
        "helpers.py": (
            "import sys\n\n\ndef check_amp(args):\n"
            '    if args.amp == "apex" and "apex" not in sys.modules:\n        raise ImportError\n'
            "    return True\n"
        ),
    }

    def after(path: str) -> str:
        modules = Modules({name: text.encode() for name, text in files.items()})
        project = Project(modules, path)
        return migrate(files[path].encode(), Options(), path, project).data.decode()

    assert "import apex" not in after("train.py")
    assert "raise" not in after("helpers.py")
    files["helpers.py"] = files["helpers.py"].replace("raise ImportError", "args.amp = 'none'")
    assert "import apex" in after("train.py")
    assert after("helpers.py") == files["helpers.py"]


def test_tests_for_what_apex_itself_does_are_not_reported() -> None:
    source = "import torch\nfrom transformers.utils import is_apex_available\n" + (
        "if is_apex_available():\n    from apex.optimizers import FusedAdam\n"
        'if is_apex_available():\n    print("apex")\n'
    )
    assert not any("test for apex" in f.message for f in check(source.encode()))


def test_a_name_that_stands_in_for_a_missing_package_is_no_use_of_it() -> None:
    fallback = "    amp, ApexDDP, FusedAdam = None, None, None\n"
    imports = (
        "try:\n    from apex import amp\n    from apex.optimizers import FusedAdam\n"
        "    from apex.parallel import DistributedDataParallel as ApexDDP\n"
        "except ImportError:\n"
    )
    assert fallback in migrated(script(imports + fallback, "", "amp"))
