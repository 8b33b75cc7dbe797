"""Seeds and random states."""

from __future__ import annotations

import pytest

from ...helpers import findings, migrated
from ..lines import codes, line

SEED = "xla.manual_seed(seed)"
DEVICE_ONLY = "xla.manual_seed(seed, device_only=True)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.manual_seed(seed)", SEED),
        ("torch.random.manual_seed(seed)", SEED),
        ("torch.manual_seed(seed=seed)", "xla.manual_seed(seed=seed)"),
        ("torch.cuda.manual_seed(seed)", DEVICE_ONLY),
        ("torch.cuda.manual_seed_all(seed)", DEVICE_ONLY),
        ("torch.manual_seed(seed)\ntorch.cuda.manual_seed(seed)\ntorch.cuda.manual_seed_all(seed)", SEED),
        ("torch.cuda.manual_seed(seed)\ntorch.manual_seed(seed)", SEED),
        ("torch.manual_seed(seed)\nif torch.cuda.is_available():\n    torch.cuda.manual_seed_all(seed)", SEED),
        ("if c:\n    torch.cuda.manual_seed(seed)\nelse:\n    torch.manual_seed(seed)",
         f"if c:\n    {DEVICE_ONLY}\nelse:\n    {SEED}"),
        ("torch.manual_seed(seed)\ntorch.cuda.manual_seed(seed + 1)",
         f"{SEED}\nxla.manual_seed(seed + 1, device_only=True)"),
        ("torch.manual_seed(seed)\ndef f():\n    torch.cuda.manual_seed(seed)",
         f"{SEED}\ndef f():\n    {DEVICE_ONLY}"),
        ("g = torch.manual_seed(seed)", "g = xla.manual_seed(seed)"),
        ("g = torch.manual_seed(seed)\ntorch.cuda.manual_seed(seed)", "g = xla.manual_seed(seed)"),
        ("g = torch.manual_seed(seed) if seed else None", "g = xla.manual_seed(seed) if seed else None"),
        ("seeder = lambda s: torch.manual_seed(s)", "seeder = lambda s: xla.manual_seed(s)"),
        ("np.random.seed(1), torch.manual_seed(0), torch.cuda.manual_seed(rank)",
         "np.random.seed(1), torch.manual_seed(0), xla.manual_seed(rank, device_only=True)"),
        ("torch.cuda.seed()", "xla.manual_seed(torch.Generator().seed(), device_only=True)"),
        ("seeder = lambda: torch.cuda.manual_seed(1)", "seeder = lambda: xla.manual_seed(1, device_only=True)"),
    ],
)  # fmt: skip
def test_fact_1_30_seeds(before: str, after: str) -> None:
    assert line(before) == after


@pytest.mark.parametrize(
    "source",
    [
        "g = torch.Generator()\ng.manual_seed(0)",
        "def seed_worker(i):\n    torch.manual_seed(i)",
        "def init(i):\n    torch.manual_seed(i)\nloader = make(worker_init_fn=init)",
        "seed = torch.initial_seed()",
        "random.seed(0)",
        "np.random.seed(0)",
        "state = torch.get_rng_state()\ntorch.set_rng_state(state)",
        "with torch.random.fork_rng(devices=[]):\n    f()",
        'with torch.random.fork_rng(device_type="cpu"):\n    f()',
        "torch.use_deterministic_algorithms(True)",
    ],
)
def test_the_hosts_randomness_stays(source: str) -> None:
    assert line(source) == source


def test_fact_3_36_loader_processes_do_not_touch_the_device() -> None:
    before = "def seed_worker(i):\n    torch.cuda.manual_seed(i)\n    random.seed(i)"
    assert line(before) == "def seed_worker(i):\n    random.seed(i)"


def test_a_seed_in_a_file_without_an_accelerator_stays() -> None:
    from ...helpers import findings

    assert findings("import torch\ntorch.manual_seed(0)\nprint(torch.rand(2))\n") == []


def test_the_seed_that_xla_has_cannot_be_asked() -> None:
    assert codes("s = torch.cuda.initial_seed()") == ["XLA124"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("s = torch.cuda.get_rng_state()", "s = xla.get_rng_state()"),
        ('s = torch.cuda.get_rng_state("cuda")', "s = xla.get_rng_state()"),
        ("s = torch.cuda.get_rng_state(device=0)", "s = xla.get_rng_state()"),
        ("s = torch.cuda.get_rng_state(device)", "s = xla.get_rng_state(device)"),
        ("s = torch.cuda.get_rng_state_all()", "s = xla.get_rng_state_all()"),
        ("s = torch.cuda.random.get_rng_state_all()", "s = xla.get_rng_state_all()"),
        ("torch.cuda.set_rng_state(s)", "xla.set_rng_state(s)"),
        ('torch.cuda.set_rng_state(s, "cuda:0")', "xla.set_rng_state(s)"),
        ("torch.cuda.set_rng_state_all(c['rng'])", "xla.set_rng_state_all(c['rng'])"),
        ("f = torch.cuda.get_rng_state", "f = xla.get_rng_state"),
        ("with torch.random.fork_rng():\n    f()", "with xla.fork_rng():\n    f()"),
        ("with torch.random.fork_rng(devices=[0], enabled=e):\n    f()", "with xla.fork_rng(devices=[0], enabled=e):\n    f()"),
        ('with torch.random.fork_rng(device_type="cuda"):\n    f()', "with xla.fork_rng():\n    f()"),
    ],
)  # fmt: skip
def test_random_states(before: str, after: str) -> None:
    assert line(before) == after


@pytest.mark.parametrize(
    "own", ["import torch_xla\n    torch_xla.manual_seed(seed)",
            "import torch_xla.core.xla_model as xm\n    xm.set_rng_state(seed)"]
)  # fmt: skip
def test_a_function_that_seeds_torch_xla_itself_is_no_finding(own: str) -> None:
    seeds = "torch.manual_seed(seed)\n    torch.cuda.manual_seed_all(seed)"
    assert codes(f"def f(seed):\n    {seeds}\n    {own}") == []
    assert codes(f"def f(seed):\n    {own}\ndef g(seed):\n    {seeds}") == ["XLA124", "XLA124"]


@pytest.mark.parametrize(
    "use",
    ["DataLoader(data, shuffle=True, generator=g)", "torch.randn(2, generator=g, device=DEVICE)"],
)
def test_generators_of_a_named_device_are_the_hosts(use: str) -> None:
    source = (
        "import torch\nfrom torch.utils.data import DataLoader\n"
        'DEVICE = "cuda" if torch.cuda.is_available() else "cpu"\n'
        f"g = torch.Generator(device=DEVICE)\nx = {use}\n"
    )
    assert "g = xla.generator(DEVICE)\n" in migrated(source)


@pytest.mark.parametrize(
    ("call", "seed"),
    [
        ("set_seed(1)", "1"),
        ("set_seed(seed=cfg.seed)", "cfg.seed"),
        ("set_seed(seed, True)", "seed"),
        ("random_seed(cfg.seed)", "cfg.seed"),
        ("random_seed(cfg.seed, rank=rank)", "cfg.seed + rank"),
    ],
)
def test_seeds_of_libraries(call: str, seed: str) -> None:
    name = call.partition("(")[0]
    home = "transformers" if name == "set_seed" else "timm.utils"
    source = f"import torch\nfrom {home} import {name}\n{call}\nloss.backward()\n"
    text = migrated(source)
    assert f"{call}\nxla.manual_seed({seed}, device_only=True)\n" in text
    assert migrated(text) == text


def test_seeds_of_libraries_that_are_drawn_or_seed_nothing_here() -> None:
    head = "import torch\nfrom transformers import set_seed\n"
    assert findings(f"{head}set_seed(draw())\nloss.backward()\n")[0] == (3, "XLA124")
    assert findings(f"{head}set_seed(0)\n") == []


SPAWNED = """
import random
import torch
import torch.multiprocessing as mp

def {name}({first}, args):
    torch.manual_seed(args.seed)
    torch.cuda.manual_seed_all(args.seed)
    model = torch.nn.Linear(2, 2).cuda()
    model(torch.ones(2).cuda()).sum().backward()

{start}
"""


@pytest.mark.parametrize(
    ("name", "first", "start"),
    [
        ("main_worker", "gpu", "mp.spawn(main_worker, nprocs=2, args=(args,))"),
        ("worker", "rank", "mp.spawn(worker, nprocs=2, args=(args,))"),
        ("train_worker", "rank", "mp.Process(target=train_worker, args=(0, args)).start()"),
        ("run_worker", "local_rank", "run_worker(0, args)"),
        ("_distributed_worker", "local_rank", ""),
    ],
)
def test_a_worker_that_trains_seeds_its_device(name: str, first: str, start: str) -> None:
    """Else each replica would draw as torch_xla seeds it, from 101."""
    result = migrated(SPAWNED.format(name=name, first=first, start=start))
    assert "    xla.manual_seed(args.seed)\n" in result
    assert "torch.manual_seed" not in result
    assert "torch.cuda" not in result


@pytest.mark.parametrize(
    ("name", "first", "start"),
    [
        ("worker_init_fn", "index", ""),
        ("seed_worker", "index", ""),
        ("init", "worker_id", ""),
        ("begin", "index", "loader = DataLoader(data, worker_init_fn=partial(begin, args=args))"),
        ("_init_data_worker", "i", ""),
    ],
)
def test_a_loaders_worker_does_not(name: str, first: str, start: str) -> None:
    result = migrated(SPAWNED.format(name=name, first=first, start=start))
    assert "    torch.manual_seed(args.seed)\n" in result
    assert "xla.manual_seed" not in result


def test_the_state_of_each_of_several_devices_is_set() -> None:
    source = """
        import torch

        def load(states):
            for number, state in enumerate(states):
                torch.cuda.set_rng_state(state, f"cuda:{number}")
        """
    assert "xla.set_rng_state(state, number)" in migrated(source)
