"""`--style native`, in the ways that migrated scripts call the runtime."""

from __future__ import annotations

import textwrap

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, migrate

NATIVE = Options(style="native", ignore=("XLA502",))  # these scripts have no whole step to mark
HEAD = "import torch\nfrom xla_migrate import runtime as xla\n"


def native(source: str, others: dict[str, str] | None = None) -> str:
    """What becomes of `source`; a second run, with the option and without, must change nothing."""
    modules = Modules({name: text.encode() for name, text in (others or {}).items()})
    project = Project(modules, "train.py") if others else None
    first = migrate(textwrap.dedent(source).encode(), NATIVE, "train.py", project)
    for again in (NATIVE, NATIVE._replace(style="")):
        assert migrate(first.data, again, "train.py", project).data == first.data
    return first.data.decode()


def body(text: str, others: dict[str, str] | None = None) -> str:
    """The last lines of a migrated script that ends with `text`, without the imports."""
    new = native(HEAD + text, others)
    return new[new.index("xla_runtime as xla\n") + len("xla_runtime as xla\n") :]


@pytest.mark.parametrize(
    ("call", "becomes"),
    [
        ("xla.mark_step()", "torch_xla.sync()"),
        ("f(on_step_end=xla.mark_step)", "f(on_step_end=torch_xla.sync)"),
        ("xla.synchronize()", "torch_xla.sync()\nxm.wait_device_ops()"),
        ("xla.synchronize(device)", "torch_xla.sync()\nxm.wait_device_ops()"),
        ("xla.synchronize(mark=False)", "xm.wait_device_ops()"),
        ("loss = xla.optimizer_step(optimizer)", "loss = xm.optimizer_step(optimizer)"),
        ("xla.reduce_gradients(optimizer)", "xm.reduce_gradients(optimizer)"),
        ("xla.manual_seed(seed)", "torch.manual_seed(seed)\ntorch_xla.manual_seed(seed)"),
        ("g = xla.manual_seed(3)", "g = torch.manual_seed(3)\ntorch_xla.manual_seed(3)"),
        ("xla.manual_seed(seed + 1, device_only=True)", "torch_xla.manual_seed(seed + 1)"),
        (
            "c = xla.autocast(dtype=torch.float16, enabled=e)",
            'c = torch.autocast("xla", dtype=torch.bfloat16, enabled=e)',
        ),
        ('c = xla.autocast("cuda", None, e)', 'c = torch.autocast("xla", dtype=torch.bfloat16, enabled=e)'),
        ("o = AdamW(p, fused=xla.supports_fused())", "o = AdamW(p, fused=False)"),
        ("with xla.inference_mode():\n    pass", "with torch.no_grad():\n    pass"),
    ],
)  # fmt: skip
def test_what_is_the_same_is_torch_xlas(call: str, becomes: str) -> None:
    new = body(f"x = xla.xla_device()\n{call}\n")
    assert new.endswith(f"x = xla.xla_device()\n{becomes}\n")
    imports = new[: new.index("x = ")]
    assert ("import torch_xla\n" in imports) == ("torch_xla." in becomes)
    assert ("import torch_xla.core.xla_model as xm\n" in imports) == ("xm." in becomes)


@pytest.mark.parametrize(
    "call",
    [
        "xla.optimizer_step(optimizer, closure)",
        "xla.optimizer_step(optimizer, average=False)",
        "c = xla.autocast(kind)",
        "c = xla.autocast(dtype=dtype)",
        'c = xla.autocast("cpu")',
        "xla.manual_seed(next_seed())",
        "g = xla.manual_seed(0) if c else None",
        "t = (xla.synchronize(), time.time())",
        "xla.set_cudnn(benchmark=ask())",
        "c = xla.inference_mode(mode)",
        'xla.save(model.state_dict(), "x.pt")',
        "loader = xla.MpDeviceLoader(loader)",
        "r = xla.rank()",
    ],
)
def test_what_is_not_stays_the_copys(call: str) -> None:
    assert body(f"{call}\n") == f"{call}\n"


def test_what_does_nothing_on_xla_goes() -> None:
    new = body("xla.set_device(args.gpu)\nif fast:\n    xla.set_cudnn(benchmark=True)\nx = 1\n")
    assert new == "x = 1\n"


@pytest.mark.parametrize(
    "replicas",
    ["xla.init_process_group()", "xla.launch(main)", "n = int(os.environ['WORLD_SIZE'])"],
)
def test_averages_stay_where_there_are_replicas(replicas: str) -> None:
    step = "xla.optimizer_step(optimizer)\n"
    assert body(f"{replicas}\n{step}").endswith(step)
    # In another module of the project, as it was written for CUDA.
    others = {"main.py": "import torch.distributed as dist\ndist.init_process_group('nccl')\n"}
    assert body(step, others) == step
    assert "xm.optimizer_step" in body(step, {"main.py": "import torch\n"})


def test_the_stream_of_random_numbers_is_left_where_states_are_kept() -> None:
    source = "xla.manual_seed(0)\nstate = xla.get_rng_state()\nxla.mark_step()\n"
    assert body(source) == source


def test_names_that_are_taken_are_not_taken_again() -> None:
    new = body("xm = 1\nxla.reduce_gradients(optimizer)\n")
    assert "import torch_xla.core.xla_model\n" in new
    assert new.endswith("xm = 1\ntorch_xla.core.xla_model.reduce_gradients(optimizer)\n")


def test_from_cuda_in_one_run() -> None:
    new = native("""
        import torch

        def train(model, loader, optimizer):
            model.cuda()
            for x, y in loader:
                loss = model(x.cuda(), y.cuda())
                loss.backward()
                optimizer.step()
    """)
    assert "import xla_runtime as xla\n" in new
    assert "xm.optimizer_step(optimizer)" in new
    assert "xla_migrate" not in new


def test_a_file_that_is_native_stays_so() -> None:
    """Whoever adds CUDA code to it gets torch_xla's calls, without asking."""
    source = "import torch\nimport xla_runtime as xla\n\nd = xla.xla_device()\ntorch.cuda.synchronize()\n"
    new = migrate(source.encode()).data.decode()
    assert "torch_xla.sync()\nxm.wait_device_ops()\n" in new
    assert "xla_migrate" not in new


def test_what_asks_the_commands_own_modules_keeps_them() -> None:
    source = HEAD + "f(xla.compiler_options())\n"
    assert "from xla_migrate import runtime as xla" in native(source)


def test_another_name_for_the_runtime_stays() -> None:
    source = "from xla_migrate import runtime as xla_rt\nd = xla_rt.xla_device()\n"
    assert native(source) == "import xla_runtime as xla_rt\nd = xla_rt.xla_device()\n"
