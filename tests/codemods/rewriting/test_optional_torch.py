"""A file that loads without torch loads without it after the rewrite, too."""

from __future__ import annotations

import pytest

from ..helpers import migrated

IMPORT = "from xla_migrate import runtime as xla\n"
USE = "torch.ones(2).cuda()\n"

PLACES = {
    "after_a_guarded_import": (
        f"try:\n    import torch\nexcept ImportError:\n    torch = None\n\ndef f():\n    return {USE}",
        f"    torch = None\nelse:\n    {IMPORT}\ndef",
    ),
    "in_an_else": (
        f"try:\n    import torch\nexcept ImportError:\n    READY = False\nelse:\n    READY = True\ndef f():\n    return {USE}",
        f"else:\n    {IMPORT}    READY = True\n",
    ),
    "used_in_the_try": (
        f"try:\n    import torch\n    x = {USE}except ImportError:\n    x = None\n",
        f"    import torch\n    {IMPORT}    x = ",
    ),
    "under_a_test": (
        f"from .utils import has_torch\nif has_torch():\n    import torch\n\ndef f():\n    return {USE}",
        f"    import torch\n    {IMPORT}\ndef",
    ),
    "in_a_function": (
        f"import os\n\ndef f():\n    import torch\n    return {USE}",
        f"    import torch\n    {IMPORT}    return",
    ),
    "in_a_method": (
        f"import os\nclass A:\n    def f(self):\n        if self.a:\n            import torch\n            return {USE}",
        f"            import torch\n            {IMPORT}            return",
    ),
    "after_a_guarded_import_in_a_function": (
        "def f(n):\n    try:\n        import torch\n    except ImportError:\n        return\n    torch.cuda.set_device(n)\n",
        f"        return\n    {IMPORT}    xla.set_device(n)\n",
    ),
}


@pytest.mark.parametrize(("before", "expected"), PLACES.values(), ids=PLACES)
def test_the_runtime_is_imported_where_torch_is(before: str, expected: str) -> None:
    after = migrated(before)
    assert expected in after
    assert after.count(IMPORT) == 1
    assert migrated(after) == after


@pytest.mark.parametrize(
    "before",
    [
        f"try:\n    import torch\nexcept ImportError:\n    raise SystemExit\ndef f():\n    return {USE}",
        f"import torch\ntry:\n    import torch.cuda\nexcept ImportError:\n    pass\ndef f():\n    return {USE}",
        f"from .model import Net\ndef f():\n    import torch\n    return {USE}",
        f"import os\ndef f():\n    import torch\n    return {USE}\ndef g(a=__import__('torch').ones(2).cuda()):\n    pass\n",
        f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\nfrom .model import torch\ndef f():\n    return {USE}",
    ],
    ids=["required", "imported", "of_the_project", "used_as_it_loads", "for_types"],
)
def test_a_file_that_needs_torch_imports_the_runtime_with_its_other_imports(before: str) -> None:
    after = migrated(before)
    assert f"\n{IMPORT}" in f"\n{after}"
    assert migrated(after) == after


def test_a_second_rewrite_uses_the_name_of_a_function() -> None:
    before = f"import os\ndef f(n):\n    import torch\n    {IMPORT}    xla.set_device(n)\n    return {USE}"
    assert "return torch.ones(2).to(xla.xla_device())" in migrated(before)
    more = migrated(f"{before}def g():\n    import torch\n    return {USE}")
    assert more.count(IMPORT) == 2
