"""`fused=`, `capturable=`, slow optimizers, state moved by hand."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ...helpers import IMPORT, findings, migrated

HEAD = "import torch\nfrom torch import optim\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("o = optim.Adam(p, fused=True)", "o = optim.Adam(p, fused=xla.supports_fused())"),
        ("o = optim.Adam(p, fused=f)", "o = optim.Adam(p, fused=f and xla.supports_fused())"),
        ("o = optim.Adam(p, fused=a == b)", "o = optim.Adam(p, fused=a == b and xla.supports_fused())"),
        ("o = optim.Adam(p, fused=not a)", "o = optim.Adam(p, fused=not a and xla.supports_fused())"),
        ("o = optim.Adam(p, fused=torch.cuda.is_available())", "o = optim.Adam(p, fused=xla.supports_fused())"),
        ("o = optim.Adam(p, **{'lr': 1, 'fused': True})", "o = optim.Adam(p, **{'lr': 1, 'fused': xla.supports_fused()})"),
        ("o = optim.Adam(p, **(dict(fused=True) if f else {}))", "o = optim.Adam(p, **(dict(fused=xla.supports_fused()) if f else {}))"),
        ("d = {'fused': True}\no = optim.Adam(p, **d)\nloss.backward()", "d = {'fused': xla.supports_fused()}\no = optim.Adam(p, **d)\nloss.backward()"),
        ("d = {'a': {'fused': True}}\no = optim.Adam(p, **d['a'])\nloss.backward()", "d = {'a': {'fused': xla.supports_fused()}}\no = optim.Adam(p, **d['a'])\nloss.backward()"),
        ('d = dict(a=dict(fused=True))\nk = d[n]\no = optim.Adam(p, **k)\nloss.backward()', 'd = dict(a=dict(fused=xla.supports_fused()))\nk = d[n]\no = optim.Adam(p, **k)\nloss.backward()'),
        ("d = {'a': {'fused': True}}\no = optim.Adam(p, **d.get(n, {}))\nloss.backward()", "d = {'a': {'fused': xla.supports_fused()}}\no = optim.Adam(p, **d.get(n, {}))\nloss.backward()"),
        ('d = {}\nd.update(fused=True)\no = optim.Adam(p, **d)\nloss.backward()', 'd = {}\nd.update(fused=xla.supports_fused())\no = optim.Adam(p, **d)\nloss.backward()'),
        ("d = {}\nd.update({'fused': True})\no = optim.Adam(p, **d)\nloss.backward()", "d = {}\nd.update({'fused': xla.supports_fused()})\no = optim.Adam(p, **d)\nloss.backward()"),
        ("d = {'lr': 1} | {'fused': True}\no = optim.Adam(p, **d)\nloss.backward()", "d = {'lr': 1} | {'fused': xla.supports_fused()}\no = optim.Adam(p, **d)\nloss.backward()"),
        ("d = {'lr': 1, **{'fused': True}}\nd = {**d, **d}\no = optim.Adam(p, **d)\nloss.backward()", "d = {'lr': 1, **{'fused': xla.supports_fused()}}\nd = {**d, **d}\no = optim.Adam(p, **d)\nloss.backward()"),
        ("d = {'lr': 1}\nd |= {'fused': True}\no = optim.Adam(p, **d)\nloss.backward()", "d = {'lr': 1}\nd |= {'fused': xla.supports_fused()}\no = optim.Adam(p, **d)\nloss.backward()"),
        ("d = {}\nd.setdefault('fused', True)\no = optim.Adam(p, **d.copy())\nloss.backward()", "d = {}\nd.setdefault('fused', xla.supports_fused())\no = optim.Adam(p, **d.copy())\nloss.backward()"),
        ("d = {}\nd['fused'] = True\no = optim.Adam(p, **d)\nloss.backward()", "d = {}\nd['fused'] = xla.supports_fused()\no = optim.Adam(p, **d)\nloss.backward()"),
        ('d = {"fused": x.is_cuda}\nbuild(p, **d)', 'd = {"fused": xla.is_accelerator(x) and xla.supports_fused()}\nbuild(p, **d)'),
        ('build(p, fused=m.device.type == "cuda")', 'build(p, fused=xla.is_accelerator(m.device) and xla.supports_fused())'),
        ('build(p, dict(fused=torch.cuda.is_available()))', 'build(p, dict(fused=xla.is_available() and xla.supports_fused()))'),
        ('d["fused"] = f and torch.cuda.is_available()', 'd["fused"] = (f and xla.is_available()) and xla.supports_fused()'),
        ('g = torch.cuda.is_available()\nd = {"fused": g}', 'g = xla.is_available()\nd = {"fused": g and xla.supports_fused()}'),
        ('c = create({"optim": {"_target_": "torch.optim.AdamW", "fused": True}})', 'c = create({"optim": {"_target_": "torch.optim.AdamW", "fused": xla.supports_fused()}})'),
        ('c = {"name": "adamw", "fused": True}', 'c = {"name": "adamw", "fused": xla.supports_fused()}'),
        ('c = {"optimizer": {"lr": 1, "fused": True}}', 'c = {"optimizer": {"lr": 1, "fused": xla.supports_fused()}}'),
        ('c = dict(optim={"fused": True})', 'c = dict(optim={"fused": xla.supports_fused()})'),
        ('c = dict(type="SGD", lr=1, fused=True)', 'c = dict(type="SGD", lr=1, fused=xla.supports_fused())'),
        ("o = optimizer_class(p, fused=True)", "o = optimizer_class(p, fused=xla.supports_fused())"),
    ],
)  # fmt: skip
def test_fused(before: str, after: str) -> None:
    assert migrated(f"{HEAD}{before}\n").endswith(f"\n{after}\n")


@pytest.mark.parametrize(
    "line",
    [
        "o = optim.Adam(p, fused=False)",
        "o = optim.Adam(p, fused=None)",
        "o = optim.Adam(p, **options)",
        "a = Attention(fused=True)",
        "a = nn.functional.attention(x, fused=True)",
        "d = {'fused': True}",
        "d = {'attention': {'fused': True}, 'name': 'adaptive'}",
        "d = dict(type='LayerNorm', fused=True)",
        "def adam(fused): ...\n\nadam(fused=True)",
    ],
)
def test_not_fused(line: str) -> None:
    assert migrated(f"{HEAD}{line}\n") == f"{HEAD}{line}\n"
    assert findings(f"{HEAD}{line}\n") == []


@pytest.mark.parametrize(
    ("call", "severity"),
    [
        ("optim.Adam(p, capturable=True)", "warning"),
        ("optim.Adam(p, capturable=True, foreach=True)", "error"),
    ],
)
def test_capturable(call: str, severity: str) -> None:
    source = f"{HEAD}o = {call}\n"
    assert [f.severity for f in check(source.encode())] == [severity]
    assert "capturable" not in migrated(source)


@pytest.mark.parametrize("name", ["LBFGS", "lbfgs.LBFGS"])
def test_lbfgs_decides_on_the_host(name: str) -> None:
    """And is stepped as an optimizer, also in a file that was migrated."""
    source = f"{HEAD}model.to(device)\no = optim.{name}(p, line_search_fn='strong_wolfe')\nloss.backward()\no.step(closure)\n"
    text = migrated(source)
    assert "o = xla.LBFGS(p, line_search_fn='strong_wolfe')" in text
    assert "xla.optimizer_step(o, closure)" in text
    again = text.replace("xla.optimizer_step(o, closure)", "o.step(closure)")
    assert migrated(again) == text
    assert findings(f"{HEAD}o = optim.{name}(p)\n") == []  # on the CPU


@pytest.mark.parametrize("name", ["ASGD", "Adafactor", "SparseAdam"])
def test_fact_3_27_slow_optimizers(name: str) -> None:
    source = f"{HEAD}model.to(device)\nloss.backward()\no = optim.{name}(p)\n"
    assert "XLA307" in [code for _, code in findings(source)]
    assert findings(f"{HEAD}o = optim.{name}(p)\n") == []  # on the CPU


MOVED = [
    ("for s in optimizer.state.values():\n    for k, v in s.items():\n        if torch.is_tensor(v):\n            s[k] = v.cuda()\n", "optimizer"),
    ("for s in optimizer.state.values():\n    for k, v in s.items():\n        s[k] = v.cuda(rank)\n", "optimizer, rank"),
    ("for s in optimizer.state.values():\n    for k, v in s.items():\n        s[k] = v.to('cuda:0')\n", "optimizer"),
    ("for p, s in optimizer.state.items():\n    for k in s:\n        s[k] = s[k].to(device=device)\n", "optimizer, device"),
    ("for s in self.optimizer.state.values():\n    for k, v in s.items():\n        if isinstance(v, torch.Tensor):\n            s[k] = v.to(device)\n", "self.optimizer, device"),
    ("for p in optim.state.values():\n    if isinstance(p, torch.Tensor):\n        p.data = p.data.to(device)\n        if p._grad is not None:\n            p._grad.data = p._grad.data.to(device)\n    elif isinstance(p, dict):\n        for q in p.values():\n            q.data = q.data.to(device)\n", "optim, device"),
]  # fmt: skip


@pytest.mark.parametrize(("loop", "given"), MOVED)
def test_fact_3_28_state_moved_by_hand(loop: str, given: str) -> None:
    """Its place is not seen: what was loaded before the model was moved has to be moved."""
    after = migrated("import torch\n" + loop + "x = 1\n")
    assert after == f"import torch\n{IMPORT}xla.move_state({given})\nx = 1\n"


@pytest.mark.parametrize(
    "loop",
    [
        "for s in optimizer.state.values():\n    for k, v in s.items():\n        s[k] = v.cpu()\n",
        "for s in machine.state.values():\n    for k, v in s.items():\n        s[k] = v.cuda()\n",
        "for s in optimizer.state.values():\n    s['step'] = 0\n",
        "for s in optimizer.state.values():\n    for k, v in s.items():\n        s[k] = v.to(torch.float32)\n",
        "for s in optimizer.state.values():\n    for k, v in s.items():\n        s[k] = v.to(device, dtype=dtype)\n",
        "for s in optimizer.state.values():\n    print(s)\n    s['a'] = s['a'].to(device)\n",
    ],
)
def test_other_loops_over_states(loop: str) -> None:
    assert [code for _, code in findings("import torch\n" + loop) if code == "XLA308"] == []


def test_transformers_adamw_only_when_asked() -> None:
    source = "import torch\nfrom transformers import AdamW\no = AdamW(p, 1e-4, weight_decay=0.01)\n"
    assert migrated(source) == source
    assert "o = torch.optim.AdamW(p, 1e-4, weight_decay=0.01, eps=1e-6)\n" in migrated(
        source, unsafe=True
    )
    biased = source.replace("weight_decay=0.01", "correct_bias=False")
    assert migrated(biased, unsafe=True) == biased
    assert findings(biased) == [(3, "XLA306")]


@pytest.mark.parametrize(
    "line",
    [
        "clip_grad_norm_(p, 1.0)",
        "clip = clip_grad_norm_",
    ],
)
def test_apex_clip_grad(line: str) -> None:
    source = f"import torch\nfrom apex.contrib.clip_grad import clip_grad_norm_\n{line}\n"
    expected = line.replace("clip_grad_norm_", "torch.nn.utils.clip_grad_norm_")
    assert migrated(source) == f"import torch\n{expected}\n"


@pytest.mark.parametrize(
    "source",
    [
        "o = torch.optim.Adam(p, capturable=args.capturable)",
        "kw = dict(lr=1e-3, capturable=True)\no = torch.optim.Adam(p, **kw)",
        "kw = {'capturable': True}\no = torch.optim.Adam(p, **kw)",
        "o.param_groups[0]['capturable'] = True",
        "for group in o.param_groups:\n    group['capturable'] = True",
        "kw = {}\nkw['capturable'] = capturable",
    ],
)
def test_capturable_that_is_set_elsewhere_is_found(source: str) -> None:
    assert [code for _, code in findings(f"import torch\nfrom torch import optim\n{source}\n")] == [
        "XLA305"
    ]


@pytest.mark.parametrize(
    "source",
    [
        "kw = dict(capturable=False)",
        "group['capturable'] = False",
        "x = group['capturable']",
        "d = {'capturable': None}",
        "my.Adam(p, capturable=True)",
    ],
)
def test_capturable_that_is_off_or_of_others_stays(source: str) -> None:
    assert findings(f"import torch\nfrom torch import optim\n{source}\n") == []


@pytest.mark.parametrize(
    ("parameter", "defaults", "found"),
    [
        ("*, capturable=False", "dict(lr=lr, capturable=capturable)", False),
        ("capturable: bool = False", "{'lr': lr, 'capturable': capturable}", False),
        ("capturable=True", "dict(lr=lr, capturable=capturable)", True),
        ("capturable", "dict(lr=lr, capturable=capturable)", True),
        ("*, other=False", "dict(lr=lr, capturable=True)", True),
    ],
)
def test_capturable_that_an_optimizer_hands_on_is_its_callers_affair(
    parameter: str, defaults: str, found: bool
) -> None:
    source = (
        "import torch\nclass Own(torch.optim.Optimizer):\n"
        f"    def __init__(self, params, {parameter}, lr=1):\n"
        f"        super().__init__(params, {defaults})\n"
    ).replace("capturable, lr=1", "capturable, lr")
    assert ("XLA305" in {code for _, code in findings(source)}) is found


@pytest.mark.parametrize(
    "owner", ['parts["optimizer"]', "get_optimizer(name)", "parts[0].optimizers[0]"]
)
def test_state_of_an_optimizer_that_is_an_entry_or_an_answer(owner: str) -> None:
    source = f"""
import torch
def load(parts, get_optimizer, name, device):
    for state in {owner}.state.values():
        for key, value in state.items():
            if torch.is_tensor(value):
                state[key] = value.to(device)
"""
    found = [f for f in check(source.encode()) if f.code == "XLA308"]
    assert [f.line for f in found] == [4]


@pytest.mark.parametrize("body", ["self.state[key] = value.to(device)", "value = value.cuda()"])
def test_other_states_are_none_of_our_business(body: str) -> None:
    source = f"def move(self, device):\n    for key, value in self.state.items():\n        {body}\n"
    assert "XLA308" not in [f.code for f in check(source.encode())]


@pytest.mark.parametrize(
    "made",
    [
        "opt = getattr(torch.optim, name)(p, fused=True)",
        "cls = getattr(torch.optim, name)\n    opt = cls(p, lr=1, fused=True)",
        "opt = vars(torch.optim)[name](p, fused=True)",
        "table = {'adam': torch.optim.Adam, 'sgd': torch.optim.SGD}\n    opt = table[name](p, fused=True)",
        "make = functools.partial(torch.optim.Adam, fused=True)\n    opt = make(p)",
        "cls = torch.optim.Adam if fast else torch.optim.AdamW\n    opt = cls(p, fused=True)",
        "make = lambda p, **k: torch.optim.Adam(p, **k)\n    opt = make(p, fused=True)",
        "opts = [c(p, fused=True) for c in (torch.optim.Adam, torch.optim.SGD)]",
        "opt = torch.optim.Adam([{'params': p, 'fused': True}])",
        "opt = torch.optim.Adam([dict(params=p, fused=True)])",
        "for group in opt.param_groups:\n        group['fused'] = True",
        "opt.defaults['fused'] = True",
    ],
)
def test_fused_by_way_of_names_tables_and_groups(made: str) -> None:
    after = migrated(
        f"import functools\nimport torch\n\ndef main(p, name, fast, opt):\n    {made}\n"
    )
    assert "xla.supports_fused()" in after
    assert "True" not in after


def test_fused_of_a_base_class() -> None:
    after = migrated("""
import torch

class Mine(torch.optim.AdamW):
    def __init__(self, params):
        super().__init__(params, fused=True)
""")
    assert "super().__init__(params, fused=xla.supports_fused())" in after


@pytest.mark.parametrize(
    "line",
    [
        "layer = Norm(8, fused=True)",
        "make = functools.partial(torch.nn.LayerNorm, fused=True)",
        "state['fused'] = True",
        "options = {'name': 'x', 'fused': True}",
        "norm = dict(fused=True)",
    ],
)
def test_fused_of_something_else_stays(line: str) -> None:
    source = f"import functools\nimport torch\n\ndef main(Norm, state):\n    {line}\n"
    assert migrated(source) == source
