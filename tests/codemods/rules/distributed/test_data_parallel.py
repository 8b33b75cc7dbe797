"""What wrapped models are told that XLA does otherwise."""

from __future__ import annotations

import inspect

import pytest
import torch.nn.parallel.distributed as torch_distributed

from xla_codemods.engine import check
from xla_codemods.rules.distributed.data_parallel import INTERNALS

from ...helpers import findings, migrated

HEAD = """
import torch
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook as powerSGD
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP
model = DDP(torch.nn.Linear(2, 2).cuda())
model(x).sum().backward()
"""


def left(line: str) -> list[str]:
    return [f.message for f in check((HEAD + line).encode()) if f.code == "XLA603" and not f.edits]


@pytest.mark.parametrize(
    "line",
    [
        "model.register_comm_hook(state, powerSGD.powerSGD_hook)",
        "model.register_comm_hook(state=None, hook=mine)",
    ],
)
def test_hooks_that_change_sums_are_left_with_what_to_do(line: str) -> None:
    (message,) = left(line)
    assert "between backward and step" in message


@pytest.mark.parametrize(
    "line", ["with model.join():\n    pass", "with Join([model, optimizer]):\n    pass"]
)
def test_uneven_numbers_of_steps_are_left_with_what_to_do(line: str) -> None:
    (message,) = left(line)
    assert "drop_last=True" in message


@pytest.mark.parametrize(
    "line",
    [
        "model.register_comm_hook(None, default_hooks.fp16_compress_hook)",
        'print(", ".join(names))',
        'with open("/".join(parts)) as file:\n    pass',
        "process.join()",
    ],
)
def test_what_does_no_harm_is_not_spoken_of(line: str) -> None:
    assert left(line) == []


def test_zero_is_left_with_what_to_do() -> None:
    """Its `consolidate_state_dict` loads to the device, which fails on XLA."""
    source = "from torch.distributed.optim import ZeroRedundancyOptimizer as Z\n"
    (message,) = left(
        f"{source}o = Z(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.1)"
    )
    assert "optimizer_class" in message


@pytest.mark.parametrize(
    ("call", "after"),
    [
        ("nn.parallel.data_parallel(main, x, range(2))", "xla.DataParallel(main)(x)"),
        ("nn.parallel.data_parallel(self.main, x, device_ids=[0, 1])", "xla.DataParallel(self.main)(x)"),
        ("nn.parallel.data_parallel(main, (x, y))", "xla.DataParallel(main)(x, y)"),
        ("nn.parallel.data_parallel(main, (x,), [0], 0)", "xla.DataParallel(main)(x)"),
        ("nn.parallel.data_parallel(main, y, [0])", ""),
        ("nn.parallel.data_parallel(main, x, module_kwargs={'k': 1})", ""),
        ("nn.parallel.data_parallel(*given)", ""),
    ],
)  # fmt: skip
def test_data_parallel_called_at_once(call: str, after: str) -> None:
    source = f"from torch import nn\ndef forward(self, main, x, y, given):\n    n = x.size(0)\n    return {call}\n"
    found = migrated(source)
    assert (after or call) in found


WRAPPED = """import contextlib
import threading
import torch
from torch.distributed._composable.replicate import replicate
from torch.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
model = DistributedDataParallel(net)
{}
"""


@pytest.mark.parametrize(
    "line",
    [
        "register_ddp_comm_hook(DDPCommHookType.POWER_SGD, model, None)",
        "model.register_comm_hook(None, hook)",
        "model._register_builtin_comm_hook(kind)",
        "context = model.join() if several else contextlib.nullcontext()",
        "stack.enter_context(model.join())",
        "stack.enter_context(Join([model]))",
        "with model.join(): pass",
        "replicate(net)",
    ],
)
def test_what_the_runtimes_class_refuses_is_told(line: str) -> None:
    assert (9, "XLA603") in findings(WRAPPED.format(line))


@pytest.mark.parametrize(
    "line",
    [
        "register_ddp_comm_hook(DDPCommHookType.FP16_COMPRESS, model, None)",
        "threading.Thread(target=f).join()",
        'x = ",".join(names)',
        "reader.join()",
        "ends = [thread.join() for thread in threads]",
    ],
)
def test_what_it_takes_and_other_joins_are_not(line: str) -> None:
    assert (9, "XLA603") not in findings(WRAPPED.format(line))


def test_the_older_name_of_the_class() -> None:
    result = migrated(
        "import torch\nm = torch.nn.parallel.DistributedDataParallelCPU(net.cuda())\n"
    )
    assert "m = xla.DistributedDataParallel(net" in result


SUBCLASS = """
import torch
from torch.nn.parallel.distributed import DistributedDataParallel

class Wrapper({base}):
    def train_step(self, *inputs):
        if self.require_forward_param_sync:
            self._sync_buffers()
        output = self.module.train_step(*inputs)
        if torch.is_grad_enabled():
            self.reducer.prepare_for_backward([])
        return output
"""


def test_a_subclass_that_goes_past_forward_is_told() -> None:
    """Nothing would be averaged: the runtime's class has no reducer."""
    source = SUBCLASS.format(base="DistributedDataParallel")
    assert {(8, "XLA603"), (11, "XLA603")} <= set(findings(source))
    left = [code for _, code in findings(migrated(source))]
    assert left.count("XLA603") == 2
    assert "XLA603" not in [
        code for line, code in findings(SUBCLASS.format(base="Own")) if line > 4
    ]


def test_the_internals_are_torchs() -> None:
    source = inspect.getsource(torch_distributed)
    assert [name for name in INTERNALS if name not in source] == []
