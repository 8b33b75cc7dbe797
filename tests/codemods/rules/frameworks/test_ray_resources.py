"""XLA816: what Ray is asked for. Types that name devices say nothing of them."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

HEAD = "import ray\nimport torch\nfrom typing import Literal, Optional\n"
ASKS = [
    "@ray.remote(num_gpus=1)\ndef f(x):\n    return x.mean()\n",
    "@ray.remote(num_cpus=2, num_gpus=0.25)\nclass A:\n    pass\n",
    "f = ray.remote(num_gpus=n)(g)\n",
    "a = A.options(num_gpus=1).remote()\n",
    "ray.init(num_gpus=2)\n",
    "from ray import remote\n@remote(num_gpus=1)\ndef f():\n    pass\n",
    "from ray.train import ScalingConfig\nc = ScalingConfig(num_workers=2, use_gpu=True)\n",
]
ASKS_FOR_NONE = [
    "@ray.remote\ndef f(x):\n    return x.mean()\n",
    "@ray.remote(num_gpus=0)\nclass A:\n    pass\n",
    "a = A.options(resources={'TPU': 1}).remote()\n",
    "trainer = Trainer(num_gpus=1)\n",
    "from ray.train import ScalingConfig\nc = ScalingConfig(use_gpu=False)\n",
]
TYPES = [
    "Device = Literal['cuda', 'cpu']\n",
    "def f(x, where: Literal['cpu', 'cuda'] = 'cpu') -> Literal['cuda']:\n    return x.to(where)\n",
    "class A:\n    kind: Optional[Literal['cuda']] = None\n",
    "tags = ['cuda', 'nlp']\nprint(tags)\n",
    "from typing import cast\nx = cast(Literal['cuda'], read())\n",
]


@pytest.mark.parametrize("code", ASKS)
def test_a_gpu_is_asked_for(code: str) -> None:
    assert [f.code for f in check((HEAD + code).encode())] == ["XLA816"]


@pytest.mark.parametrize("code", [*ASKS_FOR_NONE, *TYPES])
def test_no_gpu_is_asked_for(code: str) -> None:
    assert check((HEAD + code).encode()) == []
