"""Integers taken for CUDA devices, by their value and by their name."""

from __future__ import annotations

import pytest

from ...helpers import findings, migrated
from ..lines import codes, line


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x.to(0)", "x.to(xla.xla_device())"),
        ("x.to(3)", "x.to(xla.xla_device(3))"),
        ("model.to(rank)", "model.to(xla.xla_device(rank))"),
        ("model.to(local_rank)", "model.to(xla.xla_device(local_rank))"),
        ("x.to(args.gpu)", "x.to(xla.xla_device(args.gpu))"),
        ("x.to(self.gpu_id)", "x.to(xla.xla_device(self.gpu_id))"),
        ("x.to(device=device_id)", "x.to(device=xla.xla_device(device_id))"),
        ("torch.zeros(1, device=0)", "torch.zeros(1, device=xla.xla_device())"),
        ("torch.zeros(1, device=ddp_local_rank)", "torch.zeros(1, device=xla.xla_device(ddp_local_rank))"),
        ("x.new_zeros(1, device=gpu)", "x.new_zeros(1, device=xla.xla_device(gpu))"),
        ("d = torch.device(0)", "d = xla.xla_device()"),
        ("d = torch.device(rank)", "d = xla.xla_device(rank)"),
        ("x.to(torch.cuda.current_device())", "x.to(xla.xla_device())"),
        ("x.to(y.get_device())", "x.to(y.device)"),
        ("torch.zeros(1, device=y.get_device())", "torch.zeros(1, device=y.device)"),
        ("n = int(s)\nx.to(n)", "n = int(s)\nx.to(xla.xla_device(n))"),
        ("device = 0\nx.to(device)", "device = 0\nx.to(xla.xla_device(device))"),
        ('x.to(0 if torch.cuda.is_available() else "cpu")', "x.to(xla.xla_device())"),
    ],
)  # fmt: skip
def test_numbers(before: str, after: str) -> None:
    assert line(before) == after


PIPELINE = "from transformers import pipeline\n"


@pytest.mark.parametrize(
    "device", ["0", "0 if torch.cuda.is_available() else -1", "torch.cuda.current_device()"]
)
def test_transformers_pipeline(device: str) -> None:
    after = line(f'{PIPELINE}p = pipeline("x", device={device})')
    assert after.endswith('p = pipeline("x", device=xla.xla_device())')


@pytest.mark.parametrize("host", ['"cpu"', '"mps"', "0"])
def test_a_number_for_a_pipeline_that_is_never_minus_one(host: str) -> None:
    chosen = f"n = 0 if torch.cuda.is_available() else {host}"
    after = line(f'import torch\n{PIPELINE}{chosen}\np = pipeline("x", device=n)')
    assert after.endswith('p = pipeline("x", device=xla.xla_device(n))')


def test_a_number_for_a_pipeline_that_may_be_minus_one_is_left_to_a_person() -> None:
    source = f'{PIPELINE}p = pipeline("x", device=args.gpu)'
    assert line(source) == source
    assert codes(source) == ["XLA106"]


@pytest.mark.parametrize("number", ["int(s)", "0 if torch.cuda.is_available() else -1"])
def test_a_negative_number_for_a_pipeline_stays(number: str) -> None:
    after = line(f'{PIPELINE}n = {number}\np = pipeline("x", device=n)')
    assert after.endswith('p = pipeline("x", device=xla.xla_device(n) if n >= 0 else -1)')


@pytest.mark.parametrize(
    "source",
    [
        "x.to(dtype)",
        "x.to(device)",
        "x.to(torch.int64)",
        "x.to(other)",
        "x.to(y.dtype)",
        "x.to(None)",
        "x.to(True)",
        "dtype = torch.float32 if a else torch.float64\nx.to(dtype)",
        "camera = Camera(device=0)",
        "stream = sounddevice.InputStream(device=1)",
        "class Euro:\n    def to(self, n): return n\nEuro().to(2)",
    ],
)
def test_other_arguments_stay(source: str) -> None:
    assert line(source) == source


def test_files_without_torch_stay() -> None:
    assert findings("import cuda_money\ncuda_money.Euro().to(0)\n") == []


@pytest.mark.parametrize(
    "source", ["rank", "local_rank", "args.gpu", "rank % torch.cuda.device_count()"]
)
def test_a_number_by_another_name(source: str) -> None:
    after = line(f"device = {source}\nx = x.to(device)\ny = torch.ones(2, device=device)")
    assert after.endswith(
        "\nx = x.to(xla.xla_device(device))\ny = torch.ones(2, device=xla.xla_device(device))"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("device = rank\nif host:\n    device = 'cpu'", "device = xla.xla_device(rank)\nif host:\n    device = 'cpu'"),
        ("device = rank if torch.cuda.is_available() else 'cpu'", "device = str(xla.xla_device(rank))"),
        ("device = args.gpu if use else 'cpu'", "device = xla.xla_device(args.gpu) if use else 'cpu'"),
        ("device = rank % n if use else torch.device('cpu')", "device = xla.xla_device(rank % n) if use else torch.device('cpu')"),
        ("device = args.device_ids[0] if use else 'cpu'", "device = xla.xla_device(args.device_ids[0]) if use else 'cpu'"),
        ("self.device = 0 if use else torch.device('cpu')", "self.device = xla.xla_device() if use else torch.device('cpu')"),
    ],
)  # fmt: skip
def test_a_name_that_may_be_the_host_takes_a_device(before: str, after: str) -> None:
    assert line(before) == after


@pytest.mark.parametrize(
    "source",
    ["device = rank", "device = rank if use else None", "gpu = rank if use else 'cpu'", "device = 0 if use else -1"],
)  # fmt: skip
def test_a_number_by_the_name_of_a_device_stays(source: str) -> None:
    assert line(source) == source


def test_nodes_of_a_compilers_graph_have_devices_of_their_own() -> None:
    assert not codes("torch.zeros(1, dtype=x.get_dtype(), device=x.get_device())")


def test_what_is_said_to_be_text_is_no_number() -> None:
    source = (
        "def f(device=0):\n    if isinstance(device, str):\n        device = torch.device(device)\n"
        "    elif isinstance(device, int):\n        device = torch.device(device)\n    return device"
    )
    assert codes(source) == ["XLA106"]


@pytest.mark.parametrize(
    ("body", "given"),
    [
        ("return x.to(device)", "rank"),
        ("x = x.to(device, non_blocking=True)\n    return x", "local_rank"),
        ("return x.to(device=device)", "args.local_rank"),
        ("return torch.zeros(3, device=device)", "rank"),
        ("for b in x:\n        b.to(device)", "rank"),
    ],
)
def test_a_number_handed_to_a_function_that_moves_to_it(body: str, given: str) -> None:
    source = (
        f"import torch\n\ndef f(x, device=None):\n    {body}\n\n"
        f"def main(x, rank, local_rank, args):\n    x.to(rank)\n    f(x, device={given})\n"
    )
    assert f"f(x, device=xla.xla_device({given}))" in migrated(source)


def test_a_number_that_a_function_only_prints_stays() -> None:
    source = "import torch\n\ndef f(device):\n    print(device)\n\ndef main(x, rank):\n    f(device=rank)\n"
    assert "f(device=rank)" in migrated(source)


OTHERS = "import torch, whisper, sounddevice, cv2\nfrom ultralytics import YOLO\ntorch.ones(2).cuda().sum().backward()\ndef own(x, device):\n    print(device)\ndef f(rank, x, track):\n    {}\n"


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("whisper.load_model('base', device=0)", True),
        ("whisper.load_model('base', device=rank)", True),
        ("YOLO('m.pt').train(data='d', device=[0, 1])", True),
        ("x.model.fit(device=rank)", True),
        ("whisper.load_model('base', device='cpu')", False),
        ("whisper.load_model('base', device=None)", False),
        ("whisper.load_model('base', device=-1)", False),
        ("sounddevice.play(x, device=0)", False),
        ("cv2.open(device=0)", False),
        ("own(x, device=rank)", False),
        ("track(device=0)", False),
        ("print(x, device=0)", False),
    ],
)
def test_a_number_that_a_library_is_given(call: str, found: bool) -> None:
    source = OTHERS.format(call)
    assert ("XLA106" in [code for _, code in findings(source)]) is found
    assert call in migrated(source)


@pytest.mark.parametrize(
    ("given", "becomes"),
    [
        ("torch.zeros(2, device=x.get_device())", "torch.zeros(2, device=x.device)"),
        ("y.to(x[0].get_device())", "y.to(x[0].device)"),
        ("torch.zeros(2, device=index)", "torch.zeros(2, device=xla.xla_device(index))"),
        ("y.to(device=index)", "y.to(device=xla.xla_device(index))"),
        ("torch.zeros(2, device=self.index)", "torch.zeros(2, device=xla.xla_device(self.index))"),
        ("moved(y, x.get_device())", "moved(y, xla.xla_device(x.get_device()))"),
    ],
)
def test_the_number_of_a_tensors_device(given: str, becomes: str) -> None:
    source = (
        "import torch\n\ndef moved(y, device):\n    return y.to(device)\n\n"
        "class Layer:\n    def run(self, x, y):\n"
        f"        self.index = index = x.get_device()\n        return {given}\n"
    )
    assert f"return {becomes}\n" in migrated(source)


@pytest.mark.parametrize(
    "chosen",
    [
        "device = x.get_device() if x.is_cuda else 'cpu'",
        "device = 'cpu' if x.get_device() < 0 else x.get_device()",
        "if x.is_cuda:\n        device = x.get_device()\n    else:\n        device = torch.device('cpu')",
    ],
)
def test_the_number_of_a_tensors_device_or_the_host(chosen: str) -> None:
    """The branch for CUDA is taken on XLA, where `device=0` is CUDA's."""
    source = f"import torch\n\ndef f(x):\n    {chosen}\n    return torch.arange(3, device=device)\n"
    after = migrated(source)
    assert "x.device" in after
    assert "device=device)" in after


@pytest.mark.parametrize(
    "source",
    [
        "import torch\n\nclass M:\n    def f(self):\n        d = self.get_device()\n        return torch.zeros(2, device=d)\n",
        "import torch\nimport mine\n\ndef f():\n    return torch.zeros(2, device=mine.get_device())\n",
        "import torch\n\ndef f(node):\n    return torch.zeros(2, device=node.get_device(), dtype=node.get_dtype())\n",
    ],
)
def test_what_else_get_device_is(source: str) -> None:
    assert migrated(source) == source


@pytest.mark.parametrize(
    "chosen",
    [
        "    device = None\n    if x.is_cuda:\n        device = x.get_device()\n",
        "    device = x.get_device() if x.is_cuda else None\n",
        "    if x.is_cuda:\n        device = x.get_device()\n    else:\n        device = None\n",
        "    device = None\n    if x.is_cuda:\n        device = x.device.index\n",
    ],
)
def test_the_device_of_a_tensor_or_none_stays_none_for_the_host(chosen: str) -> None:
    """`xla.xla_device(None)` would be the accelerator for a tensor of the CPU."""
    after = migrated(
        "import torch\n"
        "def anchors(x, sizes):\n"
        f"{chosen}"
        "    return torch.tensor(sizes, device=device)\n"
    )
    assert "x.device" in after
    assert "device=device)" in after


@pytest.mark.parametrize(
    ("test", "used", "after"),
    [
        (
            "if device < 0:\n        device = None",
            "torch.ones(2, device=device)",
            "torch.ones(2, device=None if device is None else xla.xla_device(device))",
        ),
        (
            "if device == -1:\n        device = 'cpu'",
            "torch.ones(2).to(device)",
            "torch.ones(2).to(xla.xla_device(device))",
        ),
        (
            "if device >= 0:\n        device = 'cuda:' + str(device + 0)\n    else:\n        device = 'cpu'",
            "torch.ones(2).to(device)",
            "torch.ones(2).to(device)",
        ),
    ],
)
def test_a_number_that_is_compared_stays_one_until_something_is_moved(
    test: str, used: str, after: str
) -> None:
    """A torch.device cannot be compared with a number, and None is the host."""
    source = "import torch\ndef f(x):\n    device = x.get_device()\n    {test}\n    return {used}\nf(torch.ones(2).cuda())\n"
    done = migrated(source.format(test=test, used=used))
    assert "device = x.get_device()\n" in done
    assert f"return {after}\n" in done


@pytest.mark.parametrize(
    "told",
    [
        "if torch.is_tensor(a) and torch.is_tensor(b):\n        return a.to(b)\n    return a",
        "if isinstance(b, torch.Tensor):\n        return a.to(b)\n    return a",
        "return a.to(b) if isinstance(b, (torch.Tensor, str)) else a",
    ],
)
def test_what_is_said_to_be_of_another_type_is_no_number(told: str) -> None:
    """`a.to(b)` gives `a` the device and the type of the tensor `b`."""
    source = f"import torch\n\ndef like(a, b):\n    {told}\n\ndef update(total, n=1):\n    return like(total, n) + n\n"
    assert migrated(source) == source


def test_the_device_of_a_tensor_is_no_option_of_the_same_name() -> None:
    source = """
import argparse
import torch

def zeros_like(x):
    return torch.zeros(3, device=x.device)

def unused(h, args):
    return torch.ones(3, device=h.device), h.to(args.device)

parser = argparse.ArgumentParser()
parser.add_argument("--device", type=int, default=0)
args = parser.parse_args()
model = torch.nn.Linear(2, 2).to(args.device)
zeros_like(model(torch.zeros(2).to(args.device)))
"""
    after = migrated(source)
    assert "torch.zeros(3, device=x.device)" in after
    assert "torch.ones(3, device=h.device), h.to(xla.xla_device(args.device))" in after
