"""What a row says of a rule is so: the rule speaks at a use of the name, and its fix puts there what the row gives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from xla_codemods import catalog
from xla_codemods.catalog import row as kinds
from xla_codemods.engine import Options, check, migrate
from xla_codemods.finding import Finding

from ...each import each

ROWS = list(catalog.table().values())
TENSOR = "import torch\nx = torch.ones(2)\n"
TRAINS = "loss.backward()\n"

# Uses that show what a row means, where calling the name with one argument does not.
USES: dict[str, str] = {
    "torch.Tensor.cuda": f"{TENSOR}x = x.cuda()\n",
    "torch.nn.Module.cuda": "import torch\nm = torch.nn.Linear(2, 2).cuda()\n",
    "torch.Tensor.is_cuda": f"{TENSOR}y = x.is_cuda\n",
    "torch.Tensor.pin_memory": f"{TENSOR}x = x.pin_memory()\n",
    "torch.Tensor.record_stream": f"{TENSOR}x.record_stream(torch.cuda.current_stream())\n",
    "torch.set_default_tensor_type": "import torch\ntorch.set_default_tensor_type('torch.cuda.FloatTensor')\n",
    "torch.set_default_device": "import torch\ntorch.set_default_device('cuda')\n",
    'torch.distributed.is_backend_available("nccl")': "import torch\n"
    "y = torch.distributed.is_backend_available('nccl')\n",
    "torch.distributed.get_backend": "import torch\n"
    "y = torch.distributed.get_backend() == 'nccl'\n",
    "torch.set_float32_matmul_precision": "import torch\nx = torch.ones(2).cuda()\n"
    "torch.set_float32_matmul_precision('high')\n",
    "torch.distributed.rpc.TensorPipeRpcBackendOptions(device_maps)": "import torch\n"
    "o = torch.distributed.rpc.TensorPipeRpcBackendOptions(device_maps={})\n",
    "torch.is_autocast_enabled": "import torch\ny = torch.is_autocast_enabled()\n",
    "torch.cuda": "import torch\ndevices = {'cuda': torch.cuda}\n",
    "torch.cuda.amp.autocast": "import torch\nwith torch.cuda.amp.autocast():\n    f()\n",
    "torch.cuda.get_device_capability": "import torch\n"
    "dtype = torch.bfloat16 if torch.cuda.get_device_capability()[0] >= 8 else None\n",
    "torch.cuda.get_device_properties": "import torch\n"
    "n = torch.cuda.get_device_properties(0).total_memory\n",
    "torch.version.cuda": "import torch\ndevice = 'cuda' if torch.version.cuda else 'cpu'\n",
    "torch.backends.cuda.matmul.allow_tf32": "import torch\n"
    "torch.backends.cuda.matmul.allow_tf32 = True\n",
    "torch.backends.cuda.matmul.fp32_precision": "import torch\n"
    "torch.backends.cuda.matmul.fp32_precision = 'ieee'\n",
    "torch.profiler.ProfilerActivity.CUDA": "import torch\n"
    "p = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])\n",
    "torch.utils.data.DataLoader(pin_memory)": "import torch\n"
    "from xla_migrate import runtime as xla\n"
    "x = torch.utils.data.DataLoader(d, pin_memory=True)\n"
    "for batch in xla.MpDeviceLoader(x):\n    model(batch)\n",
    "torch.utils.data.DataLoader(pin_memory_device)": "import torch\n"
    "x = torch.utils.data.DataLoader(d, pin_memory=True, pin_memory_device='cuda')\n",
    "torch.Tensor.to(non_blocking)": "from xla_migrate import runtime as xla\n"
    "for x in xla.MpDeviceLoader(d):\n    model(x.to('cuda', non_blocking=True))\n",
    "torch.Tensor.cuda(non_blocking)": "from xla_migrate import runtime as xla\n"
    "for x in xla.MpDeviceLoader(d):\n    model(x.cuda(non_blocking=True))\n",
    'torch.device("cuda")': "import torch\ndevice = torch.device('cuda')\n",
    'torch.Tensor.to("cuda")': f"{TENSOR}x = x.to('cuda')\n",
    "torch.Tensor.to(0)": f"{TENSOR}x = x.to(0)\n",
    'torch.zeros(device="cuda")': "import torch\nx = torch.zeros(2, device='cuda')\n",
    'torch.Generator(device="cuda")': "import torch\ng = torch.Generator(device='cuda')\n",
    'torch.load(map_location="cuda")': "import torch\nx = torch.load('x', map_location='cuda')\n",
    "torch.random.fork_rng(devices)": "import torch\nx = torch.ones(2).cuda()\n"
    "with torch.random.fork_rng(devices=[0]):\n    f()\n",
    'torch.distributed.init_process_group("nccl")': "import torch\n"
    "torch.distributed.init_process_group('nccl')\n",
    'torch.distributed.new_group(backend="nccl")': "import torch\n"
    "g = torch.distributed.new_group([0], backend='nccl')\n",
    "timm.data.create_loader(device)": "import timm\nx = timm.data.create_loader(d, 224, 8)\n",
    "apex.amp.float_function": "import apex\n@apex.amp.float_function\ndef f():\n    pass\n",
    "apex.amp.half_function": "import apex\n@apex.amp.half_function\ndef f():\n    pass\n",
    "apex.amp.register_float_function": "import torch\nfrom apex import amp\n"
    "amp.register_float_function(torch, 'sigmoid')\n",
    "apex.amp.register_half_function": "import torch\nfrom apex import amp\n"
    "amp.register_half_function(torch, 'sigmoid')\n",
    "apex.amp.register_promote_function": "import torch\nfrom apex import amp\n"
    "amp.register_promote_function(torch, 'sigmoid')\n",
    "torch.profiler.profile(use_cuda)": "import torch\np = torch.profiler.profile(use_cuda=True)\n",
    "torch.autograd.profiler.profile(use_cuda)": "import torch\n"
    "p = torch.autograd.profiler.profile(use_cuda=True)\n",
    "nvtx.annotate": "import nvtx\nwith nvtx.annotate('x'):\n    f()\n",
    "cuda": "from cuda import cudart\n",
    "transformers.TrainingArguments(optim)": "import transformers\n"
    "a = transformers.TrainingArguments('x', optim='adamw_torch_fused')\n",
    "transformers.TrainingArguments(fp16)": "import transformers\n"
    "a = transformers.TrainingArguments('x', fp16=True)\n",
    "transformers.TrainingArguments(tf32)": "import transformers\n"
    "a = transformers.TrainingArguments('x', tf32=True)\n",
    "transformers.TrainingArguments(torch_compile)": "import transformers\n"
    "a = transformers.TrainingArguments('x', torch_compile=True)\n",
    "transformers.AutoModel.from_pretrained(load_in_8bit)": "import transformers\n"
    "m = transformers.AutoModel.from_pretrained('x', load_in_8bit=True)\n",
    "transformers.AutoModel.from_pretrained(load_in_4bit)": "import transformers\n"
    "m = transformers.AutoModel.from_pretrained('x', load_in_4bit=True)\n",
    'transformers.AutoModel.from_pretrained(attn_implementation="flash_attention_2")': "import transformers\n"
    "m = transformers.AutoModel.from_pretrained('x', attn_implementation='flash_attention_2')\n",
    "transformers.AutoModel.from_pretrained(device_map)": "import transformers\n"
    "m = transformers.AutoModel.from_pretrained('x', device_map='auto')\n",
    "accelerate.Accelerator(mixed_precision)": "import accelerate\n"
    "a = accelerate.Accelerator(mixed_precision='fp16')\n",
    "accelerate.Accelerator.save_state": "import accelerate\n"
    "a = accelerate.Accelerator()\na.save_state('x')\n",
    "lightning.Trainer(accelerator)": "import lightning\n"
    "t = lightning.Trainer(accelerator='gpu')\n",
    "lightning.Trainer(precision)": "import lightning\n"
    "t = lightning.Trainer(precision='16-mixed')\n",
    "lightning.Trainer(strategy)": "import lightning\n"
    "t = lightning.Trainer(strategy='deepspeed')\n",
    "triton.jit": "import triton\n@triton.jit\ndef kernel(x):\n    pass\n",
    "apex.amp.scale_loss": "import apex\n"
    "with apex.amp.scale_loss(loss, optimizer) as scaled:\n    scaled.backward()\n",
    "flash_attn.flash_attn_kvpacked_func": "import flash_attn\n"
    "y = flash_attn.flash_attn_kvpacked_func(q, kv)\n",
    "flash_attn.flash_attn_func": "import flash_attn\ny = flash_attn.flash_attn_func(q, k, v)\n",
}
for _kind in ("Adam", "AdamW", "SGD", "Adagrad"):
    USES[f"torch.optim.{_kind}(fused)"] = f"import torch\no = torch.optim.{_kind}(p, fused=True)\n"
for _row in ROWS:
    if _row.name.endswith('("cuda")') and _row.name not in USES:
        USES[_row.name] = f"import torch\nm = {_row.name.partition('(')[0]}('cuda', (2,))\n"
    if _row.name.endswith("(pin_memory)") and _row.name not in USES:
        USES[_row.name] = f"import torch\nx = {_row.name.partition('(')[0]}(2, pin_memory=True)\n"
for _kind in "ASGD Adadelta Adam AdamW Adamax NAdam RAdam RMSprop Rprop".split():
    USES[f"torch.optim.{_kind}(capturable)"] = (
        f"import torch\no = torch.optim.{_kind}(p, capturable=True)\n"
    )
for _home in ("cuda", "cuda.memory", "accelerator", "accelerator.memory"):
    USES[f"torch.{_home}.memory_stats"] = (
        f"import torch\nn = torch.{_home}.memory_stats()['allocated_bytes.all.current']\n"
    )
for _kind in "BFloat16 Bool Byte Char Double Float Half Int Long Short".split():
    USES[f"torch.cuda.{_kind}Tensor"] = f"import torch\nx = torch.cuda.{_kind}Tensor([1, 2])\n"
for _kind in ("device_ids", "output_device"):
    USES[f"torch.nn.parallel.DistributedDataParallel({_kind})"] = (
        f"import torch\nm = torch.nn.parallel.DistributedDataParallel(m, {_kind}=x)\n"
    )
for _home in ("", "autocast_mode."):
    for _kind in ("custom_fwd", "custom_bwd"):
        USES[f"torch.amp.{_home}{_kind}"] = (
            f"import torch\nf = torch.amp.{_home}{_kind}(device_type='cuda')(f)\n"
        )


def uses(name: str) -> list[str]:
    """Files that use `name` in the ways that there are."""
    if name in USES:
        return [USES[name]]
    home, _, last = name.rpartition(".")
    root = name.partition(".")[0]
    if not home and name.isupper():  # an environment variable
        return [f"import os\nos.environ['{name}'] = '1'\n"]
    if not home:
        return [
            f"import {name}\n{name}.f()\n",
            f"import {name}\n",
            f"def f():\n    import {name}\n",
        ]
    return [
        f"import {root}\n{name}()\n",
        f"import {root}\ny = {name}(1)\n",
        f"import {root}\nx = {name}\n",
        f"import {root}\nwith {name}(1):\n    f()\n",
        f"import {root}\nfor x in {name}(o):\n    f(x)\n",
        f"import {root}\n@{name}\ndef f():\n    pass\n",
        f"import {root}\ntry:\n    f()\nexcept {name}:\n    pass\n",
        f"import {root}\n{name} = True\n",
        f"from {home} import {last}\n",
    ]


@cache
def checked(source: str) -> list[Finding]:
    return check(source.encode())


def found(name: str) -> Iterator[tuple[str, Finding]]:
    """Yield what is found at the uses of `name`; those after the last one that is asked for are not checked."""
    return ((source, finding) for source in uses(name) for finding in checked(source))


def fixed(row: catalog.Row) -> Iterator[str]:
    """Yield what becomes of the uses that the row's rule fixes."""
    for source in uses(row.name):
        if any(f.code == row.rule and f.safety is not None for f in checked(source)):
            yield migrate(source.encode(), Options(unsafe=True)).data.decode()


NAMED = [row for row in ROWS if row.rule]
FIXED = [row for row in ROWS if row.fate in {kinds.REWRITTEN, kinds.REMOVED}]


def test_every_name_that_fails_has_a_rule() -> None:
    """But for parts of objects that cannot be followed, and what only data of CUDA's own would reach."""
    excused = re.compile(
        r"torch\.(UntypedStorage|Tensor)\.|.*\.profile\(use_cuda\)$|.*\(device_maps\)$"
    )
    unheard = [
        row.name
        for row in ROWS
        if not row.rule
        and row.fate != kinds.STAYS
        and row.left != kinds.HARMLESS
        and not excused.match(row.name)
    ]
    assert not unheard, "add these names to catalog/families.py, or give their rows a rule"


@each("row", NAMED, ids=lambda row: row.name)
def test_the_rule_speaks(row: catalog.Row) -> None:
    assert any(finding.code == row.rule for _, finding in found(row.name)), (
        f"{row.name}: {row.rule} is silent"
    )


@each("row", FIXED, ids=lambda row: row.name)
def test_what_is_said_to_be_fixed_is(row: catalog.Row) -> None:
    """A fix of the rule takes the name away, and what the row gives is put there."""
    wanted = re.search(r"(?:\bxla|torch|timm)(?:\.\w+)+|\w+=[\w\".]+", row.instead)
    last = re.split(r"[.(]", row.name)[-1].rstrip(')"')
    if row.fate == kinds.REMOVED:
        assert any(not re.search(rf"\b{last}\b", result) for result in fixed(row))
    elif wanted:
        text = wanted[0].removeprefix("torch.amp.")  # which torch gives in a second place
        assert any(text in result.replace("'", '"') for result in fixed(row)), (
            f"{text} is in no result"
        )
    else:
        assert any(True for _ in fixed(row)), f"{row.rule} has no fix at any use of {row.name}"


@each("row", [row for row in ROWS if row.fate == kinds.ABSENT], ids=lambda row: row.name)
def test_what_has_no_equivalent_is_not_fixed(row: catalog.Row) -> None:
    """No use as such: that a rule drops a whole block, or an idle import, is another matter."""
    if row.name in {"torch.cuda"}:
        return
    fixes = [f for _, f in found(row.name) if f.safety is not None and f.code == row.rule]
    assert not [f.code for f in fixes if "remove the import, which is not used" not in f.message]
