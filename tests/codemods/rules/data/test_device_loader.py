"""Loaders around which a device loader stands: flags, types that move, prefetchers."""

from __future__ import annotations

import ast

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, migrate

from ...helpers import findings, migrated

HEAD = "import torch\nfrom torch.utils.data import DataLoader\n"
STEP = "        loss = model(x)\n        loss.backward()\n        optimizer.step()\n"


def header(setup: str, move: str) -> str:
    """What the header of a loop becomes that moves its batch by `move`."""
    source = f"{HEAD}{setup}def train(model, loader, optimizer, args, device):\n    for x in loader:\n        {move}\n{STEP}"
    after = migrated(source)
    assert migrated(after) == after
    return next(line.strip() for line in after.splitlines() if line.startswith("    for "))


PLAIN = "for x in xla.MpDeviceLoader(loader):"


@pytest.mark.parametrize(
    ("setup", "move", "after"),
    [
        ("", "if args.cuda:\n            x = x.cuda()", "for x in xla.MpDeviceLoader(loader) if args.cuda else loader:"),
        ("", "if args.use_gpu:\n            x = x.to(device)", "for x in xla.MpDeviceLoader(loader) if args.use_gpu else loader:"),
        ("", "if args.gpu != -1:\n            x = x.cuda()", "for x in xla.MpDeviceLoader(loader) if args.gpu != -1 else loader:"),
        ("", "if args.gpu >= 0:\n            x = x.cuda(args.gpu)", "for x in xla.MpDeviceLoader(loader) if args.gpu >= 0 else loader:"),
        ("", "if len(args.gpus) > 0:\n            x = x.cuda()", "for x in xla.MpDeviceLoader(loader) if len(args.gpus) > 0 else loader:"),
        ("", "if not args.cpu:\n            x = x.cuda()", "for x in xla.MpDeviceLoader(loader) if not args.cpu else loader:"),
        ("", 'if args.device == "cuda":\n            x = x.cuda()',
         "for x in xla.MpDeviceLoader(loader) if xla.is_accelerator(args.device) else loader:"),
        ("", 'if args.device != "cpu":\n            x = x.cuda()', 'for x in xla.MpDeviceLoader(loader) if args.device != "cpu" else loader:'),
        ("", "if torch.cuda.is_available() and not args.cpu:\n            x = x.cuda()",
         "for x in xla.MpDeviceLoader(loader) if not args.cpu else loader:"),
        ("", "x = x.cuda() if args.cuda else x", "for x in xla.MpDeviceLoader(loader) if args.cuda else loader:"),
        ("", "x = x if args.cpu else x.cuda()", "for x in xla.MpDeviceLoader(loader) if not args.cpu else loader:"),
        ("", "if args.no_cuda:\n            pass\n        else:\n            x = x.cuda()",
         "for x in xla.MpDeviceLoader(loader) if not args.no_cuda else loader:"),
        ("", "x = x if args.steps else x.cuda()", PLAIN),
        ("to = torch.device('cuda')\ndef fed(x, gpu, to):\n    if gpu:\n        return net(x.to(to))\n    return net(x)\n",
         "y = fed(x, args.cuda, to)\n        x = x.to(device) if args.cuda else x",
         "for x in xla.MpDeviceLoader(loader) if args.cuda else loader:"),
        ("", "if args.steps > 3:\n            x = x.cuda()", PLAIN),
        ("use_cuda = not args.no_cuda and torch.cuda.is_available()\n", "if use_cuda:\n            x = x.cuda()",
         "for x in xla.MpDeviceLoader(loader) if use_cuda else loader:"),
        # without an accelerator the device loader moves nothing
        ("use_cuda = torch.cuda.is_available()\n", "if use_cuda:\n            x = x.cuda()", PLAIN),
        ("cuda = True if torch.cuda.is_available() else False\n", "if cuda:\n            x = x.cuda()", PLAIN),
        # DataParallel moved the batch otherwise: the model is on the device all the same
        ("", "if args.gpu is not None:\n            x = x.cuda(args.gpu)", PLAIN),
        # the flag is not known where the loader is named
        ("", "cuda = len(x) > 2\n        if cuda:\n            x = x.cuda()", PLAIN),
        ("T = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor\n", "x = x.type(T)", PLAIN),
        ("", "x = x.type(torch.cuda.FloatTensor)", PLAIN),
        ("", "(x,) = [t.to(device) for t in (x,)]", PLAIN),
        ("", "x, z = (t.cuda(non_blocking=True) for t in [x, args.z])", PLAIN),
        ("", "(x,) = map(lambda t: t.to(device), (x,))", PLAIN),
        ("", "(x,) = [t + 1 for t in (x,)]", "for x in loader:"),
        ("", "x = x.type(torch.float16)", "for x in loader:"),
        ("", "x = x.to(torch.promote_types(x.dtype, torch.float32))", "for x in loader:"),
        ("", "kind = torch.promote_types(x.dtype, args.y.dtype)\n        x = x.flatten().to(kind)", "for x in loader:"),
        ("kind = torch.get_default_dtype()\n", "x = x.to(kind)", "for x in loader:"),
        ("", "kind = torch.result_type(x, args.y)\n        x = x.to(dtype=kind)", "for x in loader:"),
        ("kind = torch.float16\n", "x = x.to(kind)", "for x in loader:"),
    ],
)  # fmt: skip
def test_headers(setup: str, move: str, after: str) -> None:
    assert header(setup, move) == after


def test_a_class_that_hands_nothing_out_is_no_prefetcher() -> None:
    source = (
        "import torch\nclass Tests:\n    def test_a(self, sampler):\n        list(iter(sampler))\n"
        "    def test_b(self):\n        torch.cuda.Stream()\n        self.batch = self.batch.cuda()\n"
    )
    assert "XLA404" not in [code for _, code in findings(source)]
    assert "XLA404" in [code for _, code in findings(source.replace("test_b", "__next__"))]


@pytest.mark.parametrize("source", ["iter(loader)", "batches(loader)", "None"])
def test_what_counts_steps_beside_batches_that_are_fetched_is_no_loader(source: str) -> None:
    before = f"""\
import torch

def train(model, optimizer, loader, bar):
    source = {source}
    for step in bar:
        batch = next(source)
        x = batch["x"].cuda()
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
"""
    after = migrated(before)
    assert "for step in bar:\n" in after
    assert "xla.mark_step()\n" in after


@pytest.mark.parametrize(
    ("target", "use"),
    [
        ("loader", "pass"),
        ("i, dl", "pass"),
        ("part", "part.size = 4"),
        ("i, part", "part.size += i"),
    ],
)
def test_a_list_of_loaders_is_no_loader(target: str, use: str) -> None:
    loop = f"for {target} in {'enumerate(loaders)' if ',' in target else 'loaders'}:"
    element = target.split(", ")[-1]
    source = f"import torch\ndef join(loaders, device):\n    {loop}\n        {element}.to(device)\n        {use}\n    device.type == 'cuda'\n"
    assert loop in migrated(source)


@pytest.mark.parametrize(
    "bar",
    [
        "with trange(steps) as bar:",
        "with tqdm.trange(steps, disable=quiet) as bar:",
        "with tqdm(range(steps)) as bar:",
        "with tqdm.tqdm(range(1, steps)) as bar:",
        "bar = trange(steps)\n    if True:",
    ],
)
def test_a_bar_over_numbers_is_no_loader(bar: str) -> None:
    source = (
        f"import torch\nimport tqdm\nfrom tqdm import trange\n\n@torch.no_grad()\ndef predict(model, loader, steps, quiet):\n    {bar}\n"
        "        for _, x in zip(bar, loader):\n            model(x[0].cuda())\n"
    )
    text = migrated(source)
    assert "zip(bar, xla.MpDeviceLoader(loader))" in text


LEFT = "loader"


@pytest.mark.parametrize(
    ("target", "body", "iterated"),
    [
        ("x, y, path", "x, y = x.to(device), y.to(device)\n        log(path)", "xla.MpDeviceLoader(loader, host=(2,))"),
        ("x, y, path, i", "log(path, i)\n        x = x.to(device)", "xla.MpDeviceLoader(loader, host=(2, 3))"),
        ("(x, mask), path", "x = x.to(device)\n        log(path)", "xla.MpDeviceLoader(loader, host=(1,))"),
        ("x, *rest", "x = x.to(device)\n        log(rest)", LEFT),
        ("*x, path", "x = x[0].to(device)\n        log(path)", LEFT),
        ("x, y", "log(y.numpy())\n        x, y = x.to(device), y.to(device)", "xla.MpDeviceLoader(loader, host=(1,))"),
        ("x, y", "log(y.numpy(), x.numpy())\n        x, y = x.to(device), y.to(device)", LEFT),
        ("batch", "x, y, path = batch\n        x = x.to(device)\n        log(path)", "xla.MpDeviceLoader(loader, host=(2,))"),
        ("batch", "x = batch[0].to(device)\n        log(batch[1])", "xla.MpDeviceLoader(loader, host=(1,))"),
        ("batch", "x = batch[0].to(device)\n        log(batch[-1])", LEFT),
        ("batch", 'x = batch["x"].to(device)\n        log(batch["path"])', 'xla.MpDeviceLoader(loader, host=("path",))'),
        ("batch", 'x = batch["x"].to(device)\n        log(batch["path"], batch.get("id"))',
         'xla.MpDeviceLoader(loader, host=("id", "path"))'),
        ("batch", 'path = batch.pop("path")\n        batch = {k: v.to(device) for k, v in batch.items()}\n        x = batch["x"]\n        log(path)',
         'xla.MpDeviceLoader(loader, host=("path",))'),
        ("batch", 'x = batch["x"].to(device)\n        log(batch[key])', LEFT),
        ("batch", "x = batch.x.to(device)\n        log(batch.path[0])", 'xla.MpDeviceLoader(loader, host=("path",))'),
        ("batch", "log(batch.path)\n        batch = batch.to(device)\n        x = batch.x", 'xla.MpDeviceLoader(loader, host=("path",))'),
        # one part by two names, or a tensor's own attributes
        ("batch", "x = batch[0].to(device)\n        log(batch.path)", LEFT),
        ("x", "log(x.data.numpy())\n        x = x.to(device)", LEFT),
        ("x", "log(x.T.numpy())\n        x = x.to(device)", LEFT),
        # all of it, or nobody knows what
        ("batch", "x = batch[0].to(device)\n        log(batch)", LEFT),
        ("batch", "x = batch.x.to(device)\n        log(batch.describe())", LEFT),
        ("batch", 'x = batch["x"].to(device)\n        for k, v in batch.items():\n            log(k, v)', LEFT),
        ("batch", "x = move_to(batch, device)\n        log(batch[1])", "xla.MpDeviceLoader(loader, host=(1,))"),
        # moved before, or another value
        ("batch", 'for k in batch.keys():\n            batch[k] = batch[k].to(device)\n        log(batch["x"])', "xla.MpDeviceLoader(loader)"),
        ("x, path", "x = x.to(device)\n        path = 0\n        log(path)", "xla.MpDeviceLoader(loader)"),
    ],
)  # fmt: skip
def test_parts_that_are_needed_on_the_host(target: str, body: str, iterated: str) -> None:
    source = (
        f"{HEAD}def train(model, loader, optimizer, log, key, move_to, device):\n"
        f"    for {target} in loader:\n        {body}\n{STEP}"
    )
    after = migrated(source)
    assert next(line.strip() for line in after.splitlines() if line.startswith("    for ")) == (
        f"for {target} in {iterated}:"
    )
    assert migrated(after) == after


@pytest.mark.parametrize(
    ("moves", "host"),
    [
        ('{k: v.to(device) if k != "n" else v for k, v in batch.items()}', '"n",'),
        ('{k: v if "n" == k else v.to(device) for k, v in batch.items()}', '"n",'),
        ('{k: v.to(device) if k not in KEPT else v for k, v in batch.items()}', '"m", "n"'),
        ('{k: v if k in ["n"] or not torch.is_tensor(v) else v.to(device) for k, v in batch.items()}', '"n",'),
        ('{k: batch[k].to(device) if torch.is_tensor(batch[k]) and k != "n" else batch[k] for k in batch}', '"n",'),
        ('dict(batch)\n        for k, v in batch.items():\n            if k != "n":\n                batch[k] = v.to(device)', '"n",'),
        ('dict(batch)\n        for k in batch:\n            if k in KEPT: continue\n            batch[k] = batch[k].to(device)', '"m", "n"'),
        ('{k: v.to(device) if k == "x" else v for k, v in batch.items()}', ""),
        ('{k: v.to(device) if k != name else v for k, v in batch.items()}', ""),
        ('{k: v.to(device) if mode != "n" else v for k, v in batch.items()}', ""),
        ('{k: v.to(device) if k != "n" or len(v) else v for k, v in batch.items()}', ""),
    ],
)  # fmt: skip
def test_entries_that_are_not_moved(moves: str, host: str) -> None:
    source = f"""import torch
KEPT = ("m", "n")

def train(model, loader, optimizer, device, mode, name):
    model.cuda()
    for batch in loader:
        batch = {moves}
        optimizer.zero_grad()
        model(batch["x"]).mean().backward()
        optimizer.step()
"""
    given = f"(loader, host=({host}))" if host else "(loader)"
    assert f"in xla.MpDeviceLoader{given}:" in migrated(source)


@pytest.mark.parametrize(
    "pairs",
    [
        "for (x, path), y in zip(loader, others):",
        "pairs = zip(loader, others)\n    for (x, path), y in pairs:",
        "for (x, path), (y, _) in tqdm(itertools.zip_longest(loader, others)):",
        "both = iter(zip(loader, others))\n    while True:\n        (x, path), y = next(both)",
    ],
)
def test_parts_of_several_loaders_are_not_told_apart(pairs: str) -> None:
    source = (
        f"import itertools\nfrom tqdm import tqdm\n{HEAD}def train(model, loader, others, optimizer, device):\n"
        f"    {pairs}\n        print(path)\n        x, y = x.to(device), y.to(device)\n{STEP}"
    )
    assert "MpDeviceLoader" not in migrated(source)


def test_parts_in_functions_that_take_a_batch() -> None:
    source = f"""{HEAD}
def step(model, optimizer, batch, device):
    x, y, path = batch
    optimizer.zero_grad()
    loss = model(x.to(device), y.to(device))
    loss.backward()
    optimizer.step()
    print(path)

def train(model, loader, optimizer, device):
    for i, batch in enumerate(loader):
        step(model, optimizer, batch, device)
"""
    assert "in enumerate(xla.MpDeviceLoader(loader, host=(2,))):" in migrated(source)


@pytest.mark.parametrize(
    ("made", "after"),
    [
        ("bar = enumerate(loader)\n    if main:\n        bar = tqdm(bar, total=9)",
         ["bar = enumerate(xla.MpDeviceLoader(loader))", "bar = tqdm(bar, total=9)"]),
        ("if main:\n        bar = tqdm(enumerate(loader))\n    else:\n        bar = enumerate(loader)",
         ["bar = tqdm(enumerate(xla.MpDeviceLoader(loader)))",
          "bar = enumerate(xla.MpDeviceLoader(loader))"]),
        ("bar = enumerate(loader)\n    if main:\n        bar = own(bar)",
         ["bar = enumerate(loader)", "bar = own(bar)"]),
    ],
)  # fmt: skip
def test_a_bar_that_some_processes_show(made: str, after: list[str]) -> None:
    source = f"""
import torch
from tqdm import tqdm

def train(model, optimizer, loader, main, own):
    {made}
    for i, x in bar:
        model(x.cuda()).mean().backward()
        optimizer.step()
    bar = tqdm(loader)
    for x in bar:
        print(x.numpy())
"""
    lines = [line.strip() for line in migrated(source).splitlines()]
    assert [line for line in lines if line.startswith("bar = ")] == [*after, "bar = tqdm(loader)"]


CYCLE = """
from functools import partial

def cycle(loader, device):
    while True:
        for x in loader:
            yield x.to(device)
"""
TAKING = """
def train(model, dataset, optimizer, device):
    loader = DataLoader(dataset, drop_last=True)
    {made}
    x = next(batches)
    x = x.to(device)
    for step in range(100):
        {body}
"""
FORWARD, BACKWARD, UPDATE = "loss = model(x).sum()", "loss.backward()", "optimizer.step()"
FETCH = "x = next(batches)\n        x = x.to(device)"


@pytest.mark.parametrize(
    "made",
    [
        "batches = iter(loader)",
        "batches = cycle(loader, device)",
        "batches = iter(cycle(loader, device))",
        "make = partial(cycle, device=device)\n    batches = make(loader)",
        "make = cycle\n    batches = make(loader, device)",
    ],
)
@pytest.mark.parametrize(
    ("order", "is_wrapped"),
    [
        ([FETCH, FORWARD, BACKWARD, UPDATE], True),
        ([FORWARD, BACKWARD, UPDATE, FETCH], True),
        ([FORWARD, BACKWARD, FETCH, UPDATE], True),
        ([FORWARD, FETCH, BACKWARD, UPDATE], False),
        (
            [
                FORWARD,
                "if step:\n            pass",
                FETCH,
                "optimizer.zero_grad()",
                BACKWARD,
                UPDATE,
            ],
            False,
        ),
    ],
)
def test_a_batch_fetched_between_forward_and_backward_pass_comes_from_a_plain_loader(
    made: str, order: list[str], is_wrapped: bool
) -> None:
    setup = CYCLE if "cycle" in made else ""
    after = migrated(HEAD + setup + TAKING.format(made=made, body="\n        ".join(order)))
    assert ("MpDeviceLoader" in after) is is_wrapped
    assert "xla.optimizer_step(optimizer)\n        xla.mark_step()" in after or is_wrapped


FETCHING = """
import torch
from functools import partial
from data import Task, cycle
import data

def train(model, dataset, optimizer, device):
    {made}
    x = next(batches)
    for step in range(100):
        {body}
"""
ELSEWHERE = """
from torch.utils.data import DataLoader

def cycle(dataset, device):
    while True:
        for x in DataLoader(dataset, drop_last=True):
            yield x.to(device)

class Task:
    def __init__(self, dataset, device):
        self.loader, self.device = DataLoader(dataset, drop_last=True), device

    def __iter__(self):
        for x in self.loader:
            yield x.to(self.device)

    @staticmethod
    def batches(dataset, device):
        for x in DataLoader(dataset, drop_last=True):
            yield x.to(device)

    @classmethod
    def endless(cls, dataset, device):
        for x in DataLoader(dataset, drop_last=True):
            yield x.to(device)

    def of(self, dataset):
        for x in DataLoader(dataset, drop_last=True):
            yield x.to(self.device)
"""


def wrapped_elsewhere(train: str) -> list[str]:
    """Return the functions of the module `data` whose loaders a device loader goes around."""
    files = {"train.py": train, "data.py": ELSEWHERE}
    modules = Modules({path: text.encode() for path, text in files.items()})
    options, project = Options(), Project(modules, "data.py")
    after = migrate(ELSEWHERE.encode(), options, "data.py", project).data.decode()
    functions = (each for each in ast.walk(ast.parse(after)) if isinstance(each, ast.FunctionDef))
    return [each.name for each in functions if "MpDeviceLoader" in ast.unparse(each)]


@pytest.mark.parametrize(
    ("made", "gives"),
    [
        ("batches = cycle(dataset, device)", "cycle"),
        ("batches = iter(data.cycle(dataset, device))", "cycle"),
        ("make = partial(Task.batches, device=device)\n    batches = make(dataset)", "batches"),
        ("batches = data.Task.endless(dataset, device)", "endless"),
        ("batches = iter(Task(dataset, device))", "__iter__"),
        ("task = Task(dataset, device)\n    batches = task.of(dataset)", "of"),
    ],
)
def test_a_batch_fetched_early_comes_from_a_plain_loader_of_another_module(
    made: str, gives: str
) -> None:
    early, late = ([FORWARD, FETCH, BACKWARD, UPDATE], [FETCH, FORWARD, BACKWARD, UPDATE])
    first, second = (
        wrapped_elsewhere(FETCHING.format(made=made, body="\n        ".join(order)))
        for order in (late, early)
    )
    assert {*first} - {*second} == {gives}


def test_a_batch_fetched_early_from_a_parameter_comes_from_a_plain_loader_of_another_module() -> (
    None
):
    body = "\n        ".join([FORWARD, FETCH, BACKWARD, UPDATE])
    engine = f"""
from data import cycle

def train(model, optimizer, batches):
    x = next(batches)
    for step in range(100):
        {body}

def main(model, optimizer, dataset, device):
    train(model, optimizer, cycle(dataset, device))
"""
    assert "cycle" not in wrapped_elsewhere(engine)


def test_a_list_of_moved_batches_is_no_loop_for_a_device_loader() -> None:
    source = """
        import torch

        def prepare(model, batches, device):
            return model.to(device), [batch.to(device=device) for batch in batches]
        """
    assert "MpDeviceLoader" not in migrated(source)


def test_an_iterator_over_indices_with_streams_gets_no_device_loader() -> None:
    source = """
        import torch

        class Epoch:
            def __init__(self, batches):
                self.order = iter(batches)
                self.streams = [torch.cuda.Stream() for _ in range(2)]

            def __next__(self):
                return next(self.order)
        """
    assert "MpDeviceLoader" not in migrated(source)
