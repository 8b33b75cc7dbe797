"""`--from torch_xla`, in the ways that people write for torch_xla."""

from __future__ import annotations

import textwrap

import pytest

from xla_codemods.engine import Migration, Options, check, migrate

TORCH_XLA = Options(origin="torch_xla")


def rewritten(source: str, *, unsafe: bool = False) -> Migration:
    """What becomes of `source`; a second run, with the option and without, must change nothing."""
    options = Options(origin="torch_xla", unsafe=unsafe)
    first = migrate(textwrap.dedent(source).encode(), options)
    for again in (options, Options(unsafe=unsafe)):
        assert migrate(first.data, again).data == first.data, "a second run changes something"
    return first


def text(source: str) -> str:
    return rewritten(source).data.decode()


def left(source: str) -> list[tuple[int, str]]:
    return [(f.line, f.code) for f in rewritten(source).left if f.code.startswith("XLA01")]


@pytest.mark.parametrize(
    "imported",
    [
        "import torch_xla.core.xla_model as xm",
        "from torch_xla.core import xla_model as xm",
        "import torch_xla.core.xla_model as xm, os",
    ],
)
def test_however_it_is_imported(imported: str) -> None:
    new = text(f"{imported}\n\ndef f(optimizer):\n    xm.mark_step()\n    return xm.xla_device()\n")
    assert "xla.mark_step()\n    return xla.xla_device()" in new


@pytest.mark.parametrize(
    ("call", "becomes"),
    [
        ("xm.mark_step(wait=True)", "xla.synchronize()"),
        ("xm.mark_step(wait=False)", "xla.mark_step()"),
        ("torch_xla.sync(True)", "xla.synchronize()"),
        ("xm.optimizer_step(optimizer, barrier=False)", "xla.optimizer_step(optimizer)"),
        ("xm.optimizer_step(optimizer=optimizer)", "xla.optimizer_step(optimizer)"),
        ("print(xm.is_master_ordinal())", "print(xla.local_rank() == 0)"),
        ("print(xm.is_master_ordinal(False))", "print(xla.is_master())"),
        ("print(xm.xrt_world_size(1))", "print(xla.world_size())"),
        ("xm.save(data=x, file_or_path=y)", "xla.save(obj=x, f=y, each_host=True)"),
        ("xm.save(x, y, True, True)", "xla.save(x, y)"),
        ("xm.save(x, y, global_master=False)", "xla.save(x, y, each_host=True)"),
        ("y = xm.all_reduce('sum', x)", 'y = xla.all_reduced(x, "sum")'),
        ("xm.all_reduce('sum', [x, y])", 'xla.all_reduced([x, y], "sum")'),
        ("xm.all_reduce('sum', x, groups=[])", 'xla.all_reduced(x, "sum")'),
        ("torch_xla.sync(reset_scope=True)", "xla.mark_step()"),
        ("torch_xla.sync(True, True)", "xla.synchronize()"),
        ("torch_xla.sync(wait=flag)", "xla.synchronize() if flag else xla.mark_step()"),
        ("xm.mark_step(not flag)", "xla.synchronize() if not flag else xla.mark_step()"),
        (
            "xm.optimizer_step(optimizer, barrier=flag)",
            "xla.optimizer_step(optimizer)\n    if flag:\n        xla.mark_step()",
        ),
        (
            "xm.optimizer_step(optimizer, not flag.lazy)",
            "xla.optimizer_step(optimizer)\n    if not flag.lazy:\n        xla.mark_step()",
        ),
        ("isinstance(x, pl.MpDeviceLoader)", "isinstance(x, xla.MpDeviceLoader)"),
        ("y = partial(pl.MpDeviceLoader, device=x)", "y = partial(xla.MpDeviceLoader, device=x)"),
    ],
)
def test_calls(call: str, becomes: str) -> None:
    head = (
        "from functools import partial\nimport torch_xla\nimport torch_xla.core.xla_model as xm\n"
        "import torch_xla.distributed.parallel_loader as pl\n\n"
    )
    assert becomes in text(f"{head}def f(optimizer, x, y, flag):\n    {call}\n")


@pytest.mark.parametrize(
    "call",
    [
        "xm.mark_step(reset_scope=False)",
        "xm.optimizer_step(optimizer, barrier=next(flag))",
        "xm.optimizer_step(optimizer, optimizer_args={'closure': x})",
        "loss = xm.optimizer_step(optimizer, barrier=True)",
        "xm.reduce_gradients(optimizer, [[0, 1]])",
        "xm.save(x, y, master_only=flag)",
        "xm.all_reduce('sum', [x, y], groups=[[0, 1]])",
        "y = xm.all_reduce(flag, x)",
        "y = xm.rendezvous('a', b'b')",
        "print(xm.get_rng_state() + 1)",
        "xm.xla_device(1)",
        "xm.xla_device(devkind='TPU')",
        "xm.optimizer_step(*x)",
        "print(xm.is_master_ordinal(flag))",
        "met.no_such_name()",
        "xm.collective_permute(x, y)",
    ],
)
def test_what_means_something_else_stays_and_is_named(call: str) -> None:
    head = "import torch_xla.core.xla_model as xm\nimport torch_xla.debug.metrics as met\n\n"
    source = f"{head}def f(optimizer, x, y, flag):\n    {call}\n"
    result = rewritten(source)
    assert call in result.data.decode()
    assert any(f.code.startswith("XLA01") for f in result.left)


@pytest.mark.parametrize(
    "loop",
    [
        "for _ in range(2):\n        train(p.per_device_loader(device))",
        "train(p.per_device_loader(device))\n    train(p.per_device_loader(device))",
        "train([p.per_device_loader(device) for _ in range(2)])",
        "while x:\n        train(p.per_device_loader(device))",
        "return p",
        "train(p)",
        "train(len(p), p.per_device_loader(device))",
    ],
)
def test_a_parallel_loader_of_several_passes_stays(loop: str) -> None:
    source = f"""\
import torch_xla.distributed.parallel_loader as pl

def f(loader, device, train, x):
    p = pl.ParallelLoader(loader, [device])
    {loop}
"""
    assert rewritten(source).data.decode() == source
    assert left(source) == [(4, "XLA014")]


@pytest.mark.parametrize("devices", ["[a, b]", "devices", "[*a]", "[]"])
def test_one_for_several_devices_stays(devices: str) -> None:
    source = f"import torch_xla.distributed.parallel_loader as pl\n\ndef f(loader, a, b, devices):\n    return pl.ParallelLoader(loader, {devices}).per_device_loader(a)\n"
    assert rewritten(source).data.decode() == source


@pytest.mark.parametrize(
    "function",
    ["def f(index):\n    print(index)", "def f(i):\n    pass", "from elsewhere import f"],
)
def test_processes_are_those_of_one_training(function: str) -> None:
    source = f"import torch_xla.distributed.xla_multiprocessing as xmp\n{function}\nxmp.spawn(f, args=())\n"
    assert "xla.launch(f, args=(), of_all_hosts=True)" in text(source)


def test_a_launch_that_is_not_written_out_stays() -> None:
    source = "import torch_xla.distributed.xla_multiprocessing as xmp\nxmp.spawn(*given)\n"
    assert rewritten(source).data.decode() == source
    assert left(source) == [(2, "XLA015")]


def test_a_second_name_for_a_module_is_that_module() -> None:
    source = "import torch_xla\n\nxm = torch_xla.core.xla_model\n\ndef f(x):\n    xm.mark_step()\n    return x.cuda()\n"
    assert migrate(source.encode(), Options(unsafe=True)).data == source.encode()
    assert "    xla.mark_step()\n    return x.to(xla.xla_device())" in text(source)
    assert left(source) == [(4, "XLA019")]  # the runtime's import stands before it


def test_a_second_name_that_has_another_meaning_leaves_the_file() -> None:
    source = "import torch_xla\n\nxm = torch_xla.core.xla_model\nxm = wrapped(xm)\n\ndef f(x):\n    xm.mark_step()\n"
    assert text(source) == source
    assert (7, "XLA019") in left(source)


def test_debugging_in_one_process() -> None:
    head = "import torch_xla\n\ndef f(i):\n    pass\n\ndef main(debug):\n"
    new = text(f"{head}    torch_xla.launch(f, debug_single_process=debug)\n")
    assert "xla.launch(f, nprocs=1 if debug else None, of_all_hosts=True)" in new
    assert "xla.launch(f, of_all_hosts=True)" in text(
        f"{head}    torch_xla.launch(f, debug_single_process=False)\n"
    )


BOTH = """\
import torch

try:
    import torch_xla.core.xla_model as xm
    HAS_XLA = True
except ImportError:
    HAS_XLA = False

device = xm.xla_device() if HAS_XLA else torch.device("cuda")

def train(model, loader, optimizer):
    model.to(device)
    for x, y in loader:
        loss = model(x.to(device), y.to(device))
        loss.backward()
        if HAS_XLA:
            xm.optimizer_step(optimizer, barrier=True)
        else:
            optimizer.step()
        torch.cuda.empty_cache()
"""


def test_a_script_with_both_branches_is_left_and_its_findings_told() -> None:
    assert migrate(BOTH.encode(), Options(unsafe=True)).data == BOTH.encode()
    found = {f.code: f for f in check(BOTH.encode())}
    assert not found["XLA126"].edits
    assert "XLA011" in found
    assert found.keys().isdisjoint({"XLA501", "XLA502"})


def test_both_branches_are_rewritten_when_it_is_asked() -> None:
    new = text(BOTH)
    assert "import torch_xla.core.xla_model as xm\n    HAS_XLA = True" in new
    assert "xla.xla_device() if HAS_XLA" in new
    assert "xla.optimizer_step(optimizer)\n            xla.mark_step()" in new
    assert "torch.cuda" not in new


@pytest.mark.parametrize(
    "source",
    [
        "import torch_xla.core.xla_model as xm\nxm.mark_step()\nx.cuda()\n",
        "def f(x):\n    import torch_xla\n    torch_xla.sync()\n    return x.cuda()\n",
        "if use_tpu:\n    from torch_xla.core import xla_model\n    xla_model.mark_step()\nx.cuda()\n",
        "import torch_xla.distributed.spmd as xs\nxs.mark_sharding(x, m, s)\nx.cuda()\n",
        "from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel as F\nF(m)\nx.cuda()\n",
    ],
)
def test_what_is_written_by_hand(source: str) -> None:
    assert migrate(source.encode(), Options(unsafe=True)).data == source.encode()


@pytest.mark.parametrize(
    "source",
    [
        "import torch_xla\nx.cuda()\n",
        "import torch_xla.debug.metrics as met\nmet.metrics_report()\nx.cuda()\n",
        "# torch_xla.sync()\nimport torch\nx.cuda()\n",
        "xm = 1\nxm.mark_step()\n'torch_xla'\nx.cuda()\n",
        "import torch_xla\nfrom xla_migrate import runtime as xla\ntorch_xla.sync()\nx.cuda()\n",
    ],
)
def test_what_is_not(source: str) -> None:
    assert b"x.to(" in migrate(source.encode()).data


def test_files_without_torch_xla_come_out_as_without_the_option() -> None:
    source = b"import torch\n\ndef f(x):\n    return x.cuda()\n"
    assert migrate(source, TORCH_XLA).data == migrate(source).data


def test_places_of_what_was_rewritten_are_those_of_the_old_source() -> None:
    source = "import torch_xla\nimport torch_xla.core.xla_model as xm\n\ndef f(o, x):\n    xm.optimizer_step(o, barrier=True)\n    return x.cuda()\n"
    found = migrate(source.encode(), TORCH_XLA).migrated
    assert {(f.line, f.code) for f in found} >= {(5, "XLA013"), (6, "XLA101")}


def test_suppressed_lines_stay() -> None:
    line = "xm.mark_step()  # xla-migrate: ignore[XLA013]"
    assert line in text(f"import torch_xla.core.xla_model as xm\n\n{line}\n")


def test_seeds_of_their_own_stay_apart() -> None:
    new = text(
        """
        import torch
        import torch_xla

        def seed(s, rank, loss):
            torch_xla.manual_seed(s + rank)
            torch.manual_seed(s)
            loss.backward()
        """
    )
    assert "xla.manual_seed(s + rank, device_only=True)\n    torch.manual_seed(s)" in new


STARS = """\
from torch_xla.core.xla_model import *
from torch_xla.distributed.xla_multiprocessing import *
import torch


def run(index, model, optimizer, batches):
    device = xla_device()
    for x in batches:
        model(x.to(device)).sum().backward()
        optimizer_step(optimizer, barrier=True)
    master_print(get_ordinal())


spawn(run)
"""


def test_what_star_imports_bring_is_rewritten() -> None:
    new = text(STARS)
    for gone in ("torch_xla", " xla_device()", " optimizer_step(", " get_ordinal(", "\nspawn("):
        assert gone not in new
    assert "xla.launch(run, of_all_hosts=True)" in new
    assert "xla.master_print(xla.rank())" in new


@pytest.mark.parametrize(
    "line",
    [
        "print(get_stablehlo([x]))",  # no rule knows it
        "torch_xla._XLAC._xla_get_devices()",  # the star import brings the package, too
        "reduce_scatter('sum', x, 1.0, 0, 0, 1)",  # which stays
    ],
)
def test_a_star_import_stays_where_something_may_be_of_it(line: str) -> None:
    new = text(STARS.replace("    master_print", f"    {line}\n    master_print"))
    assert new.count("from torch_xla.core.xla_model import *\n") == 1
    assert line in new


def test_a_script_with_star_imports_is_left_without_the_option() -> None:
    done = migrate(STARS.encode())
    assert done.data == STARS.encode()
    assert {f.code for f in done.left} >= {"XLA010", "XLA011"}


@pytest.mark.parametrize(
    ("function", "call"),
    [
        ("@torch_xla.compile\ndef step(x):", "step(x)"),
        ("@torch_xla.compile(full_graph=True)\ndef step(x):", "step(x)"),
        ("def step(x):", "torch_xla.compile(step, full_graph=True)(x)"),
        ("def step(x):", "torch_xla.compile(f=step)(x)"),
        ("@torch_xla.step()\ndef step(x):", "step(x)"),
        ("@torch_xla.experimental.compile\ndef step(x):", "step(x)"),
    ],
)
def test_a_step_that_is_one_graph_gets_no_mark_of_its_own(function: str, call: str) -> None:
    """Within `full_graph=True` a mark raises."""
    new = text(
        f"import torch\nimport torch_xla\n\nmodel = torch.nn.Linear(2, 2)\n"
        f"optimizer = torch.optim.SGD(model.parameters())\n\n{function}\n"
        "    loss = model(x).sum()\n    loss.backward()\n    optimizer.step()\n    return loss\n\n"
        f"for x in batches:\n    loss = {call}\n"
    )
    assert "torch_xla" not in new
    assert "xla.marked_step(" in new
    assert "mark_step()" not in new.replace("marked_step()", "")


@pytest.mark.parametrize(
    ("call", "becomes"),
    [
        ('dist.init_process_group("xla", init_method="xla://")', "xla.init_process_group()"),
        (
            'dist.init_process_group(backend="xla", init_method="xla://")',
            "xla.init_process_group()",
        ),
        ('dist.init_process_group("xla", "xla://")', "xla.init_process_group()"),
        ('dist.init_process_group("xla")', "xla.init_process_group()"),
        (
            'dist.init_process_group("xla", rank=r, world_size=n)',
            "xla.init_process_group(rank=r, world_size=n)",
        ),
    ],
)
def test_the_group_of_its_devices(call: str, becomes: str) -> None:
    new = text(
        "import torch.distributed as dist\nimport torch_xla.core.xla_model as xm\n"
        f"import torch_xla.distributed.xla_backend\n\ndef f(r, n):\n    {call}\n    return xm.xla_device()\n"
    )
    assert becomes in new
    assert "torch_xla" not in new


@pytest.mark.parametrize(
    "script",
    [
        "torch.manual_seed(0)\nxr.use_spmd()\ntrain()\n",
        "torch.manual_seed(0)\n\ndef main():\n    xr.use_spmd()\n    train()\n\nmain()\n",
        "def main():\n    torch.manual_seed(0)\n    xr.use_spmd()\n    train()\n\nmain()\n",
        "def seed():\n    torch.manual_seed(0)\n\ndef main():\n    seed()\n    xr.use_spmd()\n    train()\n\nmain()\n",
        "def start():\n    xr.use_spmd()\n\ndef main():\n    torch.manual_seed(0)\n    start()\n    train()\n\nmain()\n",
    ],
)
def test_a_seed_leaves_the_device_alone_before_spmd(script: str) -> None:
    """torch_xla ends the process where the device was used before."""
    head = "import torch\nimport torch_xla.runtime as xr\n\nmodel = torch.nn.Linear(2, 2)\n\ndef train():\n    model(x.cuda()).sum().backward()\n\n"
    new = text(head + script)
    assert "torch.manual_seed(0)" in new
    assert "xla.manual_seed" not in new
    behind = script.replace("torch.manual_seed(0)", "pass")
    behind = behind.replace("xr.use_spmd()", "xr.use_spmd(); torch.manual_seed(0)")
    assert "xla.manual_seed(0)" in text(head + behind)


@pytest.mark.parametrize(
    "body",
    [
        "def f():\n    import torch_xla\n    torch_xla.sync()\n",
        "def f():\n    from torch_xla import sync\n    sync()\n",
        "class C:\n    def f(self):\n        import torch_xla.core.xla_model as xm\n        xm.mark_step()\n",
        "if use_tpu:\n    import torch_xla\n    torch_xla.sync()\n",
        "def f():\n    if use_tpu:\n        import torch_xla.core.xla_model\n        torch_xla.core.xla_model.mark_step()\n",
    ],
)
def test_imports_within_functions_and_branches_go(body: str) -> None:
    new = text(body)
    assert "torch_xla" not in new
    assert "xla.mark_step()" in new


def test_an_import_within_a_function_that_stays_is_named() -> None:
    source = 'def f(x):\n    import torch_xla\n    torch_xla.sync()\n    return kind == "xla"\n'
    assert "    import torch_xla\n" in text(source)
    assert [code for _, code in left(source)] == ["XLA019"]


@pytest.mark.parametrize(
    "call",
    [
        "xm.get_xla_supported_devices(devkind='TPU')",
        "xm.get_xla_supported_devices('TPU')",
        "pl.MpDeviceLoader(x, y, fixed_batch_size=True)",
        "xs.mark_sharding(x, y, z, use_dynamo_custom_op=True)",
    ],
)
def test_arguments_that_it_no_longer_takes_stay_and_are_named(call: str) -> None:
    source = (
        "import torch_xla.core.xla_model as xm\nimport torch_xla.distributed.parallel_loader as pl\n"
        f"import torch_xla.distributed.spmd as xs\n\n{call}\n"
    )
    assert call in text(source)
    assert {"XLA010"} < {f.code for f in rewritten(source).left}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('os.environ["XLA_USE_BF16"] = "1"', True),
        ('os.environ["XLA_DOWNCAST_BF16"] = str(flag)', True),
        ('os.environ.setdefault("XLA_USE_BF16", "1")', True),
        ('os.environ.update(XLA_USE_BF16="1")', True),
        ('os.environ.update({"XLA_USE_BF16": "1"})', True),
        ('os.putenv("XLA_USE_BF16", "true")', True),
        ('os.environ["XLA_USE_BF16"] = "0"', False),
        ('print(os.environ["XLA_USE_BF16"])', False),
        ('os.environ["XLA_FLAGS"] = "1"', False),
    ],
)
def test_float32_that_torch_xla_alone_rounds_is_named(line: str, named: bool) -> None:
    source = f"import os\n\nflag = 1\n{line}\n"
    assert [f.code for f in check(source.encode())] == ["XLA010"] * named


@pytest.mark.parametrize(
    ("call", "becomes"),
    [
        ('dist.init_process_group("xla", init_method="xla://")', "xla.init_process_group()"),
        (
            'dist.init_process_group("gloo", init_method="xla://")',
            'xla.init_process_group("gloo", init_method="xla://")',
        ),
        (
            'dist.init_process_group(backend, init_method="xla://")',
            'xla.init_process_group(backend, init_method="xla://")',
        ),
        (
            'dist.init_process_group("gloo", init_method="env://")',
            'dist.init_process_group("gloo", init_method="env://")',
        ),
    ],
)
def test_addresses_of_torch_xlas(call: str, becomes: str) -> None:
    head = "import torch.distributed as dist\nimport torch_xla.core.xla_model as xm\n\n"
    assert becomes in text(f"{head}def f(backend):\n    xm.mark_step()\n    {call}\n")


FALLBACKS = [
    "xm = None\n    pl = None",
    "xm = pl = None",
    "xm, pl = None, None",
    "(xm, pl), ok = (None, None), False",
    "[xm, pl] = [None, False]",
]


@pytest.mark.parametrize("otherwise", FALLBACKS)
def test_what_stands_for_a_missing_torch_xla_is_no_other_meaning(otherwise: str) -> None:
    source = f"""\
try:
    import torch_xla.core.xla_model as xm
    import torch_xla.distributed.parallel_loader as pl
except ImportError:
    {otherwise}

def train(model, loader, optimizer, use_tpu):
    it = pl.MpDeviceLoader(loader, xm.xla_device()) if use_tpu else loader
    for x, y in it:
        model(x, y).backward()
        if use_tpu:
            xm.optimizer_step(optimizer)
        else:
            optimizer.step()
"""
    new = text(source)
    assert "xla.MpDeviceLoader(loader, xla.xla_device()) if use_tpu" in new
    assert "xla.optimizer_step(optimizer)\n" in new


@pytest.mark.parametrize(
    "otherwise",
    [
        "class xm:\n        mark_step = staticmethod(print)",
        "xm = types.SimpleNamespace(mark_step=print)",
        "from mylib import no_tpu as xm",
        "xm, ok = make(), False",
        "def xm():\n        pass",
    ],
)
def test_a_file_in_which_torch_xla_may_be_something_else_is_left_whole(otherwise: str) -> None:
    source = f"""\
import types
import torch
try:
    import torch_xla.core.xla_model as xm
except ImportError:
    {otherwise}

def train(model, loader, optimizer):
    torch.manual_seed(0)
    for x, y in loader:
        model(x.cuda(), y.cuda()).backward()
        optimizer.step()
        xm.mark_step()
"""
    result = rewritten(source)
    assert result.data.decode() == source
    assert [f.message.split(" may be")[0] for f in result.left if f.code == "XLA019"] == [
        "`xm.mark_step`"
    ]


def test_a_scaler_of_torch_xlas_goes() -> None:
    new = text("""\
        import torch_xla.core.xla_model as xm
        from torch_xla.amp import GradScaler, autocast

        def train(model, optimizer, x):
            scaler = GradScaler(use_zero_grad=True)
            with autocast(xm.xla_device()):
                loss = model(x)
            scaler.scale(loss).backward()
            gradients = xm._fetch_gradients(optimizer)
            xm.all_reduce("sum", gradients, scale=1.0 / xm.xrt_world_size())
            scaler.step(optimizer)
            scaler.update()
            xm.mark_step()
    """)
    assert "torch_xla" not in new
    assert "scaler" not in new.lower()
    assert "    loss.backward()\n" in new
    assert 'xla.all_reduced(gradients, "sum", scale=1.0 / xla.world_size())' in new
    assert "xla.optimizer_step(optimizer, average=False)" in new


def test_a_seed_of_the_device_outlasts_seeds_of_the_host() -> None:
    new = text("""\
        import torch
        import torch_xla
        import torch_xla.core.xla_model as xm

        def begin(seed):
            torch.manual_seed(seed)
            xm.set_rng_state(seed)

        def noise(noise_seed):
            torch_xla.manual_seed(noise_seed)

        def epoch(model, number):
            torch.manual_seed(number)
            return model.to(xm.xla_device())
    """)
    assert "    xla.manual_seed(seed)\n\n" in new
    assert "    xla.manual_seed(noise_seed, device_only=True)" in new
    assert "    torch.default_generator.manual_seed(number)" in new


@pytest.mark.parametrize(
    "line", ["xm.set_rng_state(state['rng'])", "xm.set_rng_state(load())", "xm.get_rng_state()"]
)
def test_a_state_that_is_restored_is_no_seed(line: str) -> None:
    new = text(f"""\
        import torch
        import torch_xla.core.xla_model as xm

        def begin(state, load):
            {line}

        def epoch(model, number):
            torch.manual_seed(number)
            return model.to(xm.xla_device())
    """)
    assert "    xla.manual_seed(number)" in new
