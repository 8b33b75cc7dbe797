"""`load_state_dict`: states that live on the device (fact 3.12), `assign=True` (fact 1.47)."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ....each import each
from ...helpers import findings, migrated

HEAD = "import copy\nimport torch\nmodel.to(device)\nloss.backward()\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("target.load_state_dict(model.state_dict())", "target.load_state_dict(xla.clone_state(model.state_dict()))"),
        ("target.load_state_dict(model.state_dict(), strict=False)", "target.load_state_dict(xla.clone_state(model.state_dict()), strict=False)"),
        ("self.target_net.load_state_dict(self.policy_net.state_dict())", "self.target_net.load_state_dict(xla.clone_state(self.policy_net.state_dict()))"),
        ("best = copy.deepcopy(model.state_dict())\nmodel.load_state_dict(best)", "best = copy.deepcopy(model.state_dict())\nmodel.load_state_dict(xla.clone_state(best))"),
        ("best = {k: v.clone() for k, v in model.state_dict().items()}\nmodel.load_state_dict(best)", "best = {k: v.clone() for k, v in model.state_dict().items()}\nmodel.load_state_dict(xla.clone_state(best))"),
        ("best = None\nif better:\n    best = other.state_dict()\nmodel.load_state_dict(best)", "best = None\nif better:\n    best = other.state_dict()\nmodel.load_state_dict(xla.clone_state(best))"),
        ("def fill(net, state):\n    net.load_state_dict(state)\nfill(other, model.state_dict())", "def fill(net, state):\n    net.load_state_dict(xla.clone_state(state))\nfill(other, model.state_dict())"),
        ("ema.load_state_dict(dict(model.state_dict()))", "ema.load_state_dict(xla.clone_state(dict(model.state_dict())))"),
    ],
)  # fmt: skip
def test_fact_3_12_states_on_the_device(before: str, after: str) -> None:
    assert migrated(f"{HEAD}{before}\n").endswith(f"\n{after}\n")


def test_fact_3_12_best_weights_of_a_trainer() -> None:
    source = HEAD + (
        "class Trainer:\n"
        "    def keep(self):\n"
        "        self.best = copy.deepcopy(self.model.state_dict())\n"
        "    def restore(self):\n"
        "        self.model.load_state_dict(self.best)\n"
    )
    assert "self.model.load_state_dict(xla.clone_state(self.best))" in migrated(source)


@pytest.mark.parametrize(
    "line",
    [
        "model.load_state_dict(state)",
        "model.load_state_dict(torch.load(p, map_location='cpu'))",
        "model.load_state_dict(checkpoint['model'])",
        "own = model.state_dict()\nown['w'] = own['w'] * 0.9\nmodel.load_state_dict(own)",
        "optimizer.load_state_dict(old_optimizer.state_dict())",
        "scheduler.load_state_dict(other.state_dict())",
        "best = {k: v.cpu() for k, v in model.state_dict().items()}\nmodel.load_state_dict(best)",
        "best = {k: v.to('cpu') for k, v in model.state_dict().items()}\nmodel.load_state_dict(best)",
        "model.load_state_dict(xla.clone_state(other.state_dict()))",
        "state = other.state_dict()\nstate = torch.load(p, map_location='cpu')\nmodel.load_state_dict(state)",
    ],
)
def test_other_states(line: str) -> None:
    source = f"{HEAD}from xla_migrate import runtime as xla\n{line}\n"
    assert [f for f in check(source.encode()) if f.code == "XLA703"] == []


def test_on_the_cpu_nothing_is_said() -> None:
    assert findings("import torch\ntarget.load_state_dict(model.state_dict())\n") == []


def test_fact_1_47_assign() -> None:
    source = HEAD + "model.load_state_dict(state, assign=True)\n"
    assert findings(source) == [(5, "XLA704")]
    assert migrated(source) == source
    assert migrated(source, unsafe=True).endswith("model.load_state_dict(state)\n")
    for harmless in (
        HEAD + "model.load_state_dict(state, assign=assign)\n",
        HEAD
        + "with torch.device('meta'):\n    m = make()\nm.load_state_dict(state, assign=True)\n",
    ):
        assert findings(harmless) == []


@pytest.mark.parametrize(
    ("source", "times"),
    [
        ("Net().state_dict()", 0),
        ("nn.Linear(2, 2).state_dict()", 0),
        ("state", 0),
        ("teacher.state_dict()", 1),
        ("make().state_dict()", 1),
    ],
)
def test_the_state_of_a_module_that_has_no_name_is_nobody_else_s(source: str, times: int) -> None:
    text = f"import torch\nfrom torch import nn\nclass Net(nn.Module):\n    pass\nmodel = Net().cuda()\nteacher = Net().cuda()\nstate = Net().state_dict()\nmodel.load_state_dict({source})\n"
    assert [code for _, code in findings(text)].count("XLA703") == times


NET = """\
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(2, 2)
    @classmethod
    def of(cls, m, device):
        m.cuda()
        {}
"""


@pytest.mark.parametrize(
    ("lines", "shares"),
    [
        ("t = Net(); t.load_state_dict(m.state_dict())", False),
        ("t = cls(); t.a.load_state_dict(m.a.state_dict()); return t.to(device)", False),
        (
            "t = cls().eval(); t.load_state_dict(m.state_dict())",
            True,
        ),  # what a call gives is not followed
        ("t = Net(); t.train(); y = t(1); t.load_state_dict(m.state_dict())", False),
        ("t = Net().cuda(); t.load_state_dict(m.state_dict())", True),
        ("t = cls(device=device); t.load_state_dict(m.state_dict())", True),
        ("t = cls(device_map={'': 0}); t.load_state_dict(m.state_dict())", True),
        ("t = cls(); ok = hasattr(t, 'a'); t.a.load_state_dict(m.a.state_dict())", False),
        ("t = cls(); print(type(t)); del t.a.b; t.load_state_dict(m.state_dict())", False),
        ("t = cls(); t.a.b = b; t.load_state_dict(m.state_dict())", True),
        ("t = Net(); t.a.cuda(); t.load_state_dict(m.state_dict())", True),
        ("n = Net(); t = type(n)(); t.load_state_dict(m.state_dict())", False),
        ("n = Net(); t = n.__class__(); t.load_state_dict(m.state_dict())", False),
        ("n = Net(); t = type(n)().cuda(); t.load_state_dict(m.state_dict())", True),
        ("t = type(m)(); t.load_state_dict(m.state_dict())", True),  # m may be anything
        ("t = cls(); move(t); t.a.load_state_dict(m.a.state_dict())", True),
    ],
)
def test_what_is_made_here_is_on_the_host_and_shares_nothing(lines: str, shares: bool) -> None:
    codes = {code for _, code in findings(NET.format(lines.replace("; ", "\n        ")))}
    assert ("XLA703" in codes) is shares


@pytest.mark.parametrize(
    ("lines", "stays"),
    [
        ("for k, v in s.items():\n            s[k] = v.to(device)\n        m.load_state_dict(s, assign=True)", False),
        ("for k in list(s):\n            s[k] = s[k].cuda()\n        m.load_state_dict(state_dict=s, assign=True)", False),
        ("s = {k: v.to(device) for k, v in s.items()}\n        m.load_state_dict(s, assign=True)", False),
        ("m.load_state_dict({k: v.cuda() for k, v in s.items()}, assign=True)", False),
        ("m.load_state_dict({k: v.to(torch.float32) for k, v in s.items()}, assign=True)", True),
        ("m.load_state_dict({k: v.to('cpu') for k, v in s.items()}, assign=True)", True),
        ("s['a'] = s['b'].to(device)\n        m.load_state_dict(s, assign=True)", True),
        ("m.load_state_dict(s, assign=True)\n        s = {k: v.to(device) for k, v in s.items()}", True),
    ],
)  # fmt: skip
def test_fact_1_47_a_state_that_was_put_on_the_device_may_be_assigned(
    lines: str, stays: bool
) -> None:
    source = NET.format(lines).replace("of(cls, m, device)", "of(cls, m, s, device)")
    assert ("XLA704" in {code for _, code in findings(source)}) is stays


@pytest.mark.parametrize("made", ["Net()", "cls()"])
@pytest.mark.parametrize("move", ["self.a.cuda()", "self.a = self.a.to('cuda')"])
def test_a_constructor_that_moves_makes_nothing_on_the_host(made: str, move: str) -> None:
    source = NET.format(f"t = {made}\n        t.load_state_dict(m.state_dict())")
    source = source.replace("torch.nn.Linear(2, 2)\n", f"torch.nn.Linear(2, 2)\n        {move}\n")
    assert "XLA703" in {code for _, code in findings(source)}


RESTARTED = """
import copy
import torch
from torch import nn
from lib import build

class Encoder({base}):
    def __init__(self, given):
        super().__init__()
        model = build("x")
        {move}
        self.start = {kept}
        self.net = model

    def restart(self):
        self.net.load_state_dict(self.start)

def train(encoder, loss):
    encoder.cuda()
    loss.backward()
"""


@pytest.mark.parametrize(
    ("base", "move", "kept", "shares"),
    [
        ("nn.Module", "", "copy.deepcopy(model.state_dict())", False),
        ("torch.nn.Module", "model.eval()", "{k: v.clone() for k, v in model.state_dict().items()}", False),
        ("nn.Module", "", "model.state_dict()", False),
        ("nn.Module", "model.cuda()", "copy.deepcopy(model.state_dict())", True),
        ("nn.Module", "model = model.to(given.device)", "copy.deepcopy(model.state_dict())", True),
        ("nn.Module", "", "copy.deepcopy(given.state_dict())", True),
        ("object", "", "copy.deepcopy(model.state_dict())", True),
    ],
)  # fmt: skip
def test_what_is_kept_while_a_module_is_made_is_on_the_host(
    base: str, move: str, kept: str, shares: bool
) -> None:
    source = RESTARTED.format(base=base, move=move, kept=kept)
    assert ("XLA703" in {code for _, code in findings(source)}) is shares


@pytest.mark.parametrize(
    ("state", "shares"),
    [
        ("model.load(path).state_dict()", False),
        ("Net.from_pretrained(name).state_dict()", False),
        ("timm.create_model(name).state_dict()", False),
        ("lib.load_model(path).state_dict()", False),
        ("lib.Net(3).state_dict()", False),
        ("copy.deepcopy(model).state_dict()", False),
        ("holder.get_model().state_dict()", True),
        ("current().state_dict()", True),
    ],
)
def test_the_state_of_what_was_only_made_for_it_is_nobody_else_s(state: str, shares: bool) -> None:
    codes = [
        code for _, code in findings(f"{HEAD}import lib, timm\nmodel.load_state_dict({state})\n")
    ]
    assert ("XLA703" in codes) is shares


RESTORED = """import copy
import torch
def fit(model, loader, optimizer):
    best = None
    for epoch in range(3):
        loss = model(next(loader).cuda())
        loss.backward()
        optimizer.step()
        if better(loss):
            best = {copied}
{restored}
"""


@each(
    "copied, restored, is_safe",
    [
        ("copy.deepcopy(model.state_dict())", "    model.load_state_dict(best)", True),
        (
            "copy.deepcopy(model.state_dict())",
            "    if best is not None:\n        model.load_state_dict(best)\n    return model",
            True,
        ),
        (
            "copy.deepcopy(model.state_dict())",
            "    model.load_state_dict(best)\n    return best",
            False,
        ),
        ("copy.deepcopy(model.state_dict())", "        model.load_state_dict(best)", False),
        (
            "copy.deepcopy(model.state_dict())",
            "    kept.append(best)\n    model.load_state_dict(best)",
            False,
        ),
        ("other.state_dict()", "    model.load_state_dict(best)", False),
        (
            "copy.deepcopy(model.state_dict())",
            "    torch.save(best, 'x')\n    def again():\n        model.load_state_dict(best)",
            False,
        ),
    ],
)
def test_a_copy_that_nobody_reads_afterwards_may_share(
    copied: str, restored: str, is_safe: bool
) -> None:
    source = RESTORED.format(copied=copied, restored=restored)
    assert ("XLA703" not in {code for _, code in findings(source)}) is is_safe
