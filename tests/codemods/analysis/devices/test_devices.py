"""What a script says of devices: names of devices, choices by availability, places."""

from __future__ import annotations

import ast

import pytest

from xla_codemods.analysis.devices import literal_context as room
from xla_codemods.analysis.devices.availability import asks_availability, whole_choice
from xla_codemods.analysis.devices.literal_context import place
from xla_codemods.analysis.script import Script

from ...helpers import script

HEAD = "import torch\n"


def expression(text: str, before: str = "") -> tuple[Script, ast.expr]:
    """The model of a script that ends with `text` assigned to `y`, and that expression."""
    model = script(f"{HEAD}{before}y = {text}\nloss.backward()\n")
    statement = model.tree.body[-2]
    assert isinstance(statement, ast.Assign)
    return model, statement.value


@pytest.mark.parametrize(
    ("text", "ordinal"),
    [
        ('"cuda"', None),
        ('"cuda:0"', 0),
        ('"cuda:12"', 12),
        ('f"cuda"', None),
        ('f"cuda:{rank}"', "rank"),
        ('"cuda:%d" % rank', "rank"),
        ('"cuda:%d" % (rank,)', "rank"),
        ('"cuda:{}".format(a.gpu)', "a.gpu"),
        ('"cuda:" + str(rank)', "rank"),
        ('"cuda:" + gpu', "gpu"),
        ('f"{torch.accelerator.current_accelerator()}:{rank}"', "rank"),
        ('f"{torch.accelerator.current_accelerator()}:1"', 1),
    ],
)
def test_names_of_devices(text: str, ordinal: object) -> None:
    model, node = expression(text)
    spec = model.devices.spec(node)
    assert spec is not None
    found = spec.ordinal
    assert (ast.unparse(found) if isinstance(found, ast.expr) else found) == ordinal


@pytest.mark.parametrize(
    "text",
    ['"cpu"', '"CUDA"', '"cuda:"', '"cuda:x"', '"cuda_ext"', 'f"cuda:{a}:{b}"', 'f"cuda:{a:02d}"',
     'f"{kind}:{rank}"', '"cuda" + "x"', '"cuda:{}"', "cuda", "0"],
)  # fmt: skip
def test_what_names_no_device(text: str) -> None:
    model, node = expression(text)
    assert model.devices.spec(node) is None


@pytest.mark.parametrize(
    ("text", "before", "answer"),
    [
        ("torch.cuda.is_available()", "", True),
        ("torch.accelerator.is_available()", "", True),
        ("torch.cuda.device_count() > 0", "", True),
        ("use", "use = torch.cuda.is_available()\n", True),
        ("use", "use = True if torch.cuda.is_available() else False\n", True),
        ("use", "use = torch.cuda.is_available()\nuse = use and flag\n", False),
        ("torch.cuda.is_available() and torch.cuda.device_count() > 0", "", True),
        ("bool(torch.cuda.is_available())", "", True),
        ("torch.cuda.is_available() is True", "", True),
        ("torch.cuda.device_count() == 0", "", False),
        ("torch.cuda.is_available() and flag", "", False),
        ("torch.backends.mps.is_available()", "", False),
        ("flag", "", False),
    ],
)
def test_what_asks_availability(text: str, before: str, answer: bool) -> None:
    model, node = expression(text, before)
    assert asks_availability(model, node) is answer


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ('"cuda" if torch.cuda.is_available() else "cpu"', True),
        ('"cpu" if not torch.cuda.is_available() else "cuda"', True),
        ('"cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"', True),
        ('"cuda" if torch.cuda.is_available() or torch.xpu.is_available() else "cpu"', True),
        ('"cuda" if hasattr(torch, "cuda") and torch.cuda.is_available() else "cpu"', True),
        ('"xpu" if hasattr(torch, "xpu") and torch.xpu.is_available() else "cuda" if torch.cuda.is_available() else "cpu"', True),
        ('"cuda" if hasattr(torch, "cuda") else "cpu"', False),
        ('"cuda" if torch.cuda.device_count() == 0 else "cpu"', False),
        ('"mps" if torch.backends.mps.is_available() else "cpu"', False),
        ('"cuda" if torch.cuda.is_available() else other', False),
        ('"cuda" if torch.cuda.is_available() and flag else "cpu"', False),
        ('"cuda" if flag else "cpu"', False),
        ('name if torch.cuda.is_available() else "cpu"', False),
    ],
)  # fmt: skip
def test_choices_that_are_the_accelerator_or_else_the_host(text: str, whole: bool) -> None:
    model, node = expression(text)
    assert (whole_choice(model, node) is not None) is whole


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ('x.to("cuda")', room.SINK),
        ('torch.ones(2, device="cuda")', room.SINK),
        ('device = "cuda"', room.NAME),
        ('f(device="cuda")', room.NAME),
        ('d = {"device": "cuda"}', room.NAME),
        ('y = device == "cuda"', room.TEST),
        ('train(model, "cuda")', room.MAYBE),
        ('backend = "cuda"', room.KEPT),
        ('print("cuda")', room.ELSEWHERE),
        ('torch.autocast("cuda")', room.ELSEWHERE),
        ('d = {"cuda": 1}', room.ELSEWHERE),
        ('y = names["cuda"]', room.ELSEWHERE),
    ],
)
def test_places(source: str, where: str) -> None:
    model = script(f"{HEAD}{source}\nloss.backward()\n")
    (node,) = (n for n, _ in model.index.of(ast.Constant) if n.value == "cuda")
    assert place(model, node) == where


def test_functions_that_return_each_other_come_to_an_end() -> None:
    model = script(
        'def a():\n    return b()\ndef b():\n    return a() or "cuda"\nx.to(a())\nloss.backward()\n'
    )
    assert [p.place for p in model.device_literals.all] == [room.NAME]


def test_the_type_of_a_device_is_its_name() -> None:
    model, node = expression("torch.accelerator.current_accelerator().type")
    assert {"device", "string"} <= model.value(node).kinds
