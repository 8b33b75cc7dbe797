"""An installed DeepSpeed trains on the redirected CUDA. A package with DeepSpeed's structure stands for it here."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from xla_migrate.verify import redirect
from xla_migrate.verify.observe.numerics import precision
from xla_migrate.verify.redirect.deepspeed import half_precisions, simplified

FILES = {
    "hjson.py": "from json import load\n",
    "deepspeed/__init__.py": "from . import comm, runtime\nfrom .runtime import zero\n",
    "deepspeed/comm/__init__.py": "from . import comm\n",
    "deepspeed/comm/comm.py": "def mpi_discovery(distributed_port=0, verbose=True):\n    import mpi4py\n",
    "deepspeed/runtime/__init__.py": "from . import config\n",
    "deepspeed/runtime/config.py": (
        "class DeepSpeedConfig:\n"
        "    def __init__(self, config, mpu=None, mesh_device=None):\n"
        "        self.given, self.mpu = config, mpu\n"
    ),
    "deepspeed/runtime/zero/__init__.py": "class Init:\n    def __init__(self, module=None):\n        raise RuntimeError\n",
}
CONFIG: dict[str, Any] = {
    "train_batch_size": 8,
    "gradient_clipping": 1.0,
    "fp16": {"enabled": True, "loss_scale": 0},
    "bf16": {"enabled": False},
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}},
    "optimizer": {"type": "AdamW", "params": {"lr": 0.1}},
}
SIMPLIFIED = {
    "train_batch_size": 8,
    "gradient_clipping": 1.0,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.1, "torch_adam": True}},
}


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


@pytest.fixture
def deepspeed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(precision, "asked", set())
    monkeypatch.setattr(precision, "lowered", [])
    before = _environment()
    patches = redirect.install()
    try:
        yield importlib.import_module("deepspeed")
    finally:
        patches.undo()
        for name in [n for n in sys.modules if n.partition(".")[0] in ("deepspeed", "hjson")]:
            del sys.modules[name]
    assert _environment() == before


def test_a_configuration_is_simplified_and_the_given_one_stays() -> None:
    given = json.loads(json.dumps(CONFIG))
    assert simplified(given) == SIMPLIFIED
    assert given == CONFIG
    lamb = {"optimizer": {"type": "Lamb", "params": {"lr": 0.1}}}
    assert simplified(lamb) == lamb


def test_half_precisions_are_those_that_are_enabled() -> None:
    assert half_precisions(CONFIG) == [torch.float16]
    assert half_precisions({"bf16": {"enabled": True}}) == [torch.bfloat16]
    assert half_precisions({"fp16": None}) == []


def test_the_engine_gets_a_simplified_configuration(deepspeed: Any, tmp_path: Path) -> None:
    kind = deepspeed.runtime.config.DeepSpeedConfig
    file = tmp_path / "ds.json"
    file.write_text(json.dumps(CONFIG))
    for given in (CONFIG, str(file), file):
        made = kind(given, mpu=7)
        assert (made.given, made.mpu) == (SIMPLIFIED, 7)
    assert precision.asked == {torch.float16}
    assert kind("bm90IGEgZmlsZQ==").given == "bm90IGEgZmlsZQ=="  # DeepSpeed decodes it


def test_half_precision_is_refused_where_it_would_be_compared(
    deepspeed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "_chosen", ["bfloat16"])
    with pytest.raises(redirect.Unsupported, match=r"half precision cannot run .* in float32"):
        deepspeed.runtime.config.DeepSpeedConfig(CONFIG)
    assert deepspeed.runtime.config.DeepSpeedConfig(SIMPLIFIED).given == SIMPLIFIED


def test_it_runs_as_one_process_on_the_redirected_cuda(deepspeed: Any) -> None:
    assert os.environ["DS_ACCELERATOR"] == "cuda"
    deepspeed.comm.comm.mpi_discovery(distributed_port=29500)
    assert [os.environ[n] for n in ("RANK", "LOCAL_RANK", "WORLD_SIZE")] == ["0", "0", "1"]
    with deepspeed.zero.Init(config_dict_or_path=CONFIG):
        assert torch.nn.Linear(2, 2).weight.shape == (2, 2)
