"""float16 and float64 on the device, apex.fp16_utils, timm's NativeScaler."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ...helpers import findings, migrated

HEAD = "import torch\nfrom torch import nn\n"
DEVICE = 'device = torch.device("cuda")\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("model.to(device).half()", "model.to(device).bfloat16()"),
        ("x.to(device, torch.float16)", "x.to(device, torch.bfloat16)"),
        ("x.to(device=device, dtype=torch.half)", "x.to(device=device, dtype=torch.bfloat16)"),
        ("x.to(torch.float16)", "x.to(torch.bfloat16)"),
        ("x.type(torch.float16)", "x.type(torch.bfloat16)"),
        ("torch.zeros(2, dtype=torch.float16, device=device)", "torch.zeros(2, dtype=torch.bfloat16, device=device)"),
        ("from_pretrained(n, torch_dtype=torch.float16)", "from_pretrained(n, torch_dtype=torch.bfloat16)"),
        ("torch.set_default_dtype(torch.float16)", "torch.set_default_dtype(torch.bfloat16)"),
    ],
)  # fmt: skip
def test_only_when_asked(before: str, after: str) -> None:
    source = f"{HEAD}{DEVICE}y = {before}\n"
    assert migrated(source, unsafe=True).splitlines()[-1] == f"y = {after}"
    assert migrated(source).splitlines()[-1] == f"y = {before}"


@pytest.mark.parametrize(
    "line",
    [
        "torch.ones(2).to(device).to(torch.float64)",
        "torch.ones(2).to(device, torch.float64)",
        "torch.ones(2, device=device).double()",
        "torch.tensor([1.0], dtype=torch.double, device=device)",
    ],
)
def test_float64_on_the_device_is_for_a_person(line: str) -> None:
    source = f"{HEAD}{DEVICE}y = {line}\n"
    assert (4, "XLA209") in findings(source)
    assert migrated(source, unsafe=True).splitlines()[-1] == f"y = {line}"


ARRAYS = """import numpy as np
grid = np.linspace(0, 1, 10)
noise = 1 - np.random.rand(3)
counts = np.arange(10)
"""


@pytest.mark.parametrize(
    "line",
    [
        "torch.from_numpy(grid).to(device)",
        "torch.from_numpy(np.cumprod(noise)).cuda()",
        "torch.from_numpy(np.zeros((3, 4))).cuda()",
        "torch.from_numpy(np.linspace(0, 1)).cuda()",
        "torch.from_numpy(np.zeros(3, np.float64)).cuda()",
        "torch.tensor(noise, device=device)",
        "torch.as_tensor(grid).unsqueeze(0).to(device, non_blocking=True)",
        "torch.tensor(np.array([0.485, 0.456])).to(device)",
        "torch.ones(3).double().to(device)",
        "torch.DoubleTensor(3).to(device)",
        "nn.Linear(1, 1).double().to(device)",
        "torch.set_default_dtype(torch.float64)",
    ],
)
def test_float64_that_comes_from_the_host(line: str) -> None:
    source = f"{HEAD}{DEVICE}{ARRAYS}y = {line}\nloss.backward()\n"
    assert (8, "XLA209") in findings(source)


@pytest.mark.parametrize(
    "line",
    [
        "torch.from_numpy(grid).float().to(device)",
        "torch.from_numpy(grid).to(device, torch.float32)",
        "torch.from_numpy(grid).to(device=device, dtype=torch.float32)",
        "torch.from_numpy(grid.astype(np.float32)).to(device)",
        "torch.from_numpy(np.zeros(3, dtype=np.float32)).to(device)",
        "torch.tensor(grid, dtype=torch.float32, device=device)",
        "torch.from_numpy(counts).to(device)",
        "torch.from_numpy(np.zeros(3, int)).to(device)",
        "torch.from_numpy(np.array(grid, np.float32)).to(device)",
        "torch.from_numpy(np.empty(0)).to(device)",
        "torch.from_numpy(np.zeros((0, 4))).to(device)",
        "torch.tensor([0.485, 0.456]).to(device)",
        "torch.from_numpy(grid)",
        "nn.Linear(1, 1).double()",
        "torch.set_default_dtype(torch.float32)",
    ],
)
def test_what_comes_as_float32_or_stays(line: str) -> None:
    source = f"{HEAD}{DEVICE}{ARRAYS}y = {line}\nloss.backward()\n"
    assert "XLA209" not in [code for _, code in findings(source)]


def test_by_a_name_that_is_only_that() -> None:
    source = HEAD + DEVICE + "kind = torch.float16\nmodel.to(device, kind)\nloss.backward()\n"
    assert "kind = torch.bfloat16" in migrated(source, unsafe=True)


@pytest.mark.parametrize(
    "line",
    [
        "types = {'fp16': torch.float16, 'fp32': torch.float32}",
        "ok = x.dtype == torch.float16",
        "ok = x.dtype in (torch.float16, torch.bfloat16)",
        "y = torch.ones(2).half()",
        "y = torch.ones(2, dtype=torch.float16)",
        "y = torch.ones(2, dtype=torch.float16, device='cpu')",
        "y = torch.ones(2).double()",
        "y = torch.zeros(2, dtype=torch.float64)",
        "y = loss.cpu().double()",
        "y = model.half(3)",
        "n = total / 2.0",
        "dtype = torch.float16 if args.half else torch.float32; model.to(device, dtype)",
        "if args.fp16: model = model.to(device).half()",
        "y = x.to(device).half() if x.dtype == torch.float16 else x",
        "y = Observer.with_args(dtype=torch.float16)",
        "y = {'model': copy.deepcopy(model).half()}",
    ],
)
def test_left_alone(line: str) -> None:
    source = f"{HEAD}{DEVICE}{line}\n"
    assert [f for f in check(source.encode()) if f.code in {"XLA208", "XLA209"}] == []


@pytest.mark.parametrize("line", ["model.half()", "x = x.to(torch.float16)", "x = x.double()"])
def test_without_an_accelerator_nothing_is_said(line: str) -> None:
    assert findings(f"{HEAD}{line}\n") == []


def test_a_local_class_has_its_own_half() -> None:
    source = HEAD + DEVICE + "class A:\n    def half(self): ...\n\nA().half()\n"
    assert "bfloat16" not in migrated(source, unsafe=True)


@pytest.mark.parametrize(
    "source",
    [
        "from apex.fp16_utils import *\n",
        "from apex.fp16_utils import network_to_half\nmodel = network_to_half(model)\n",
        "import apex\no = apex.fp16_utils.FP16_Optimizer(o)\n",
        "from apex.contrib.optimizers import FP16_Optimizer\nmake = FP16_Optimizer\n",
    ],
)
def test_float16_by_hand_is_for_a_person(source: str) -> None:
    assert "XLA207" in [code for _, code in findings("import torch\n" + source)]
    assert migrated("import torch\n" + source) == "import torch\n" + source


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("from timm.utils import NativeScaler", "NativeScaler()"),
        ("from timm.utils import ApexScaler", "ApexScaler()"),
        ("from timm.utils.cuda import NativeScaler as Scaler", "Scaler(device='cuda')"),
        ("import timm.utils", "timm.utils.NativeScaler()"),
    ],
)
def test_native_scaler(imports: str, call: str) -> None:
    source = f"import torch\n{imports}\nloss_scaler = {call}\nloss_scaler(loss, optimizer)\n"
    assert "loss_scaler = xla.NativeScaler()\nloss_scaler(loss, optimizer)\n" in migrated(source)


@pytest.mark.parametrize("name", ["dtype", "torch_dtype"])
def test_a_model_loaded_in_float16_by_its_name(name: str) -> None:
    head = "from transformers import AutoModel\nfrom xla_migrate import runtime as xla\nAutoModel.from_pretrained('x', "
    source = f"{head}{name}='float16').to(xla.xla_device())\n"
    assert migrated(source) == source
    assert migrated(source, unsafe=True) == source.replace("'float16'", '"bfloat16"')


def test_float16_of_arrays_by_its_name_stays() -> None:
    source = "import numpy as np\nfrom xla_migrate import runtime as xla\nx = np.zeros(3, dtype='float16')\nd = xla.xla_device()\n"
    assert migrated(source, unsafe=True) == source
