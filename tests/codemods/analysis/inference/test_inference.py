"""What expressions are found to be, and at what cost."""

from __future__ import annotations

import ast

import pytest

from xla_codemods.analysis.inference.values import ACCEL, HOST, NUMBER, TENSOR, Value
from xla_codemods.analysis.script import Script

from ...helpers import script


def value_of(model: Script, text: str) -> Value:
    """The value of the last expression in the source that reads `text`."""
    nodes = [n for n in ast.walk(model.tree) if isinstance(n, ast.expr) and ast.unparse(n) == text]
    return model.value(max(nodes, key=lambda n: (n.lineno, n.col_offset)))


def test_a_name_in_a_cycle_knows_all_that_the_cycle_binds() -> None:
    model = script("""
        import torch
        a = torch.ones(2, device="cuda")
        b = torch.ones(2, device="cpu")
        for _ in range(3):
            a, b = b, a
        print(a, b)
        """)
    for name in ("a", "b"):
        assert value_of(model, name).has(TENSOR)
        assert not value_of(model, name).kinds & {ACCEL, HOST}  # either: so neither is claimed


def test_a_sum_that_feeds_itself() -> None:
    model = script("""
        total = 0.0
        for loss in losses:
            total = total + loss.item()
        print(total)
        """)
    assert value_of(model, "total").has(NUMBER)


def test_values_that_all_depend_on_each_other_cost_no_exponential_time() -> None:
    names = [f"v{k}" for k in range(40)]
    lines = [f"{name} = torch.add({', '.join(names)})" for name in names]
    model = script("import torch\n" + "\n".join(lines) + "\nprint(v0)\n")
    assert value_of(model, "v0").has(TENSOR)
    assert model.inference._work < 60_000


@pytest.mark.parametrize(
    ("source", "asked", "kinds"),
    [
        ("x = torch.ones(2).to(device)", "x", {TENSOR, ACCEL}),
        ("x = torch.ones(2).to(args.device)", "x", {TENSOR, ACCEL}),
        ("x = torch.ones(2).to(something)", "x", {TENSOR}),
        ("x = torch.ones(2).to(torch.float16)", "x", {TENSOR, HOST}),
        ("x = torch.ones(2).to(torch.zeros(1))", "x", {TENSOR, HOST}),
        ("x = torch.ones(2, device=device)", "x", {TENSOR, ACCEL}),
        ("x = torch.ones(2, device='cpu')", "x", {TENSOR, HOST}),
        ("o = {'device': 'cuda'}\nx = torch.ones(2, **o)", "x", {TENSOR, ACCEL}),
        ("o = {'device': 'cpu'}\no['device'] = d\nx = torch.ones(2, **o)", "x", {TENSOR}),
        ("x = torch.ones(2, **options)", "x", {TENSOR}),
        ("def f(**o):\n    return torch.ones(2, **o)\nx = f(device='cuda')", "x", {TENSOR, ACCEL}),
        ("x = torch.ones(2).to(**dict(device='cuda'))", "x", {TENSOR, ACCEL}),
        ("x = torch.ones(2)\nx = x.cuda()", "x", {TENSOR, ACCEL}),
        ("for x in DataLoader(d):\n    x = x.to(device)\n    y = x", "y", {TENSOR, ACCEL}),
        ("x = [t.to(device) for t in DataLoader(d)][0]", "x", {TENSOR, ACCEL}),
        ("x = nn.Linear(2, 2)(torch.ones(2).cuda())", "x", {TENSOR, ACCEL}),
        ("x = nn.Linear(2, 2)(torch.ones(2))", "x", {TENSOR, HOST}),
        (
            "x = [nn.Linear(2, 2)(t) for t in DataLoader(d)][0]",
            "x",
            {TENSOR},
        ),  # made there, perhaps
        ("y = torch.ones(2)\nx = y.cuda() if flag else y", "x", {TENSOR, ACCEL}),
        ("y = torch.ones(2)\nx = y if flag else y.to('cuda')", "x", {TENSOR, ACCEL}),
        ("y = torch.ones(2)\nx = torch.ones(2).cuda() if flag else y", "x", {TENSOR}),
        ("x = torch.ones(2)\nif flag:\n    x = x.cuda()", "x", {TENSOR, ACCEL}),
        ("x = y = torch.ones(2)\nif flag:\n    x, y = x.cuda(), y.cuda()", "y", {TENSOR, ACCEL}),
        ("x = torch.ones(2)\nif flag:\n    x = torch.zeros(2).cuda()", "x", {TENSOR}),
        ("x = torch.ones(2)\nif flag:\n    x = x.cpu()", "x", {TENSOR, HOST}),
        ("x = F.cross_entropy(torch.ones(2).cuda(), y)", "x", {TENSOR, ACCEL}),
        ("x = torch.ones(2).cuda().sum().item()", "x", {NUMBER}),
        ("x = torch.ones(2).cuda().cpu()", "x", {TENSOR, HOST}),
        ("x = torch.autograd.Variable(torch.ones(2).cuda())", "x", {TENSOR, ACCEL}),
        ("x = torch.autograd.Variable(y, requires_grad=True)", "x", {TENSOR}),
    ],
)
def test_where_tensors_are(source: str, asked: str, kinds: set[str]) -> None:
    head = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
    head += "from torch.utils.data import DataLoader\nloss.backward()\n"
    found = value_of(script(f"{head}{source}\nprint({asked})\n"), asked).kinds
    assert found & {TENSOR, ACCEL, HOST, NUMBER} == kinds


@pytest.mark.parametrize(
    "helper",
    [
        "def default(*args):\n    for arg in args:\n        if arg is not None:\n            return arg",
        "def default(*args):\n    for arg in args:\n        if arg is not None:\n            return arg() if callable(arg) else arg",
        "def default(value, other):\n    return value if value is not None else other",
        "def default(value, d):\n    return value if value is not None else (d() if callable(d) else d)",
    ],
)
def test_a_helper_hands_back_what_this_call_passes(helper: str) -> None:
    model = script(f"""import torch
{helper}
x = default(None, torch.ones(2, device="cuda"))
n = default(None, 3)
print(x, n)
""")
    assert value_of(model, "x").has(TENSOR)
    assert value_of(model, "x").has(ACCEL)
    assert value_of(model, "n").kinds == {NUMBER}


def test_a_helper_runs_the_function_that_this_call_passes() -> None:
    model = script("""
        import torch
        def made():
            return torch.ones(2, device="cuda")
        def default(value, d):
            return value if value is not None else (d() if callable(d) else d)
        x = default(None, made)
        print(x)
        """)
    assert value_of(model, "x").has(TENSOR)


def test_a_local_module_gives_what_its_forward_returns() -> None:
    model = script("""
        import torch
        from torch import nn
        class Net(nn.Module):
            def forward(self, x):
                return self.layer(x), len(x), {"loss": x.sum()}
        net = Net()
        out, n, extra = net(torch.ones(2).cuda())
        loss = extra["loss"]
        print(out, n, loss)
        """)
    assert value_of(model, "out").kinds == {TENSOR, ACCEL}
    assert value_of(model, "n").kinds == {NUMBER}
    assert value_of(model, "loss").has(ACCEL)


def test_what_an_open_cycle_cuts_short_is_not_remembered() -> None:
    inference = script("a = 1\n").inference
    searches = list[str]()

    def whole() -> int:
        searches.append("whole")
        return 1

    def cut() -> int:
        searches.append("cut")
        inference._cycle = 0  # a value that is being evaluated further out was asked for
        return 1

    for _ in range(2):
        inference.remembered(whole)
        inference.remembered(cut)
    assert searches == ["whole", "cut", "cut"]
