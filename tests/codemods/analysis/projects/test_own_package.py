"""A package of CUDA's world is a library to others, and its own code to itself."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Project

from .test_project import left, modules

FILES = {
    "megatron/core/__init__.py": "from megatron.core.utils import unwrap\nfrom .parallel import ranks\n",
    "megatron/core/utils.py": "def unwrap(model):\n    return model\n",
    "megatron/core/parallel.py": """
        import torch
        from megatron.core import utils
        from megatron.core.utils import unwrap
        import megatron.core.utils as again
        from megatron.training import get_args

        def ranks(model):
            torch.cuda.graph_pool_handle()
            return utils.unwrap(model), unwrap(model), again.unwrap(model), get_args()
        """,
    "pretrain.py": "from megatron.core.utils import unwrap\nmodel = unwrap(model)\n",
    "tests/deepspeed/__init__.py": "",
    "tests/deepspeed/test_zero.py": "import deepspeed\nengine = deepspeed.ops.adam.CPUAdam(p)\n",
    "nvtx.py": "",
    "tools/nvtx/marks.py": "import nvtx\nnvtx.mark('a')\n",
}


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("megatron/core/__init__.py", []),
        ("megatron/core/parallel.py", ["torch.cuda.graph_pool_handle", "`megatron`"]),
        ("pretrain.py", ["`megatron`"]),
        ("tests/deepspeed/test_zero.py", ["deepspeed.ops.adam"]),
    ],
)  # fmt: skip
def test_what_is_said_of_its_names(path: str, names: list[str]) -> None:
    said = [finding.message for finding in left(FILES, path)]
    assert len(said) == len(names)
    assert all(any(name in message for message in said) for name in names)


@pytest.mark.parametrize(
    ("path", "dotted", "own"),
    [
        ("megatron/core/parallel.py", "megatron.core.utils.unwrap", True),
        ("megatron/core/parallel.py", "megatron.core", True),
        ("megatron/core/parallel.py", "megatron", False),
        ("megatron/core/parallel.py", "megatron.training.get_args", False),
        ("pretrain.py", "megatron.core.utils.unwrap", False),
        ("tests/deepspeed/test_zero.py", "deepspeed.initialize", False),
        ("tools/nvtx/marks.py", "nvtx.mark", False),
    ],
)
def test_what_a_module_is_a_part_of(path: str, dotted: str, own: bool) -> None:
    assert Project(modules(FILES), path).is_of_its_package(dotted) is own
