"""Saving and loading, in the ways that people write it."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check, migrate

from ....each import each
from ...helpers import findings, migrated

HEAD = "import torch\nmodel.to(device)\nloss.backward()\n"


def last(line: str, **options: bool) -> str:
    return migrated(f"{HEAD}{line}\n", **options).splitlines()[-1]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.save(model.state_dict(), path)", "xla.save(model.state_dict(), path)"),
        ("torch.save(model, 'a.pt')", "xla.save(model, 'a.pt')"),
        ("torch.save(obj=state, f=path)", "xla.save(obj=state, f=path)"),
        ("torch.save(state, path, pickle_protocol=4)", "xla.save(state, path, pickle_protocol=4)"),
        ("torch.save(state, path, dill, 4)", "xla.save(state, path, pickle_module=dill, pickle_protocol=4)"),
        ("torch.save(state, path, _use_new_zipfile_serialization=False)", "xla.save(state, path, _use_new_zipfile_serialization=False)"),
        ("if rank == 0: torch.save(state, path)", "if rank == 0: xla.save(state, path)"),
        ("with open(path, 'wb') as f: torch.save(state, f)", "with open(path, 'wb') as f: xla.save(state, f)"),
        ("save = functools.partial(torch.save, state)", "save = functools.partial(xla.save, state)"),
        ("fit(save_function=torch.save)", "fit(save_function=xla.save)"),
    ],
)  # fmt: skip
def test_save(before: str, after: str) -> None:
    assert last(before) == after


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ndef save_checkpoint(state, path):\n    torch.save(state, path)\n",
        "import torch\ndef dump(net, path):\n    torch.save(net.state_dict(), path)\n",
        HEAD + "from torch import save\nsave(state, path)\n",
    ],
)
def test_save_of_what_another_file_computes(source: str) -> None:
    assert "xla.save(" in migrated(source)


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.save(torch.stack(images), path)\n",
        "import torch\ndef prepare(x, path):\n    torch.save(x, path)\n",
        HEAD + "torch.save(torch.ones(2), path)\n",
        HEAD + "image.save(path)\n",
        HEAD + "from mylib import save\nsave(state, path)\n",
        HEAD + "ok = torch.save is not None\n",
        HEAD + "buffer = io.BytesIO()\ntorch.save(state, buffer)\n",
        HEAD + "import io\nf = io.BytesIO()\ntorch.save(state, f)\n",
        HEAD + "torch.save(args, 'training_args.bin')\n",
        HEAD + "torch.save(self.vocab, path)\n",
        HEAD + "torch.save(vocab['words'].state_dict(), path)\n",
        HEAD + "torch.save(self.char_vocab.state_dict(), path)\n",
        HEAD + "torch.save(src_vocabs[0], path)\n",
        "from accelerate import Accelerator\naccelerator = Accelerator()\n"
        + HEAD
        + "torch.save(state, path)\n",
    ],
)
def test_not_saved_from_the_device(source: str) -> None:
    assert [f for f in check(source.encode()) if f.code == "XLA701"] == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.load(p)", "xla.load(p)"),
        ("torch.load(f=p)", "xla.load(f=p)"),
        ("torch.load(p, device)", "xla.load(p, device)"),
        ("torch.load(p, None, dill)", "xla.load(p, None, pickle_module=dill)"),
        ("torch.load(p, map_location=None)", "xla.load(p, map_location=None)"),
        ("torch.load(p, map_location=device)", "xla.load(p, map_location=device)"),
        ("torch.load(p, map_location='cuda')", "xla.load(p, map_location=xla.xla_device())"),
        ("torch.load(p, 'cuda:0', weights_only=False)", "xla.load(p, xla.xla_device(), weights_only=False)"),
        ("torch.load(p, map_location='cuda:1')", "xla.load(p, map_location=xla.xla_device(1))"),
        ("torch.load(p, map_location=f'cuda:{rank}')", "xla.load(p, map_location=xla.xla_device(rank))"),
        ("torch.load(p, map_location='cuda:%d' % rank)", "xla.load(p, map_location=xla.xla_device(rank))"),
        ("torch.load(p, map_location='cuda:{}'.format(gpu))", "xla.load(p, map_location=xla.xla_device(gpu))"),
        ("torch.load(p, map_location=torch.device('cuda'))", "xla.load(p, map_location=xla.xla_device())"),
        ("torch.load(p, map_location='cuda' if torch.cuda.is_available() else 'cpu')", "xla.load(p, map_location=xla.xla_device())"),
        ("torch.load(p, map_location='cuda' if gpu else 'cpu')", "xla.load(p, map_location=xla.xla_device() if gpu else 'cpu')"),
        ("torch.load(p, map_location=lambda storage, loc: storage)", "xla.load(p, map_location=\"cpu\")"),
        ("torch.load(p, map_location=lambda s, l: s.cuda(0) if torch.cuda.is_available() else s)",
         "xla.load(p, map_location=xla.xla_device())"),
        ("torch.load(p, map_location=lambda s, l: s.cuda(gpu) if args.cuda else s.cpu())",
         'xla.load(p, map_location=xla.xla_device(gpu) if args.cuda else "cpu")'),
        ("torch.load(p, map_location=lambda s, l: s.cpu())", "xla.load(p, map_location=\"cpu\")"),
        ("torch.load(p, map_location=lambda s, l: s.cuda())", "xla.load(p, map_location=xla.xla_device())"),
        ("torch.load(p, map_location=lambda s, l: s.cuda(args.gpu))", "xla.load(p, map_location=xla.xla_device(args.gpu))"),
        ("torch.load(p, map_location=lambda s, l: s.cuda(torch.cuda.current_device()))", "xla.load(p, map_location=xla.xla_device())"),
        ("torch.load(p, map_location={'cuda:0': 'cpu'})", "xla.load(p, map_location=\"cpu\")"),
        ("torch.load(p, map_location={'cuda:%d' % 0: 'cuda:%d' % rank})", "xla.load(p, map_location=xla.xla_device(rank))"),
        ("torch.load(p, map_location={'cuda:0': 'a', 'cuda:1': 'b'})", "xla.load(p, map_location={'cuda:0': 'a', 'cuda:1': 'b'})"),
        ("torch.load(p, map_location=where)", "xla.load(p, map_location=where)"),
        ("torch.load(io.BytesIO(data), mmap=True)", "xla.load(io.BytesIO(data), mmap=True)"),
        ("functools.partial(torch.load, map_location='cuda')", "functools.partial(xla.load, map_location=xla.xla_device())"),
        ("torch.hub.load_state_dict_from_url(u, map_location=device)", "torch.hub.load_state_dict_from_url(u, map_location=\"cpu\")"),
        ("torch.utils.model_zoo.load_url(u, map_location='cuda')", "torch.utils.model_zoo.load_url(u, map_location=\"cpu\")"),
        ("torch.jit.load(p, map_location='cuda:0')", "torch.jit.load(p, map_location=\"cpu\").to(xla.xla_device())"),
    ],
)  # fmt: skip
def test_load(before: str, after: str) -> None:
    assert last(f"x = {before}") == f"x = {after}"


@pytest.mark.parametrize(
    "source",
    [
        HEAD + "x = torch.load(p, map_location='cpu')\n",
        HEAD + "x = torch.load(p, 'cpu', weights_only=True)\n",
        HEAD + "x = torch.load(p, map_location=torch.device('cpu'))\n",
        "import torch\nx = torch.load('data.pt')\n",
        "import torch\nfrom torch.utils.data import Dataset\nmodel.cuda()\nclass D(Dataset):\n    def __getitem__(self, i):\n        return torch.load(self.paths[i])\n",
        HEAD + "x = json.load(f)\n",
        HEAD + "x = torch.hub.load_state_dict_from_url(u)\n",
        HEAD + "x = torch.jit.load(p)\n",
    ],
)
def test_not_loaded_to_the_device(source: str) -> None:
    assert [f for f in check(source.encode()) if f.code in {"XLA702", "XLA706"}] == []


@pytest.mark.parametrize(
    ("where", "named"),
    [
        ("torch.device('cuda' if torch.cuda.is_available() else 'cpu')", True),
        ("'cuda:0'\nif not torch.cuda.is_available():\n    where = 'cpu'", True),
        ("'cpu'", False),
        ("torch.device('cpu')", False),
    ],
)
def test_names_that_a_class_elsewhere_hands_to_torch_load(where: str, named: bool) -> None:
    source = f"{HEAD}where = {where}\nx = get().load_from_checkpoint(p, map_location=where)\n"
    assert any(code == "XLA702" for _, code in findings(source)) is named


def test_a_location_for_somebody_else_is_reported() -> None:
    source = HEAD + "x = Model.load_from_checkpoint(p, map_location='cuda')\n"
    assert (4, "XLA702") in findings(source)
    assert "map_location='cuda'" in migrated(source)
    local = HEAD + "def read(p, map_location):\n    pass\n\nread(p, map_location='cuda')\n"
    assert "XLA702" not in [code for _, code in findings(local)]


def test_a_lightning_module_of_another_module_is_moved() -> None:
    base = "import lightning as L\nclass Base(L.LightningModule):\n    pass\n"
    model = "from base import Base\nclass Net(Base):\n    def training_step(self, x, i):\n        return x\n"
    main = f"{HEAD}import model\nnet = model.Net.load_from_checkpoint(p, map_location='cuda:0')\n"
    files = {"base.py": base.encode(), "model.py": model.encode(), "main.py": main.encode()}
    project = Project(Modules(files), "main.py")
    after = migrate(files["main.py"], Options(), "main.py", project).data.decode()
    moved = 'model.Net.load_from_checkpoint(p, map_location="cpu").to(xla.xla_device())'
    assert after.endswith(f"net = {moved}\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("save_file(model.state_dict(), p)", "save_file({k: v.cpu() for k, v in model.state_dict().items()}, p)"),
        ("save_file(tensors={'a': a.cpu()}, filename=p)", "save_file(tensors={'a': a.cpu()}, filename=p)"),
        ("s = model.state_dict(); save_file(s, p)", "s = model.state_dict(); save_file({k: v.cpu() for k, v in s.items()}, p)"),
        ("x = load_file(p, device='cuda')", "x = load_file(p, device=xla.device_type())"),
        ("x = load_file(p, 'cuda:0')", "x = load_file(p, xla.device_type())"),
        ("x = load_file(p, device='cpu')", "x = load_file(p, device='cpu')"),
        ("x = load_file(p, device='cuda:0' if gpu else 'cpu')", "x = load_file(p, device=xla.device_type() if gpu else 'cpu')"),
        ("save_file({k: v.half() for k, v in model.state_dict().items()}, p)",
         "save_file({k: v.cpu() for k, v in {k: v.half() for k, v in model.state_dict().items()}.items()}, p)"),
        ("save_file(dict(w=model.weight), p)", "save_file({k: v.cpu() for k, v in dict(w=model.weight).items()}, p)"),
        ("save_file({'w': model.weight.cpu()}, p)", "save_file({'w': model.weight.cpu()}, p)"),
        ("save_file({'n': numbers}, p)", "save_file({'n': numbers}, p)"),
    ],
)  # fmt: skip
def test_safetensors(before: str, after: str) -> None:
    source = f"{HEAD}from safetensors.torch import load_file, save_file\n{before}\n"
    assert migrated(source).splitlines()[-1] == after


def test_whole_models_in_safetensors_are_for_a_person() -> None:
    source = HEAD + "from safetensors.torch import save_model\nsave_model(model, p)\n"
    assert (5, "XLA707") in findings(source)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("torch.onnx.export(model, x, p)", True),
        ("torch.jit.save(scripted, p)", True),
        ("torch.onnx.export(model.cpu(), x.cpu(), p)", False),
        ("torch.onnx.export(model.to('cpu'), x, p)", False),
    ],
)
def test_export(line: str, found: bool) -> None:
    source = f"import torch\ndef export(model, x, p, device):\n    model.to(device)\n    {line}\n"
    assert ("XLA705" in [code for _, code in findings(source)]) is found


def test_export_without_an_accelerator_is_none() -> None:
    assert findings("import torch\ntorch.onnx.export(model, x, p)\n") == []


@pytest.mark.parametrize(
    "lines",
    [
        "torch.save(state, f'random_{rank}.pt')",
        "path = 'r%d.pt' % args.local_rank\ntorch.save(state, path)",
        "torch.save(state, os.path.join(folder, str(dist.get_rank())))",
        "if rank != 0:\n    torch.save(state, 'other.pt')",
        "if args.local_rank == 0:\n    torch.save(state, 'host.pt')",
        "if args.rank % ngpus_per_node == 0:\n    torch.save(state, 'host.pt')",
        "if not several or (several and dist.get_rank() % n == 0):\n    torch.save(state, 'host.pt')",
        "def keep(p):\n    torch.save(state, p)\n\nif local_rank == 0:\n    keep('host.pt')",
    ],
)
def test_what_each_replica_writes_is_written_by_each(lines: str) -> None:
    assert "master_only=False" in migrated(HEAD + lines)


@pytest.mark.parametrize(
    "lines",
    [
        "torch.save(state, f'epoch_{epoch}.pt')",
        "if rank == 0:\n    torch.save(state, path)",
        "if rank != 0:\n    pass\nelse:\n    torch.save(state, path)",
        "if is_main_process():\n    torch.save(state, path)",
        "if step % 10 == 0:\n    torch.save(state, path)",
        "def keep(p):\n    torch.save(state, p)\n\nif local_rank == 0:\n    keep('a')\nif rank == 0:\n    keep('b')",
    ],
)
def test_what_one_replica_writes_is_written_by_the_master(lines: str) -> None:
    assert "master_only" not in migrated(HEAD + lines)


LOADS = """import torch

class Trainer:
    def __init__(self, cfg):
        self.device = cfg.device if torch.cuda.is_available() else "cpu"

def load(path, cfg, cpu):
    {lines}

model.cuda().backward()
"""


@pytest.mark.parametrize(
    "lines",
    [
        'd = torch.device("cpu") if cpu else torch.device("cuda")\n    torch.load(path, map_location=d)',
        'd = "cpu"\n    if cfg.gpu: d = cfg.gpu\n    torch.load(path, map_location=d)',
        "torch.load(path, map_location=Trainer(cfg).device)",
    ],
)
def test_a_place_that_is_the_cpu_in_one_case_is_not_the_cpu(lines: str) -> None:
    assert "xla.load(path, " in migrated(LOADS.replace("{lines}", lines))


@pytest.mark.parametrize(
    "lines",
    [
        'd = torch.device("cpu")\n    torch.load(path, map_location=d)',
        'torch.load(path, map_location=torch.device("cpu"))',
        'd = "cpu"\n    torch.load(path, map_location=d)',
    ],
)
def test_the_cpu_under_a_name_is_the_cpu(lines: str) -> None:
    assert "xla.load" not in migrated(LOADS.replace("{lines}", lines))


@pytest.mark.parametrize(
    ("before", "severity"),
    [
        ("model.cpu()", "info"),
        ("model.eval().cpu()", "info"),
        ("model.to('cpu')", "info"),
        ("model.cpu()\nprint(path)", "info"),
        ("model.cpu()\nmodel.to(device)", "warning"),
        ("assert model.device == torch.device('cpu')", "info"),
        ("assert other.device.type == 'cpu'", "warning"),
        ("other.cpu()", "warning"),
        ("model.eval()", "warning"),
    ],
)
def test_what_was_brought_back_before_is_on_the_host(before: str, severity: str) -> None:
    source = f"{HEAD}{before}\ntorch.save(model.state_dict(), path)\n"
    found = [f for f in check(source.encode()) if f.code == "XLA701"]
    assert [f.severity for f in found] == [severity]
    assert last(f"{before}\ntorch.save(model.state_dict(), path)").startswith("xla.save(")


def test_what_is_brought_back_before_the_block_is_on_the_host() -> None:
    source = (
        f"{HEAD}def f(model):\n    model.cpu()\n    if path:\n        torch.save(model, path)\n"
    )
    assert [f.severity for f in check(source.encode()) if f.code == "XLA701"] == ["info"]
    outside = source.replace("    model.cpu()\n", "").replace("def f", "model.cpu()\ndef f")
    assert [f.severity for f in check(outside.encode()) if f.code == "XLA701"] == ["warning"]


def test_what_was_just_saved_to_memory_is_loaded_as_it_is() -> None:
    copy = "def copy(x):\n    b = io.BytesIO()\n    torch.save(x, b)\n    b.seek(0)\n    return torch.load(b)\n"
    assert "XLA702" not in [code for _, code in findings(HEAD + copy)]
    assert "XLA702" in [code for _, code in findings(HEAD + copy.replace("torch.save(x, b)", ""))]


@pytest.mark.parametrize(
    ("between", "severity"),
    [
        ("model.eval()", "info"),
        ("print(path)", "info"),
        ("model = Net().to(device)", "warning"),
        ("model.to(device)", "warning"),
        ("fit(model)", "warning"),
    ],
)
def test_a_module_that_was_only_made_is_on_the_host(between: str, severity: str) -> None:
    source = (
        f"{HEAD}class Net(torch.nn.Module):\n    pass\ndef f(path):\n    model = Net()\n"
        f"    {between}\n    torch.save(model.state_dict(), path)\n"
    )
    found = [f for f in check(source.encode()) if f.code == "XLA701"]
    assert [f.severity for f in found] == [severity]


@pytest.mark.parametrize(
    ("lines", "device"),
    [
        ("m = torch.nn.Linear(2, 2)\n    y = m(x)\n    torch.save(m.state_dict(), p)", False),
        ("m = torch.nn.Linear(2, 2)\n    o = torch.optim.SGD(m.parameters(), 1)\n    torch.save(m.state_dict(), p)", False),
        ("import torch_xla.core.xla_model as xm\n    c = xm._maybe_convert_to_cpu(x)\n    torch.save(c, p)", False),
        ("m = torch.nn.Linear(2, 2)\n    fit(m)\n    torch.save(m.state_dict(), p)", True),
        ("m = torch.nn.Linear(2, 2)\n    m.cuda()\n    torch.save(m.state_dict(), p)", True),
    ],
)  # fmt: skip
def test_what_is_on_the_host_is_no_file_of_xla_tensors(lines: str, device: bool) -> None:
    source = f"import torch\nmodel.to('cuda')\nloss.backward()\ndef f(x, p):\n    {lines}\n"
    messages = [f.message for f in check(source.encode()) if f.code == "XLA701"]
    assert any("a file of XLA tensors" in m for m in messages) is device


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("c = torch.load(p, map_location='cpu')\n    c['rate'] = x\n    torch.save(c, p)", False),
        ("c = torch.load(p, map_location=torch.device('cpu'))\n    torch.save(c, p)", False),
        ("c = torch.load(p)\n    torch.save(c, p)", True),
        ("c = torch.load(p, map_location='cpu')\n    c['m'] = model.state_dict()\n    torch.save(c, p)", True),
        ("c = torch.load(p, map_location='cpu')\n    c = fit(c)\n    torch.save(c, p)", True),
    ],
)  # fmt: skip
def test_what_was_loaded_to_the_host_is_no_file_of_xla_tensors(lines: str, found: bool) -> None:
    source = f"import torch\nmodel.to('cuda')\nloss.backward()\ndef f(x, p):\n    {lines}\n"
    assert ("XLA701" in {code for _, code in findings(source)}) is found


@pytest.mark.parametrize(
    ("location", "loads"),
    [
        ("torch.device(device)", "xla.load"),
        ("device", "xla.load"),
        ("place", "torch.load"),
        ("torch.device(place)", "torch.load"),
        ("torch.device('cpu')", "torch.load"),
        ("torch.device(self.device)", "xla.load"),
    ],
)
def test_a_parameter_is_the_cpu_only_where_it_is_not_given(location: str, loads: str) -> None:
    source = (
        "import torch\nclass Agent:\n    def load(self, path, device='cpu'):\n        place = 'cpu'\n"
        f"        self.model.load_state_dict(torch.load(path, map_location={location}))\n"
        "        self.model(torch.ones(2).cuda()).sum().backward()\n"
    )
    assert f"{loads}(path" in migrated(source)


@pytest.mark.parametrize(
    ("use", "found"),
    [
        ('"weights_only" in inspect.signature(torch.load).parameters', False),
        ("inspect.getfullargspec(torch.load)", False),
        ("hasattr(torch.load, '__wrapped__')", False),
        ("functools.wraps(torch.load)", False),
        ("inspect.getsource(torch.load)", False),
        ("functools.partial(torch.load, map_location=device)", True),
        ("read(path, torch.load)", True),
    ],
)
def test_what_only_asks_about_load_is_left(use: str, found: bool) -> None:
    source = f"import functools, inspect, torch\nmodel.cuda()\nx = {use}\nloss.backward()\n"
    assert ("XLA702" in {f.code for f in check(source.encode())}) is found


CONVERTED = """import torch
host = torch.device("cpu")
def parse(files):
    return [torch.load(file, map_location={place}, weights_only=False) for file in files]
def together(folder):
    parts = parse(list(folder))
    return {{k: v for part in parts for k, v in part.items()}}
def save_whole_checkpoint(folder, path):
    state = {made}
    torch.save(state, path)
"""


@each(
    "place, made, is_of_the_host",
    [
        ("host", "together(folder)", True),
        ("'cpu'", "together(folder)", True),
        ("'cpu'", "together(folder.sub)", True),
        ("None", "together(folder)", False),
        ("'cuda'", "together(folder)", False),
        ("'cpu'", "folder.model.state_dict()", False),
        ("'cpu'", "other(folder)", False),
    ],
)
def test_files_that_are_put_together_on_the_host(
    place: str, made: str, is_of_the_host: bool
) -> None:
    found = check(CONVERTED.format(place=place, made=made).encode())
    assert ("XLA701" not in {f.code for f in found}) is is_of_the_host


NET = """import lightning as L
import torch

class Net(L.LightningModule):
    def training_step(self, batch, index):
        return self(batch).mean()

def f(p, net, dev, i):
    """


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Net.load_from_checkpoint(p, map_location=torch.device('cuda:0')).eval()",
         "Net.load_from_checkpoint(p, map_location=\"cpu\").to(xla.xla_device()).eval()"),
        ("Net.load_from_checkpoint(p, map_location=net.device, strict=False)",
         "Net.load_from_checkpoint(p, strict=False, map_location=\"cpu\").to(net.device)"),
        ("d = torch.device('cuda')\n    Net.load_from_checkpoint(p, map_location=d)",
         "d = xla.xla_device()\n    Net.load_from_checkpoint(p, map_location=\"cpu\").to(d)"),
        *((f"Net.load_from_checkpoint(p, map_location={same})",) * 2
          for same in ("'cpu'", "torch.device('cpu')", "None", "lambda s, l: s", "f'cuda:{i}'")),
    ],
)  # fmt: skip
def test_modules_of_lightning(before: str, after: str) -> None:
    assert after in migrated(NET + before + "\n")


@pytest.mark.parametrize(
    ("saved", "is_of_the_device"),
    [
        ("opt.state_dict()", True),
        ("self.opts.state_dict()", True),
        ("opt", True),
        ("args.optim.state_dict()", True),
        ("opts", False),
        ("self.opt", False),
        ("vocab.state_dict()", False),
        ("tokenizer", False),
    ],
)
def test_opt_is_an_optimizer_where_it_has_a_state(saved: str, is_of_the_device: bool) -> None:
    source = (
        "import torch\n"
        "def train(self, model, args, opts, vocab, tokenizer):\n"
        "    model.cuda()\n"
        "    opt = torch.optim.Adam(model.parameters())\n"
        "    model(1).sum().backward()\n"
        "    opt.step()\n"
        f"    torch.save({saved}, 'o.pt')\n"
    )
    assert (f"xla.save({saved}, 'o.pt')" in migrated(source)) is is_of_the_device


@pytest.mark.parametrize(
    ("load", "becomes"),
    [
        ("torch.load('a.pt', map_location=device)", "xla.load('a.pt', map_location=device)"),
        ("torch.load('a.pt', map_location='cuda')", "xla.load('a.pt', map_location=xla.xla_device())"),
        ("torch.load('a.pt')", "torch.load('a.pt')"),
        ("torch.load('a.pt', map_location='cpu')", "torch.load('a.pt', map_location='cpu')"),
        ("torch.load('a.pt', None)", "torch.load('a.pt', None)"),
    ],
)  # fmt: skip
def test_a_dataset_that_asks_for_the_device_gets_it(load: str, becomes: str) -> None:
    source = (
        "import torch\n"
        "class Samples(torch.utils.data.Dataset):\n"
        "    def __init__(self, device):\n"
        f"        self.x = {load}\n"
        "def train(model, opt, device):\n"
        "    model.to(device)\n"
        "    for x in torch.utils.data.DataLoader(Samples(device)):\n"
        "        model(x.cuda()).sum().backward()\n"
        "        opt.step()\n"
    )
    assert f"self.x = {becomes}\n" in migrated(source)


@pytest.mark.parametrize(
    ("line", "is_named"),
    [
        ("pickle.dump(model.state_dict(), open('m.pkl', 'wb'))", True),
        ("pickle.dump({'model': model.state_dict(), 'epoch': 1}, f)", True),
        ("data = pickle.dumps(opt.state_dict())", True),
        ("joblib.dump(model, 'm.joblib')", True),
        ("pickle.dump(model.cpu().state_dict(), f)", False),
        ("pickle.dump({k: v.cpu() for k, v in model.state_dict().items()}, f)", False),
        ("pickle.dump(history, f)", False),
        ("pickle.dump(vocab, f)", False),
    ],
)
def test_a_pickle_of_weights(line: str, is_named: bool) -> None:
    source = (
        "import joblib, pickle\n"
        "import torch\n"
        "def train(history, vocab, f):\n"
        "    model = torch.nn.Linear(2, 2).cuda()\n"
        "    opt = torch.optim.Adam(model.parameters())\n"
        "    model(1).sum().backward()\n"
        "    opt.step()\n"
        f"    {line}\n"
    )
    assert ("XLA701" in {code for _, code in findings(migrated(source))}) is is_named


@pytest.mark.parametrize(
    ("entries", "stays"),
    [
        ('{"step": step, "shape": tuple(p.shape), "tensor": p.detach().cpu()}', True),
        ('{"name": f"{step}", "values": p.tolist(), "kind": "full"}', True),
        ('{"step": step, "model": model.state_dict(), "tensor": p.cpu()}', False),
        ('{"step": step, "loss": p.mean().item()}', False),
        ('{"p": p, "q": p.cpu()}', False),
        ('{**state, "q": p.cpu()}', False),
    ],
)
def test_what_is_taken_off_the_device_before_it_is_saved(entries: str, stays: bool) -> None:
    after = migrated(
        "import torch\n"
        "def save(step, model, state):\n"
        '    p = torch.ones(2, device="cuda")\n'
        "    p.sum().backward()\n"
        f'    torch.save({entries}, "p.pt")\n'
    )
    assert ("    torch.save(" in after) is stays


def test_downloads_to_a_name_of_the_cpu_are_not_reported() -> None:
    source = """
        import torch

        def load(model, url):
            place = torch.device("cpu")
            model.load_state_dict(torch.hub.load_state_dict_from_url(url, map_location=place))
            return model.cuda()
        """
    assert "map_location=place" in migrated(source)
