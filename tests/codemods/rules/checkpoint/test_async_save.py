"""`async_save` of distributed checkpoints: what fails on XLA tensors, what takes its place, and what is left."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp

from xla_codemods.engine import migrate
from xla_migrate import runtime as xla

from ...helpers import findings

HEAD = "import torch as th\nimport torch\nm = torch.nn.Linear(2, 2).cuda()\n"
CALL = "async_save({'m': m.state_dict()}, checkpoint_id='x')"


@pytest.mark.parametrize(
    ("imported", "call", "fixed"),
    [
        ("import torch.distributed.checkpoint as dcp", f"dcp.{CALL}", "dcp.save("),
        ("from torch.distributed import checkpoint", f"checkpoint.{CALL}", "checkpoint.save("),
        ("from torch.distributed.checkpoint import async_save, save", CALL, "\nsave("),
        (
            "from torch.distributed.checkpoint import async_save",
            CALL,
            "import torch.distributed.checkpoint\n",
        ),
        (
            "from torch.distributed.checkpoint.state_dict_saver import async_save as later",
            CALL.replace("async_save", "later"),
            "\ntorch.distributed.checkpoint.save(",
        ),
    ],
)
def test_a_call_alone_waits_for_its_files(imported: str, call: str, fixed: str) -> None:
    source = f"import torch\n{imported}\nm = torch.nn.Linear(2, 2).cuda()\n{call}\n"
    done = migrate(source.encode())
    assert fixed in done.data.decode()
    assert done.left == []


@pytest.mark.parametrize(
    ("imported", "call"),
    [
        ("import torch.distributed.checkpoint as dcp", f"f = dcp.{CALL}"),
        ("import torch.distributed.checkpoint as dcp", f"dcp.{CALL}.result()"),
        ("import torch.distributed.checkpoint as dcp", "dcp.async_save({'m': m}, **options)"),
        ("import torch.distributed.checkpoint as dcp", "dcp.async_save({'m': m}, async_stager=s)"),
        ("from torch.distributed.checkpoint import async_save", f"f = {CALL}"),
    ],
)
def test_a_future_or_options_of_its_own_are_left(imported: str, call: str) -> None:
    source = f"import torch\n{imported}\nm = torch.nn.Linear(2, 2).cuda()\n{call}\n"
    done = migrate(source.encode())
    assert "async_save(" in done.data.decode()
    assert [f.code for f in done.left] == ["XLA709"]


def test_under_another_name_of_torch_there_is_no_module_to_name() -> None:
    source = "import torch as th\nfrom torch.distributed.checkpoint import async_save\n"
    done = migrate(f"{source}m = th.nn.Linear(2, 2).cuda()\n{CALL}\n".encode())
    assert [f.code for f in done.left] == ["XLA709"]


@pytest.mark.parametrize(
    "state",
    [
        "{k: v.cpu() for k, v in m.state_dict().items()}",
        "get_model_state_dict(m, options=StateDictOptions(cpu_offload=True))",
        "m.to('cpu').state_dict()",
    ],
)
def test_tensors_of_the_cpu_are_saved_in_the_background(state: str) -> None:
    head = f"{HEAD}import torch.distributed.checkpoint as dcp\n"
    for code in (f"dcp.async_save({state})\n", f"state = {state}\ndcp.async_save(state)\n"):
        assert "XLA709" not in [found for _, found in findings(head + code)]


def test_what_the_rule_says_is_so(tmp_path: Path) -> None:
    state = {"model": torch.nn.Linear(2, 2).to(xla.xla_device()).state_dict()}
    with pytest.raises(RuntimeError, match="storage"):
        dcp.async_save(state, checkpoint_id=tmp_path / "later").result()
    dcp.save(state, checkpoint_id=tmp_path / "now")
    read = {"model": torch.nn.Linear(2, 2).state_dict()}
    dcp.load(read, checkpoint_id=tmp_path / "now")
    assert torch.equal(read["model"]["weight"], state["model"]["weight"].cpu())
