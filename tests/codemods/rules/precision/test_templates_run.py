"""What the rules write for apex and for amp is run, on XLA:CPU and on the eager backend."""

from __future__ import annotations

import os
import subprocess
import textwrap

import pytest

from .... import warm
from ...helpers import migrated

HEAD = """
import torch
from apex import amp
import apex

model = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
a, b = torch.randn(3, 4).cuda(), torch.randn(4, 3).cuda()
"""
STEP = "loss = model(a).sum()\n"
TEMPLATES = {
    "half function of a string first": 'amp.register_half_function(torch, "einsum")\n'
    'with torch.cuda.amp.autocast():\n    y = torch.einsum("ij,jk->ik", a, b)\nassert y.dtype == torch.bfloat16\n'
    'assert torch.einsum("ij,jk->ik", a, b).dtype == torch.float32',
    "half function of a list": 'amp.register_half_function(torch, "cat")\n'
    "with torch.cuda.amp.autocast():\n    y = torch.cat([a, a])\nassert y.dtype == torch.bfloat16",
    "half function by keywords": 'amp.register_half_function(torch.nn.functional, "linear")\n'
    "with torch.cuda.amp.autocast():\n    y = torch.nn.functional.linear(input=a, weight=model.weight)\n"
    "assert y.dtype == torch.bfloat16",
    "float function": 'amp.register_float_function(torch, "sigmoid")\n'
    "with torch.cuda.amp.autocast():\n    y = torch.sigmoid(model(a))\nassert y.dtype == torch.float32",
    "float function decorates": "@amp.float_function\ndef f(how, x):\n    return x @ x.t()\n"
    "with torch.cuda.amp.autocast():\n    y = f('so', a)\nassert y.dtype == torch.float32",
    "half function decorates": "@amp.half_function\ndef f(x, scale=1.0):\n    return x * scale\n"
    "with torch.cuda.amp.autocast():\n    y = f(a, scale=2.0)\nassert y.dtype == torch.bfloat16",
    "half function handed on": "f = amp.half_function(torch.matmul)\n"
    "with torch.cuda.amp.autocast():\n    y = f(a, b)\nassert y.dtype == torch.bfloat16",
    "promote function": 'amp.register_promote_function(torch, "add")',
    "initialize": 'model, optimizer = amp.initialize(model, optimizer, opt_level="O1")\n'
    "with amp.scale_loss(model(a).sum(), optimizer) as scaled:\n    scaled.backward()\n"
    "torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)\noptimizer.step()",
    "disable_casts": "with amp.disable_casts():\n    y = model(a)\nassert y.dtype == torch.float32",
    "state": 'state = {"amp": amp.state_dict(), "n": 1}\nassert state["n"] == 1',
    "scaler": "scaler = torch.cuda.amp.GradScaler()\n"
    "with torch.cuda.amp.autocast():\n    loss = model(a).sum()\n"
    "scaler.scale(loss).backward()\nscaler.unscale_(optimizer)\nscaler.step(optimizer)\nscaler.update()",
    "scaler handed out": "scaler = torch.cuda.amp.GradScaler()\nkept = {'scaler': scaler}\n"
    "scaler.scale(model(a).sum()).backward()\nscaler.step(optimizer)\nscaler.update()",
    "custom_fwd": "class Twice(torch.autograd.Function):\n"
    "    @staticmethod\n    @torch.cuda.amp.custom_fwd(cast_inputs=torch.float16)\n"
    "    def forward(ctx, x):\n        return 2 * x\n"
    "    @staticmethod\n    @torch.cuda.amp.custom_bwd\n    def backward(ctx, g):\n        return 2 * g\n"
    "with torch.cuda.amp.autocast():\n    y = Twice.apply(a)\nassert y.dtype == torch.bfloat16",
    "autocast as a decorator": "@torch.cuda.amp.autocast()\ndef f(x):\n    return model(x)\n"
    "assert f(a).dtype == torch.bfloat16",
}


def program() -> str:
    """All templates, one after the other, each with the names of torch as they were."""
    parts = ["import importlib, sys, torch\n"]
    for name, source in TEMPLATES.items():
        after = migrated(HEAD + source)
        assert "apex" not in after, after
        inner = textwrap.indent(
            f"exec(compile({after!r}, {name!r}, 'exec'), {{'__name__': 'one'}})", " " * 4
        )
        parts.append(
            "before = {n: getattr(torch, n) for n in ('einsum', 'cat', 'sigmoid', 'add')}\n"
            "linear = torch.nn.functional.linear\n"
            f"try:\n{inner}\nexcept BaseException as e:\n    print({name!r}, repr(e))\n"
            "vars(torch).update(before); torch.nn.functional.linear = linear\n"
        )
    return "".join(parts)


@pytest.mark.e2e
@pytest.mark.parametrize("backend", ["torch_xla", "eager"])
def test_every_template_runs(backend: str) -> None:
    environment = {**os.environ, "PJRT_DEVICE": "CPU", "XLA_MIGRATE_BACKEND": backend}
    command = [warm.python(*warm.TORCH_XLA), "-c", program()]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stdout + done.stderr
