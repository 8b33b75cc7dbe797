"""Numbers of devices, followed through calls, attributes, options, processes and the modules of a project."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.devices.numbers import Numbers

from ...analysis.projects.test_project import after
from ...helpers import findings, migrated, script

MOVE = "import torch\n\ndef move(x, device):\n    return x.to(device)\n"
CALL = (
    "import torch\n{imports}\n\ndef main(model, x, rank, loss):\n    {call}\n    loss.backward()\n"
)


@pytest.mark.parametrize(
    ("imports", "before", "then"),
    [
        ("from lib import move", "move(x, rank)", "move(x, xla.xla_device(rank))"),
        ("from lib import move as put", "put(x, device=rank)", "put(x, device=xla.xla_device(rank))"),
        ("import lib", "lib.move(x, rank)", "lib.move(x, xla.xla_device(rank))"),
        ("import lib", "lib.move(x, 1)", "lib.move(x, xla.xla_device(1))"),
        ("from lib import move", "move(device=rank, x=x)", "move(device=xla.xla_device(rank), x=x)"),
        ("from pkg import move", "move(x, rank)", "move(x, xla.xla_device(rank))"),
    ],
)  # fmt: skip
def test_a_function_of_another_module_is_handed_a_device(
    imports: str, before: str, then: str
) -> None:
    files = {
        "lib.py": MOVE,
        "pkg/__init__.py": "from .moving import move\n",
        "pkg/moving.py": MOVE,
        "main.py": CALL.format(imports=imports, call=before),
    }
    results = after(files)
    assert then in results["main.py"]
    assert results["lib.py"] == MOVE
    assert results["pkg/moving.py"] == MOVE


@pytest.mark.parametrize(
    "more",
    ["print(device)", "torch.manual_seed(device)", "names[device]", "if device == 0: print(x)", "device + 1"],
)  # fmt: skip
def test_what_is_a_number_for_something_else_stays_one_and_becomes_a_device_at_its_use(
    more: str,
) -> None:
    lib = f"import torch\n\ndef move(x, names, device):\n    {more}\n    return x.to(device)\n"
    main = CALL.format(imports="from lib import move", call="move(x, [0], rank)")
    results = after({"lib.py": lib, "main.py": main})
    assert "move(x, [0], rank)" in results["main.py"]
    assert "return x.to(xla.xla_device(device))" in results["lib.py"]


@pytest.mark.parametrize(
    "call",
    [
        "partial(move, device=rank)(x)",
        "mp.spawn(work, args=(2,), nprocs=2)",
        "mp.spawn(partial(work, size=2), nprocs=2)",
        "mp.Process(target=move, args=(x, rank)).start()",
        "mp.Process(target=move, args=(x,), kwargs={'device': rank}).start()",
        "options = {'device': rank}\n    move(x, **options)",
    ],
)
def test_what_is_called_later_or_in_another_process(call: str) -> None:
    """A device must not be made in the process that starts others."""
    source = (
        "import torch\nimport torch.multiprocessing as mp\nfrom functools import partial\n\n"
        "def move(x, device):\n    return x.to(device)\n\n"
        "def work(device, size):\n    return torch.ones(size, device=device)\n\n"
        f"def main(x, rank, loss):\n    {call}\n    loss.backward()\n"
    )
    result = migrated(source)
    name = "work" if "(work" in call else "move"
    use = "torch.ones(size, device=xla.xla_device(device))"
    assert (use if name == "work" else "x.to(xla.xla_device(device))") in result
    assert "rank" not in call or "xla.xla_device(rank)" not in result


@pytest.mark.parametrize(
    ("given", "use"),
    [
        ("args.device = ngpus * node_rank + gpu", "args.device"),
        ("args.where = rank", "args.where"),
        ("options = {'device': rank}", "options['device']"),
        ("options = dict(device=rank)", "options['device']"),
        ("options = {}\n    options['device'] = rank", "options['device']"),
        ("place = rank if size > 1 else 0", "place"),
        ("place = int(os.environ['LOCAL_RANK'])", "place"),
        ("place, size = dist.get_rank(), 2", "place"),
        ("place = get()", "place"),
        ("place = getattr(args, 'place', 0)", "place"),
    ],
)
def test_names_attributes_and_entries(given: str, use: str) -> None:
    source = (
        "import os\nimport torch\nimport torch.distributed as dist\n\ndef get():\n    return dist.get_rank()\n\n"
        f"def main(args, x, rank, ngpus, node_rank, gpu, size, loss):\n    {given}\n    x = x.to({use})\n"
        f"    y = torch.ones(2, device={use})\n    loss.backward()\n"
    )
    result = migrated(source)
    assert f"x.to(xla.xla_device({use}))" in result
    assert f"device=xla.xla_device({use})" in result


TRAINER = """
import torch

class Base:
    def __init__(self, model, device):
        self.model = model
        self.device = device

class Trainer(Base):
    {init}
    def step(self, x):
        loss = self.model(x.to(self.device)).mean()
        loss.backward()
"""


@pytest.mark.parametrize(
    "init",
    [
        "",
        "def __init__(self, model, device):\n        super().__init__(model, device)\n",
        "def __init__(self, model, device=None):\n        self.device = device\n        self.model = model\n",
    ],
)
@pytest.mark.parametrize("given", ["rank", "device=rank"])
def test_what_a_constructor_keeps(init: str, given: str) -> None:
    main = CALL.format(imports="from trainer import Trainer", call=f"Trainer(model, {given})")
    results = after({"trainer.py": TRAINER.format(init=init), "main.py": main})
    assert "x.to(xla.xla_device(self.device))" in results["trainer.py"]
    assert f"Trainer(model, {given})" in results["main.py"]


@pytest.mark.parametrize("made", ["self.t = Trainer(x)", "t = Trainer(x)"])
def test_a_method_of_an_object_of_another_module(made: str) -> None:
    lib = "import torch\n\nclass Trainer:\n    def evaluate(self, x, device):\n        return x.to(device)\n"
    name = made.partition(" ")[0]
    call = f"{made}\n        {name}.evaluate(x, rank)\n        loss.backward()"
    main = f"import torch\nfrom lib import Trainer\n\nclass Run:\n    def run(self, x, rank, loss):\n        {call}\n"
    results = after({"lib.py": lib, "main.py": main})
    assert f"{name}.evaluate(x, xla.xla_device(rank))" in results["main.py"]
    assert results["lib.py"] == lib


def test_options_that_the_caller_has_set() -> None:
    lib = "import torch\n\ndef train(opts, model, loss):\n    model.to(opts.where)\n    loss.backward()\n"
    main = "import lib\n\ndef main(opts, model, loss, rank):\n    opts.where = rank\n    lib.train(opts, model, loss)\n"
    assert (
        "model.to(xla.xla_device(opts.where))" in after({"lib.py": lib, "main.py": main})["lib.py"]
    )


def test_a_number_of_a_module_of_settings() -> None:
    main = "import torch\nfrom settings import where\n\ndef f(x, loss):\n    x.to(where)\n    loss.backward()\n"
    results = after({"settings.py": "where = 0\n", "main.py": main})
    assert "x.to(xla.xla_device(where))" in results["main.py"]


def test_nothing_is_moved_where_no_device_is_given() -> None:
    source = (
        "import torch\n\ndef make(n, device=None):\n    print(device)\n    return torch.ones(n, device=device)\n\n"
        "def main(rank, loss):\n    make(1)\n    make(2, rank)\n    loss.backward()\n"
    )
    assert "device=None if device is None else xla.xla_device(device)" in migrated(source)


def test_a_device_through_two_functions_is_made_once() -> None:
    source = (
        "import torch\n\ndef inner(x, device):\n    return x.to(device)\n\n"
        "def outer(x, device):\n    return inner(x, device)\n\n"
        "def main(x, rank, loss):\n    outer(x, rank)\n    loss.backward()\n"
    )
    expected = source.replace("outer(x, rank)", "outer(x, xla.xla_device(rank))")
    assert migrated(source).replace("from xla_migrate import runtime as xla\n", "") == expected


@pytest.mark.parametrize(
    "source",
    [
        # devices of any other kind
        "def move(x, device):\n    return x.to(device)\n\ndef main(x, device, loss):\n    move(x, device)\n    loss.backward()\n",
        "def move(x, device):\n    return x.to(device)\n\ndef main(x, y, loss):\n    move(x, y.device)\n    loss.backward()\n",
        # types
        "def cast(x, kind):\n    return x.to(kind)\n\ndef main(x, loss):\n    cast(x, torch.int64)\n    loss.backward()\n",
        # methods of the same name of other things
        "class Net:\n    def update(self, device):\n        return self.x.to(device)\n\ndef main(meter, loss):\n    meter.update(loss)\n    loss.backward()\n",
        # a function that does not move
        "def camera(device):\n    return open(device)\n\ndef main(loss):\n    camera(device=0)\n    loss.backward()\n",
        # converted before it is used
        "def main(x, names, loss):\n    device = 0\n    device = names[device]\n    x.to(device)\n    loss.backward()\n",
    ],
)  # fmt: skip
def test_what_is_no_number_stays(source: str) -> None:
    source = f"import torch\n\n{source}"
    assert migrated(source) == source


def hands(k: int, end: str) -> str:
    """Functions that each hand their device to the next three times: 3 to the power of `k` ways, and back to the first."""
    return "\n".join(
        f"def f{i}(x, device):\n    {end}\n"
        + "".join(f"    f{(i + 1) % k}(x, device)\n" for _ in range(3))
        + "    return x.to(device)\n"
        for i in range(k)
    )


@pytest.mark.parametrize("end", ["torch.empty(2, device=device)", "print(device)"])
def test_functions_that_call_each_other_in_many_ways_are_each_looked_at_once(end: str) -> None:
    source = (
        f"import torch\n\n{hands(40, end)}\n"
        "def main(x, rank, loss):\n    f0(x, rank)\n    loss.backward()\n"
    )
    result = migrated(source)
    if end.startswith("print"):
        assert "f0(x, rank)" in result
        assert result.count("return x.to(xla.xla_device(device))") == 40
    else:
        assert "f0(x, xla.xla_device(rank))" in result
        assert "return x.to(xla." not in result


CHOOSING = """import torch

def default(value, other):
    {body}

def fit(model, args, steps, x, loss, own):
    steps = default(steps, 1000)
    rank = default(args.rank, 0)
    device = {chosen}
    model.to(device)
    loss.backward()
"""


@pytest.mark.parametrize(
    "body",
    [
        "return value if value is not None else other",
        "return value or other",
        "if value is not None:\n        return value\n    return other",
    ],
)
@pytest.mark.parametrize(
    ("chosen", "is_number"),
    [
        ("default(args.device, own.device)", False),
        ("default(own.device, x.device)", False),
        ("default(value=args.device, other=x.device)", False),
        ("default(args.device, 0)", True),
        ("default(args.device, rank)", True),
        ("default(value=rank, other=x.device)", True),
    ],
)
def test_what_a_helper_hands_back_is_what_this_call_hands_it(
    body: str, chosen: str, is_number: bool
) -> None:
    found = {code for _, code in findings(CHOOSING.format(body=body, chosen=chosen))}
    assert ("XLA106" in found) is is_number


@pytest.mark.parametrize("functions", [2, 8, 30])
def test_a_number_is_followed_through_any_number_of_functions(functions: int) -> None:
    calls = "".join(
        f"def f{k}(x, where):\n    print(where)\n    return f{k + 1}(x, where)\n\n"
        for k in range(functions)
    )
    last = f"def f{functions}(x, where):\n    print(where)\n    return x.to(where)\n\n"
    source = f"import torch\n\n{calls}{last}f0(torch.ones(2), 0)\n"
    assert "return x.to(xla.xla_device(where))" in migrated(source)


def test_a_number_that_depends_on_itself_ends() -> None:
    source = """
import torch

def even(x, n, where):
    return odd(x, n - 1, where) if n else x.to(where)

def odd(x, n, where):
    return even(x, n - 1, where)

print(even(torch.ones(2), 4, {}))
"""
    assert "even(torch.ones(2), 4, xla.xla_device(1))" in migrated(source.format("1"))
    assert migrated(source.format('"cpu"')) == source.format('"cpu"')


def test_calls_of_a_function_are_searched_only_for_arguments_that_are_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To search all modules for the calls of each called function costs the square of their number."""
    main = 'device = torch.device("cpu")\nmove(torch.ones(2), device)\n'
    numbers = Numbers(script(f"{MOVE}\n{main}"))
    searched: list[object] = []
    monkeypatch.setattr(numbers.passed, "of", lambda *given: searched.append(given) or iter(()))
    assert list(numbers.made_devices()) == []
    assert searched == []


@pytest.mark.parametrize(
    ("given", "moved"),
    [
        ("device = torch.cuda.current_device()", "x.to(device)"),
        ("device = device or torch.cuda.current_device()", "x.to(device=device)"),
        ("if device is None:\n        device = torch.cuda.current_device()", "x.to(device)"),
        ("self.device = torch.cuda.current_device()", "x.to(self.device)"),
    ],
)
def test_the_current_device_is_a_device_already(given: str, moved: str) -> None:
    source = f"import torch\n\ndef move(self, x, device=None):\n    {given}\n    return {moved}\n"
    assert migrated(source).endswith(f"    return {moved}\n")


def test_the_number_of_the_current_device_is_not() -> None:
    source = "import torch\n\ndef move(x):\n    device_id = torch.cuda.current_device()\n    return x.to(device_id)\n"
    assert migrated(source).endswith("    return x.to(xla.xla_device(device_id))\n")


@pytest.mark.parametrize(
    "use", ["parts[device] = x", "print(device == 0)", "port = 1000 + device", "same = device\n    parts[same]"]
)  # fmt: skip
def test_a_name_that_is_a_device_and_a_number_is_left(use: str) -> None:
    source = f"import torch\n\ndef move(x, parts):\n    device = torch.cuda.current_device()\n    {use}\n    return x.to(device)\n"
    assert "device = torch.cuda.current_device()\n" in migrated(source)


@pytest.mark.parametrize(
    "use", ["print(f'{device}')", "print(device == x.device)", "parts[x] = device"]
)
def test_other_uses_leave_it_a_device(use: str) -> None:
    source = f"import torch\n\ndef move(x, parts):\n    device = torch.cuda.current_device()\n    {use}\n    return x.to(device)\n"
    assert "device = xla.xla_device()\n" in migrated(source)
