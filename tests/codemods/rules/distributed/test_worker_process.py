"""XLA615: processes that are started by hand, and the accelerator."""

from __future__ import annotations

import os
import subprocess

import pytest

from xla_codemods.engine import check

from .... import warm

HEAD = """\
import functools
import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import torch
import torch.multiprocessing as mp

def move(model, device):
    return model.to(device)

def on_device(rank):
    move(torch.nn.Linear(2, 2), torch.device("cuda"))

def on_the_choice(rank):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.ones(2).to(device)

def on_what_it_is_given(rank, device="cpu"):
    torch.ones(2, device=device)

def on_the_host(rank):
    device = torch.device("cpu")
    torch.ones(2).to(device)

def asks(rank):
    if torch.cuda.is_available():
        print(torch.cuda.device_count())

class Trainer:
    def __init__(self):
        self.model = torch.nn.Linear(2, 2).cuda()
        self.copy = torch.nn.Linear(2, 2).cuda().cpu()
        self.pool = mp.Pool(4)

    def work(self, rank):
        self.model(torch.ones(2))

    def work_on_the_host(self, rank):
        self.copy(torch.ones(2))

    def start(self):
        LINE

"""
# Of files that train all is known; of others the functions with a name in them that some rule listens to.
TRAINS = """\
def train(loss):
    loss.backward()

"""


def messages(source: str) -> list[str]:
    return [f.message.split(":")[0] for f in check(source.encode()) if f.code == "XLA615"]


BUSY = [
    "the device belongs to one process, and a worker that uses it at the same time hangs or fails"
]
GIVEN = ["XLA tensors cannot be passed to another process"]


def in_a_loop(line: str) -> str:
    return HEAD.replace("LINE", "pass") + f"for rank in range(4):\n    {line}\n"


@pytest.mark.parametrize(
    "worker",
    [
        "target=on_device, args=(rank,)",
        "target=on_the_choice, args=(rank,)",
        'target=on_what_it_is_given, args=(rank, "cuda")',
        'target=on_what_it_is_given, args=(rank,), kwargs={"device": torch.device("cuda")}',
        'target=functools.partial(on_what_it_is_given, device="cuda"), args=(rank,)',
        "target=Trainer().work, args=(rank,)",
    ],
)
@pytest.mark.parametrize(
    "process", ["mp.Process", "multiprocessing.Process", 'mp.get_context("spawn").Process']
)
def test_workers_on_the_device(process: str, worker: str) -> None:
    source = in_a_loop(f"{process}({worker}).start()")
    assert messages(TRAINS + source) == BUSY
    if "Trainer" not in worker:
        assert messages(source) == BUSY


@pytest.mark.parametrize(
    "worker",
    [
        "target=on_the_host, args=(rank,)",
        "target=asks, args=(rank,)",
        "target=on_what_it_is_given, args=(rank,)",
        'target=on_what_it_is_given, args=(rank, "cpu")',
        "target=on_what_it_is_given, args=(rank, device)",
        "target=Trainer().work_on_the_host, args=(rank,)",
        "target=unknown, args=(rank, torch.ones(2))",
        "target=unknown, args=(rank, model)",
        "target=unknown, args=arguments",
        "target=elsewhere.train",
        "args=(rank,)",
    ],
)
def test_workers_on_the_host_or_of_whom_nobody_knows(worker: str) -> None:
    source = in_a_loop(f"mp.Process({worker}).start()")
    assert messages(source) == messages(TRAINS + source) == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("mp.Process(target=on_device, args=(0,)).start()", []),  # the only one
        (
            "model = torch.nn.Linear(2, 2).cuda()\nmp.Process(target=on_device, args=(0,)).start()",
            BUSY,
        ),
        (
            "mp.Process(target=on_device, args=(0,)).start()\nmodel = torch.nn.Linear(2, 2).cuda()",
            [],
        ),
        (
            "for rank in range(4):\n    p = mp.Process(target=on_device, args=(rank,))\n    p.start()\n    p.join()",
            [],  # one after the other
        ),
        ("workers = [mp.Process(target=on_device, args=(rank,)) for rank in range(4)]", BUSY),
        ("mp.Pool(4, initializer=on_device, initargs=(0,))", BUSY),
        ("mp.Pool(1).map(on_device, [1, 2])", []),
        ("mp.Pool(4).map(on_device, [1, 2])", BUSY),
        ("mp.Pool(4).map(on_the_host, [1, 2])", []),
        ("mp.Pool(4).starmap_async(on_device, [(1,), (2,)])", BUSY),
        ("mp.Pool(4).apply_async(on_what_it_is_given, (0, 'cuda'))", BUSY),
        (
            "ctx = mp.get_context('spawn')\nwith ctx.Pool(4) as pool:\n    pool.map(on_device, [1])",
            BUSY,
        ),
        ("with ProcessPoolExecutor() as pool:\n    pool.submit(on_device, 1)", BUSY),
        ("with ProcessPoolExecutor(max_workers=1) as pool:\n    pool.submit(on_device, 1)", []),
        ("with ThreadPoolExecutor() as pool:\n    pool.submit(on_device, 1)", []),
        (
            "kind = ThreadPoolExecutor if threads else ProcessPoolExecutor\nwith kind() as pool:\n    pool.submit(on_device, 1)",
            [],
        ),
        ("list(map(on_device, [1, 2]))", []),
    ],
)
def test_how_many_there_are(lines: str, expected: list[str]) -> None:
    assert messages(HEAD.replace("LINE", "pass") + lines + "\n") == expected


def test_methods_of_the_class_that_has_the_pool() -> None:
    assert messages(TRAINS + HEAD.replace("LINE", "self.pool.map(self.work, [1])")) == BUSY
    assert (
        messages(TRAINS + HEAD.replace("LINE", "self.pool.map(self.work_on_the_host, [1])")) == []
    )
    assert (
        messages(TRAINS + HEAD.replace("LINE", "mp.Process(target=self.read, args=(self.model,))"))
        == GIVEN
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("model", GIVEN),
        ("model.state_dict()", GIVEN),
        ("optimizer", GIVEN),
        ("[model, 3]", GIVEN),
        ("model.cpu()", []),
        ("copy", []),
        ("3", []),
    ],
)
def test_what_lives_on_the_device_is_not_given_away(given: str, expected: list[str]) -> None:
    source = f"""\
model = torch.nn.Linear(2, 2)
model.cuda()
optimizer = torch.optim.SGD(model.parameters())
copy = torch.nn.Linear(2, 2)
mp.Process(target=unknown, args=(0, {given}))
"""
    assert messages(HEAD.replace("LINE", "pass") + source) == expected


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ('device = "cuda" if there else "cpu"', BUSY),
        ('device = torch.device("cuda" if wanted else "cpu")', BUSY),
        ('device = "cpu"\nif wanted:\n    device = "cuda"', BUSY),
        (
            'if wanted:\n    device = "cuda"\nelif mps:\n    device = "mps"\nelse:\n    device = "cpu"',
            BUSY,
        ),
        ('device = "cuda" if args.train else "cpu"', []),
        ('if args.train:\n    device = "cuda"\nelse:\n    device = "cpu"', []),
        ("device = args.device", []),
    ],
)
def test_devices_that_are_chosen(choice: str, expected: list[str]) -> None:
    source = f"""\
there = torch.cuda.is_available()
wanted = args.cuda and torch.cuda.is_available()
{choice}
for rank in range(4):
    mp.Process(target=on_what_it_is_given, args=(rank, device)).start()
"""
    assert messages(TRAINS + HEAD.replace("LINE", "pass") + source) == expected


def test_others_speak_of_some() -> None:
    """XLA515 of what is shared, XLA604 of processes that are connected."""
    shared = "model = torch.nn.Linear(2, 2).cuda()\nmodel.share_memory()\nmp.Process(target=unknown, args=(model,))\n"
    assert messages(HEAD.replace("LINE", "pass") + shared) == []
    joined = in_a_loop("mp.Process(target=on_device, args=(rank,))")
    joined += 'torch.distributed.init_process_group("nccl")\n'
    assert messages(joined) == []
    codes = [f.code for f in check(joined.encode())]
    assert "XLA604" in codes


PROGRAM = """
import multiprocessing, os, time, torch, torch_xla

def worker():
    print("child", (torch.ones(3).to("xla") * 2).cpu().tolist(), flush=True)

def start(limit):
    begun = time.monotonic()
    child = multiprocessing.get_context("fork").Process(target=worker)
    child.start()
    child.join(limit)
    print("hangs" if child.is_alive() else "ends", flush=True)
    child.kill()
    return time.monotonic() - begun

took = start(60)
print(torch.ones(3).to("xla").sum().item(), flush=True)
start(2 + 5 * took)  # far longer than one that ends
os._exit(0)
"""

GIVING = """
import torch, torch_xla, torch.multiprocessing as mp

if __name__ == "__main__":
    try:
        mp.get_context("spawn").Process(target=print, args=(torch.ones(3).to("xla"),)).start()
    except RuntimeError as error:
        print(error)
"""


def run(program: str, folder: os.PathLike[str]) -> str:
    file = os.path.join(folder, "program.py")
    with open(file, "w", encoding="utf-8") as opened:
        opened.write(program)
    done = subprocess.run(
        [warm.python(*warm.TORCH_XLA), file],
        env={**os.environ, "PJRT_DEVICE": "CPU"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout


@pytest.mark.e2e  # waits
def test_fact_3_64_a_forked_child_hangs_once_its_parent_has_used_the_device(
    tmp_path: os.PathLike[str],
) -> None:
    assert run(PROGRAM, tmp_path) == "child [2.0, 2.0, 2.0]\nends\n3.0\nhangs\n"


def test_fact_3_65_a_spawned_process_is_given_no_xla_tensor(tmp_path: os.PathLike[str]) -> None:
    assert run(GIVING, tmp_path) == "_share_fd_: only available on CPU\n"
