"""inference_mode, compile, activation checkpointing, shared buffers, and what XLA does not have."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ....each import each
from ...helpers import findings, migrated

HEAD = "import torch\nfrom torch import nn\nmodel.to(device)\n"


def codes(source: str) -> list[str]:
    return [code for _, code in findings(source)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("@torch.inference_mode()\ndef f(): ...", "@xla.inference_mode()\ndef f(): ..."),
        ("@torch.inference_mode\ndef f(): ...", "@xla.inference_mode\ndef f(): ..."),
        ("with torch.inference_mode():\n    f()", "with xla.inference_mode():\n    f()"),
        ("with torch.inference_mode(mode=not train):\n    f()", "with xla.inference_mode(mode=not train):\n    f()"),
        ("c = torch.inference_mode if a else torch.no_grad", "c = xla.inference_mode if a else torch.no_grad"),
        ("with torch.no_grad(), torch.inference_mode():\n    f()", "with torch.no_grad(), xla.inference_mode():\n    f()"),
        ("m = torch.compile(m)", "m = xla.compile(m)"),
        ("m = torch.compile(m, mode='max-autotune', fullgraph=True)", "m = xla.compile(m, mode='max-autotune', fullgraph=True)"),
        ("m = torch.compile(m, backend='inductor')", "m = xla.compile(m, backend='inductor')"),
        ("@torch.compile\ndef f(): ...", "@xla.compile\ndef f(): ..."),
        ("@torch.compile(dynamic=True)\ndef f(): ...", "@xla.compile(dynamic=True)\ndef f(): ..."),
        ("wrap = torch.compile if a else same", "wrap = xla.compile if a else same"),
        ("m = nn.Linear(2, 2)\nm.compile()", "m = nn.Linear(2, 2)\nif xla.device_type() != \"xla\":\n    m.compile()"),
    ],
)  # fmt: skip
def test_modes(before: str, after: str) -> None:
    assert migrated(f"{HEAD}{before}\n").endswith(f"\n{after}\n")


@pytest.mark.parametrize(
    "source",
    [
        "import torch\n@torch.inference_mode()\ndef f(x): return x\n",
        "import torch\nf = torch.compile(f)\n",
        HEAD + "m = torch.compile(m, backend='openxla')\n",
        HEAD + "ok = hasattr(torch, 'compile')\n",
        HEAD + "if torch.compile is not None: pass\n",
        HEAD + "p = re.compile('x')\n",
        HEAD + "keras_model.compile(optimizer='adam')\n",
        HEAD + "on = torch.is_inference_mode_enabled()\n",
        HEAD + "with torch.inference_mode(False): pass\n",
        HEAD + "torch.compile = patched\n",
        HEAD + "original = torch.compile\ntorch.compile = patched\n",
        HEAD + "TRACED = {torch.compile, torch.inference_mode}\n",
        HEAD + "@register(torch.compile)\ndef f(): ...\n",
        HEAD + "from torch.utils.checkpoint import checkpoint\ns = inspect.signature(checkpoint)\n",
        HEAD + "self.gradient_checkpointing_enable()\n",
        HEAD + "from mylib import checkpoint\nx = checkpoint(f, x)\n",
        HEAD + "checkpoint = torch.load(p, map_location='cpu')\n",
    ],
)
def test_other_modes(source: str) -> None:
    assert findings(source) == []


def test_a_module_is_made_for_the_device() -> None:
    source = "import torch\nclass M(torch.nn.Module):\n    @torch.inference_mode()\n    def f(self): ...\n"
    assert "@xla.inference_mode()" in migrated(source)


@pytest.mark.parametrize(
    ("imports", "before", "after"),
    [
        ("from torch.utils.checkpoint import checkpoint", "checkpoint(f, x, use_reentrant=False)", "xla.checkpoint(f, x, use_reentrant=False)"),
        ("import torch.utils.checkpoint as cp", "cp.checkpoint(f, x)", "xla.checkpoint(f, x)"),
        ("from torch.utils import checkpoint", "checkpoint.checkpoint(f, x)", "xla.checkpoint(f, x)"),
        ("import torch.utils.checkpoint", "torch.utils.checkpoint.checkpoint(f, x)", "xla.checkpoint(f, x)"),
        ("from torch.utils.checkpoint import checkpoint as ck", "functools.partial(ck, use_reentrant=False)", "functools.partial(xla.checkpoint, use_reentrant=False)"),
        ("from torch.utils.checkpoint import checkpoint_sequential", "checkpoint_sequential(fs, 2, x)", "xla.checkpoint_sequential(fs, 2, x)"),
        ("from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper", "checkpoint_wrapper(m)", "checkpoint_wrapper(m, checkpoint_fn=xla.checkpoint)"),
        ("from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper\nfrom functools import partial", "partial(checkpoint_wrapper, checkpoint_impl=i)", "partial(checkpoint_wrapper, checkpoint_impl=i, checkpoint_fn=xla.checkpoint)"),
    ],
)  # fmt: skip
def test_fact_1_101_activation_checkpointing(imports: str, before: str, after: str) -> None:
    source = f"import torch\n{imports}\ny = {before}\n"
    assert migrated(source).splitlines()[-1] == f"y = {after}"


@pytest.mark.parametrize(
    "line",
    [
        "apply_activation_checkpointing(m, check_fn=f)",
        "apply_activation_checkpointing(m, checkpoint_wrapper_fn=checkpoint_wrapper)",
    ],
)
def test_checkpointing_applied_to_parts(line: str) -> None:
    home = "torch.distributed.algorithms._checkpoint.checkpoint_wrapper"
    source = f"from {home} import apply_activation_checkpointing, checkpoint_wrapper\n{line}\n"
    assert findings(source) == [(2, "XLA509")]


def test_transformers_checkpointing_is_patched_once() -> None:
    source = (
        "import torch\nmodel.gradient_checkpointing_enable()\n"
        "model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={'use_reentrant': False})\n"
    )
    assert "modeling_utils.checkpoint = xla.checkpoint\n" in migrated(source)
    assert codes(migrated(source)) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("unet.enable_gradient_checkpointing()", True),
        ("model.set_grad_checkpointing(True)", True),
        ("model.set_grad_checkpointing(enable)", False),
        ("self.blocks.set_grad_checkpointing()", False),
        ("model.set_grad_checkpointing(False)", False),
    ],
)
def test_checkpointing_that_a_library_imports_for_itself(line: str, found: bool) -> None:
    assert ("XLA509" in codes(f"{HEAD}loss.backward()\n{line}\n")) is found


@pytest.mark.parametrize(
    "call",
    [
        "unet.enable_gradient_checkpointing()",
        "accelerator.unwrap_model(unet).enable_gradient_checkpointing()",
        "if args.gradient_checkpointing: controlnet.enable_gradient_checkpointing()",
        "pipeline.unet.enable_gradient_checkpointing()",
        "[m.enable_gradient_checkpointing() for m in models]",
    ],
)
@pytest.mark.parametrize(
    "head",
    [HEAD, "import torch\nfrom accelerate import Accelerator\naccelerator = Accelerator()\n"],
)
def test_diffusers_checkpointing_is_given_the_function(head: str, call: str) -> None:
    source = f"{head}from diffusers import UNet2DModel\nloss.backward()\n{call}\n"
    new = migrated(source)
    function = "lambda module, *args: xla.checkpoint(module, *args, use_reentrant=False)"
    assert f"enable_gradient_checkpointing({function})" in new
    assert "XLA509" not in codes(new)


def test_a_class_of_ones_own_has_a_method_of_the_same_name() -> None:
    source = (
        f"{HEAD}import diffusers\nclass Net(nn.Module):\n"
        "    def enable_gradient_checkpointing(self):\n        self.on = True\n"
        "net = Net()\nnet.enable_gradient_checkpointing()\n"
    )
    assert "lambda" not in migrated(source)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("for p, q in zip(a.parameters(), b.parameters()):\n    q.data.copy_(p.data)", "q.data.copy_(p.data * 1)"),
        ("for p, q in zip(a.parameters(), b.parameters()):\n    q.copy_(p)", "q.copy_(p * 1)"),
        ("for p, q in zip(a.parameters(), b.parameters()):\n    q.data.copy_(p.detach())", "q.data.copy_(p.detach() * 1)"),
        ("for (n, p), (m, q) in zip(a.named_parameters(), b.named_parameters()):\n    q.data.copy_(p.data)", "q.data.copy_(p.data * 1)"),
        ("for p, q in zip(a.buffers(), b.buffers()):\n    q.copy_(p)", "q.copy_(p * 1)"),
        ("loss.backward()\nk = {n: p.data.clone() for n, p in a.named_parameters()}\nfor n, p in a.named_parameters():\n    p.data.copy_(k[n])",
         "p.data.copy_(k[n] * 1)"),
        ("loss.backward()\nfor n, p in a.named_parameters():\n    k[n] = p.data.clone()\nfor n, p in a.named_parameters():\n    p.data.copy_(k[n].data)",
         "p.data.copy_(k[n].data * 1)"),
        ("loss.backward()\nk = [p.detach().clone() for p in a.parameters()]\nfor i, p in enumerate(a.parameters()):\n    p.data.copy_(k[i])",
         "p.data.copy_(k[i] * 1)"),
        ("for n in a.state_dict():\n    b.state_dict()[n].copy_(a.state_dict()[n])", "b.state_dict()[n].copy_(a.state_dict()[n] * 1)"),
        ("k, s = b.state_dict(), a.state_dict()\nfor n, p in s.items():\n    k[n].data.copy_(p.data)", "k[n].data.copy_(p.data * 1)"),
        ("k = dict(b.named_parameters())\nfor n, p in a.named_parameters():\n    k[n].copy_(p)", "k[n].copy_(p * 1)"),
        ("for p, q in zip(a.state_dict().values(), b.state_dict().values()):\n    q.copy_(p)", "q.copy_(p * 1)"),
        ("for n, p in a.named_buffers():\n    getattr(b, n).copy_(p)", "getattr(b, n).copy_(p * 1)"),
        ("for n, p in a.named_parameters():\n    b.get_parameter(n).data.copy_(p)", "b.get_parameter(n).data.copy_(p * 1)"),
        ("for p, q in zip(a.parameters(), b.parameters()):\n    q.data.copy_(p.clone())", "q.data.copy_(p.clone() * 1)"),
    ],
)  # fmt: skip
def test_fact_3_12_copied_parameters(before: str, after: str) -> None:
    assert migrated(f"{HEAD}{before}\n").splitlines()[-1].strip() == after


@pytest.mark.parametrize(
    "body",
    [
        "for p, q in zip(a.parameters(), b.parameters()):\n    q.data.copy_(tau * p.data + (1 - tau) * q.data)",
        "for p, q in zip(a.parameters(), b.parameters()):\n    q.data.copy_(p.data.mean())",
        "x.copy_(y)",
        "for p in a.parameters():\n    p.data.copy_(torch.ones(2))",
        "for p, x in zip(a.parameters(), saved):\n    p.data.copy_(x)",
        "new.bias.copy_(old.bias)",
        "for n, p in load(f).items():\n    b.state_dict()[n].copy_(p)",
        "k = {n: p.cpu() for n, p in a.state_dict().items()}\nfor n in k:\n    b.state_dict()[n].copy_(k[n])",
        "for n, p in a.state_dict().items():\n    b.state_dict()[n][:2].copy_(p)",
        "def build(other):\n    m = torch.nn.Linear(2, 2)\n    k = m.state_dict()\n    for n, p in other.state_dict().items():\n        k[n].copy_(p)\n    return m",
        "loss.backward()\nk = load(f)\nfor n, p in a.named_parameters():\n    p.data.copy_(k[n])",
        "loss.backward()\nk = {n: p.cpu().clone() for n, p in a.named_parameters()}\nfor n, p in a.named_parameters():\n    p.data.copy_(k[n])",
    ],
)
def test_other_copies(body: str) -> None:
    assert codes(f"{HEAD}{body}\n") == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.autograd.set_detect_anomaly(True)\nx = 1", "x = 1"),
        ("with torch.autograd.detect_anomaly(check_nan=True):\n    f()", "f()"),
        ("with torch.autograd.set_detect_anomaly(True):\n    f()", "f()"),
        ("with timer(), torch.autograd.detect_anomaly():\n    f()", "with timer():\n    f()"),
    ],
)
def test_detect_anomaly(before: str, after: str) -> None:
    source = f"{HEAD}{before}\n"
    assert migrated(source) == source
    assert migrated(source, unsafe=True).endswith(f"\n{after}\n")


@pytest.mark.parametrize(
    "mode", ["False", "args.debug", "mode=args.debug", "True, check_nan=False"]
)
def test_anomaly_detection_that_is_an_option(mode: str) -> None:
    assert codes(f"{HEAD}torch.autograd.set_detect_anomaly({mode})\n") == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("e = nn.Embedding(9, 2, sparse=True)", "e = nn.Embedding(9, 2)"),
        ("e = nn.Embedding(9, 2, sparse=False)", "e = nn.Embedding(9, 2, sparse=False)"),
        (
            "e = nn.EmbeddingBag(9, 2, mode='sum', sparse=True)",
            "e = nn.EmbeddingBag(9, 2, mode='sum')",
        ),
        ("e = nn.Embedding.from_pretrained(w, sparse=True)", "e = nn.Embedding.from_pretrained(w)"),
    ],
)
def test_sparse_embeddings(before: str, after: str) -> None:
    assert migrated(f"{HEAD}{before}\n").splitlines()[-1] == after


def test_sparse_embeddings_of_sparse_adam_only_when_asked() -> None:
    source = HEAD + "e = nn.Embedding(9, 2, sparse=True)\no = torch.optim.SparseAdam(p)\n"
    assert "sparse=True" in migrated(source)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("a = torch.sparse_coo_tensor(i, v)", "XLA513"),
        ("a = torch.sparse.mm(a, b)", "XLA513"),
        ("a = b.to_sparse()", "XLA513"),
        ("p = nn.utils.rnn.pack_padded_sequence(x, n)", "XLA514"),
        ("p = torch.nn.utils.rnn.pack_sequence(xs)", "XLA514"),
        ("d = torch.utils.dlpack.to_dlpack(x)", "XLA515"),
        (
            "q = torch.quantize_per_tensor(x.to('cuda') + torch.ones(2, device='cuda'), 0.1, 0, torch.qint8)",
            "XLA515",
        ),
        ("nn.Linear(2, 2).share_memory()", "XLA515"),
        ("p.data = p.data.to(device)", "XLA516"),
        ("p.data = p.data.cpu()", "XLA516"),
    ],
)
def test_what_xla_does_not_have(line: str, code: str) -> None:
    found = [f for f in check(f"{HEAD}loss.backward()\n{line}\n".encode()) if f.code == code]
    assert [f.safety for f in found] == [None]
    cpu_only = f"import torch\nfrom torch import nn\n{line}\n"
    if "device" not in line:
        assert codes(cpu_only) == []


@pytest.mark.parametrize(
    "line",
    [
        "p.data = p.data * 2",
        "p.data = p.data.half()",
        "p.data = p.data.to(torch.float32)",
        "d = to_dlpack(x)",
        "x = torch.ones(2).share_memory_()",
        "queue.share_memory()",
        "y = nn.utils.rnn.pad_sequence(xs)",
    ],
)
def test_what_is_no_trouble(line: str) -> None:
    source = f"{HEAD}loss.backward()\n{line}\n"
    assert [c for c in codes(source) if c in {"XLA513", "XLA514", "XLA515", "XLA516"}] == []


def test_an_override_of_share_memory_hands_on_what_its_caller_asks() -> None:
    source = """\
import torch
class Index:
    def __init__(self):
        self.data = torch.ones(2).cuda()
    def share_memory_(self):
        self.data.share_memory_()
        return self
    def publish(self):
        self.data.share_memory_()
"""
    assert [line for line, code in findings(source) if code == "XLA515"] == [9]


@pytest.mark.parametrize(
    ("test", "found"),
    [
        ("not x.is_cuda and share", False),
        ("not x.is_cuda", False),
        ("x.device.type == 'cpu'", False),
        ("x.is_cpu", False),
        ("share", True),
        ("not x.is_cuda or share", True),
        ("x.is_cuda", True),
    ],
)
def test_memory_is_shared_behind_a_test_for_the_host(test: str, found: bool) -> None:
    source = f"import torch\ndef f(x, y, share):\n    x = x.unsqueeze(0)\n    y.cuda()\n    if {test}:\n        x.share_memory_()\n"
    assert ((6, "XLA515") in findings(source)) is found


@each(
    "given, found",
    [
        ("from transformers import Trainer\ntrainer = Trainer(model)", True),
        ("from transformers import TrainingArguments\nargs = TrainingArguments(folder)", True),
        (
            "from sentence_transformers import SentenceTransformerTrainer as T\ntrainer = T(model=model)",
            True,
        ),
        ("import trl\ntrainer = trl.SFTTrainer(model)", True),
        ("import pytorch_lightning as pl\npl.Trainer().fit(model)", True),
        ("from mylib import Trainer\ntrainer = Trainer(model)", False),
        ("from transformers import Trainer", False),
        ("trainer = None", False),
    ],
)
def test_what_is_compiled_for_a_trainer(given: str, found: bool) -> None:
    source = f"import torch\nmodel = torch.compile(build())\n{given}\n"
    assert ("XLA508" in [code for _, code in findings(source)]) is found
