"""The index of what rules listen to: a check imports only the rules it needs."""

from __future__ import annotations

import subprocess
import sys

from xla_codemods.engine import check


def test_a_check_imports_only_rules_whose_names_occur() -> None:
    code = (
        "import sys\n"
        "from xla_codemods.engine import check\n"
        "check(b'import torch\\ntorch.cuda.empty_cache()\\n')\n"
        "rules = [m for m in sys.modules if m.startswith('xla_codemods.rules.')]\n"
        "print(*(m.rpartition('.')[2] for m in rules))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = run.stdout.split()
    assert "empty_cache" in imported
    assert not {"stream", "foreign_engine", "lightning", "autocast", "nvml"} & set(imported)


def test_a_subclass_by_way_of_another_class_is_found() -> None:
    source = (
        "from accelerate import Accelerator\n"
        "class Mine(Accelerator): ...\n"
        "class Other(Mine): ...\n"
        "accelerator = Other(mixed_precision='fp16')\n"
    )
    direct = source.replace("Other(Mine)", "Other(Accelerator)")
    codes = {(f.code, f.line) for f in check(source.encode())}
    assert codes
    assert codes == {(f.code, f.line) for f in check(direct.encode())}
