"""A test for CUDA stays as it is if the code that it guards runs on CUDA only, wherever that code stands."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check, migrate

_HEAD = "import torch\nimport torch.nn.functional as F\n"
_KERNEL = "def fused(x):\n    import my_cuda_kernels\n    return my_cuda_kernels.gelu(x)\n"

FORMS = {
    "function": (
        "def can_fuse(x):\n    return x.is_cuda\n",
        "def act(x):\n    return fused(x) if can_fuse(x) else F.gelu(x)\n",
    ),
    "early no": (
        "def can_fuse(x):\n    if not x.is_cuda:\n        return False\n    return x.dim() == 2\n",
        "def act(x):\n    if can_fuse(x):\n        return fused(x)\n    return F.gelu(x)\n",
    ),
    "early yes": (
        "def can_fuse(x):\n    if x.device.type == 'cuda':\n        return True\n    return False\n",
        "def act(x):\n    if not can_fuse(x):\n        return F.gelu(x)\n    return fused(x)\n",
    ),
    "registry": (
        "def checker(x):\n    return x.device.type == 'cuda'\n",
        "register('gelu', execution=fused, checker=checker)\n",
    ),
    "dictionary": (
        "def checker(x):\n    return x.is_cuda\n",
        "TABLE = {'gelu': (checker, fused)}\n",
    ),
    "decorator": (
        "def needs(x):\n    return x.is_cuda\n",
        "@when(needs)\ndef act(x):\n    return fused(x)\n",
    ),
    "property": (
        "class Norm(torch.nn.Module):\n    @property\n    def fast(self):\n"
        "        return self.weight.is_cuda\n",
        "    def forward(self, x):\n        return fused(x) if self.fast else F.gelu(x)\n",
    ),
    "match": (
        "def can_fuse(x):\n    return x.is_cuda\n",
        "def act(x):\n    match can_fuse(x):\n        case True:\n            return fused(x)\n"
        "    return F.gelu(x)\n",
    ),
    "option": (
        "def step(x, quick=False):\n    return fused(x) if quick else F.gelu(x)\n",
        "def act(x):\n    return step(x, quick=x.is_cuda)\n",
    ),
    "partial": (
        "from functools import partial\n"
        "def step(x, quick=False):\n    return fused(x) if quick else F.gelu(x)\n",
        "def act(x):\n    run = partial(step, quick=x.is_cuda)\n    return run(x)\n",
    ),
    "wrapper": (
        "def on_cuda(fn):\n    def run(x):\n        if x.is_cuda:\n            return fn(x)\n"
        "        return F.gelu(x)\n    return run\n",
        "@on_cuda\ndef act(x):\n    import cupy\n    return cupy.gelu(x)\n",
    ),
    "class of wrappers": (
        "class on_cuda:\n    def __init__(self, slow):\n        self.slow = slow\n"
        "    def __call__(self, fn):\n        def run(x):\n"
        "            return fn(x) if x.is_cuda else self.slow(x)\n        return run\n",
        "@on_cuda(F.gelu)\ndef act(x):\n    import cupy\n    return cupy.gelu(x)\n",
    ),
    "wrapped by a call": (
        "def on_cuda(fn):\n    def run(x):\n        if not x.is_cuda:\n            return F.gelu(x)\n"
        "        return fn(x)\n    return run\n",
        "act = on_cuda(fused)\n",
    ),
    "derived class": (
        "class Act(torch.nn.Module):\n    def forward(self, x):\n        if x.is_cuda:\n"
        "            return self.fast(x)\n        return F.gelu(x)\n",
        "class Gelu(Act):\n    def fast(self, x):\n        import cupy\n        return cupy.gelu(x)\n",
    ),
    "another package": (
        "def quick(x):\n    from my_ext import gelu\n    return gelu(x)\n",
        "def act(x):\n    return quick(x) if x.is_cuda else F.gelu(x)\n",
    ),
    "graph": (
        "def capture(step, graphed):\n    if graphed:\n        x = torch.ones(2, device=DEVICE)\n"
        "        graph = torch.cuda.CUDAGraph()\n        return lambda: graph.replay()\n"
        "    return step\n",
        "def act(x):\n    return capture(F.gelu, graphed=x.is_cuda)\n",
    ),
    "method": (
        "class Fused:\n    def is_ready(self, x):\n        return x.is_cuda\n",
        "    def __call__(self, x):\n        import my_cuda_kernels\n"
        "        return my_cuda_kernels.gelu(x)\n"
        "def act(x):\n    for op in [Fused(), F.gelu]:\n        if op.is_ready(x):\n"
        "            return op(x)\n",
    ),
}


@pytest.mark.parametrize("name", list(FORMS))
def test_a_guard_in_another_function_stays_false_on_xla(name: str) -> None:
    guard, use = FORMS[name]
    source = _HEAD + _KERNEL + guard + use
    assert migrate(source.encode(), Options()).data.decode() == source
    if "def act(" in use:  # what calls the user of the guard does not change it
        source += "y = torch.ones(2)\nact(y).mean()\n"
        assert migrate(source.encode(), Options()).data.decode() == source


def test_a_guard_in_another_module_stays_false_on_xla() -> None:
    files = {
        "guards.py": b"import torch\ndef can_fuse(x):\n    return x.is_cuda\n"
        b"def on_device(x):\n    return x.is_cuda\n",
        "main.py": (
            _HEAD
            + "from guards import can_fuse, on_device\n"
            + _KERNEL
            + "def act(x):\n    if not on_device(x):\n        x = x.cuda()\n"
            + "    return fused(x) if can_fuse(x) else F.gelu(x)\n"
        ).encode(),
    }
    project = Project(Modules(files), "guards.py")
    after = migrate(files["guards.py"], Options(), "guards.py", project).data.decode()
    assert "def can_fuse(x):\n    return x.is_cuda" in after
    assert "def on_device(x):\n    return xla.is_accelerator(x)" in after


def test_a_function_with_other_uses_is_rewritten() -> None:
    source = (
        _HEAD + _KERNEL + "def on_gpu(x):\n    return x.is_cuda\n"
        "def act(x):\n    return fused(x) if on_gpu(x) else F.gelu(x)\n"
        "def move(x, y):\n    return y.cuda() if on_gpu(x) else y\n"
    )
    assert "return xla.is_accelerator(x)" in migrate(source.encode(), Options()).data.decode()


def test_a_wrapper_in_another_module_stays_false_on_xla() -> None:
    wrapper = (
        b"import torch\nimport torch.nn.functional as F\ndef on_cuda(fn):\n    def run(x):\n"
        b"        return fn(x) if x.is_cuda else F.gelu(x)\n    return run\n"
    )
    use = "from wrap import on_cuda\n@on_cuda\n" + _KERNEL
    project = Project(Modules({"wrap.py": wrapper, "main.py": use.encode()}), "wrap.py")
    assert migrate(wrapper, Options(), "wrap.py", project).data == wrapper


def test_a_wrapper_of_functions_that_run_everywhere_is_rewritten() -> None:
    source = (
        _HEAD + "def on_gpu(fn):\n    def run(x):\n        if x.is_cuda:\n"
        "            return fn(x)\n        return x\n    return run\n"
        "@on_gpu\ndef act(x):\n    from einops import rearrange\n    return rearrange(x, 'a b -> b a')\n"
    )
    assert "if xla.is_accelerator(x)" in migrate(source.encode(), Options()).data.decode()


STREAMS = """\
import torch

class Prefetcher:
    def __init__(self, loader, device):
        self.loader, self.device = loader, device
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def __iter__(self):
        if self.stream is None:
            yield from self.loader
            return
        for x in self.loader:
            with torch.cuda.stream(self.stream):
                x = x.to(self.device)
            yield x
"""


def test_a_stream_that_stays_is_not_made_on_xla() -> None:
    after = migrate(STREAMS.encode(), Options()).data.decode()
    assert 'torch.cuda.Stream(device) if device.type == "cuda" else None' in after


def test_a_second_run_leaves_the_guard_of_a_stream() -> None:
    once = migrate(STREAMS.encode(), Options()).data
    assert migrate(once, Options()).data == once


@pytest.mark.parametrize("found", ["fused_adam_cls", "self.FusedNorm", "triton_rope"])
def test_a_kernel_that_was_found_is_for_cuda_wherever_it_comes_from(found: str) -> None:
    source = (
        f"{_HEAD}from parts import make\n\ndef choose(self, cfg, fused_adam_cls, triton_rope):\n"
        f"    use_it = not cfg.old and {found} is not None and torch.cuda.is_available()\n"
        "    return make(use_it)\n"
    ).encode()
    assert migrate(source, Options()).data == source


@pytest.mark.parametrize(
    "guarded",
    [
        "if offloads and device.type != 'cuda':\n"
        "        raise RuntimeError('activation offloading needs CUDA')\n",
        "if device.type == 'cuda':\n        env = {'nsight': options}\n"
        "    else:\n        env = {}\n",
        "if device.type == 'cuda':\n        run(['nsys', 'profile'])\n",
    ],
)
def test_offloading_with_streams_and_nvidias_profilers_stay_cudas(guarded: str) -> None:
    source = f"{_HEAD}\ndef start(device, offloads, options, run):\n    {guarded}"
    assert migrate(source.encode(), Options()).data.decode() == source


@pytest.mark.parametrize(
    "flag",
    [
        "HAVE_TRITON",
        "HAS_FLASH_ATTN",
        "FLEX_ATTENTION_AVAILABLE",
        "HAS_MAMBA",
        "HAS_CUDA_EXT",
        "LIGER_AVAILABLE",
        "HAS_TE",
    ],
)
def test_a_flag_for_a_library_of_kernels_keeps_the_test_beside_it(flag: str) -> None:
    body = f"    use = {flag} and x.is_cuda\n    return fast(x) if use else F.gelu(x)\n"
    support = f"def supports():\n    return {flag} and torch.cuda.is_available()\n"
    source = f"{_HEAD}from lib import {flag}, fast\n\ndef act(x):\n{body}\n{support}"
    assert migrate(source.encode(), Options()).data.decode() == source


@pytest.mark.parametrize("result", [".to(x.dtype)", ".to(torch.float32)", ".to(dtype=x.dtype)"])
def test_a_conversion_among_kernels_moves_nothing(result: str) -> None:
    kernel = "import triton\n\n@triton.jit\ndef _kernel(x):\n    pass\n\n"
    guard = "    if not x.is_cuda:\n        return F.gelu(x)\n"
    source = f"{_HEAD}{kernel}def act(x):\n{guard}    return launch(x){result}\n"
    assert migrate(source.encode(), Options()).data.decode() == source
    found = [f for f in check(source.encode()) if f.code == "XLA107"]
    assert "unless the branch is for CUDA kernels only" in found[0].message


def test_a_guard_of_a_function_that_uses_another_package_for_something_else_is_opened() -> None:
    source = """
import torch

def load(path):
    import yaml
    return yaml.safe_load(path)

def train(options):
    import wandb
    wandb.init(config=options)
    model = torch.nn.Linear(4, 4).cuda()
    model(torch.ones(2, 4).cuda()).sum().backward()

if torch.cuda.is_available():
    train(load("x.yaml"))
"""
    assert b"\nif xla.is_available():" in migrate(source.encode()).data


_FUSED = "import torch\nimport triton\n\n@triton.jit\ndef _norm(x):\n    pass\n\ndef fused_norm(x):\n    _norm[(1,)](x)\n    return x\n"
_GUARDS = {
    "branch": "    if x.is_cuda:\n        return fused_norm(x)\n    return x / x.norm()\n",
    "early": "    if x.device.type != 'cuda':\n        return x / x.norm()\n    return fused_norm(x)\n",
    "choice": "    return fused_norm(x) if x.is_cuda else x / x.norm()\n",
    "refusal": "    if x.device.type not in ('cuda', 'xpu'):\n        raise ValueError(x)\n    return fused_norm(x)\n",
}


@pytest.mark.parametrize("guard", _GUARDS)
def test_a_guard_of_functions_that_another_module_defines_next_to_kernels_stays(guard: str) -> None:
    source = (
        f"import torch\nfrom ops import fused_norm\n\ndef forward(x):\n{_GUARDS[guard]}".encode()
    )
    files = {
        "model.py": source,
        "ops/__init__.py": b"from .norm import fused_norm\n",
        "ops/norm.py": _FUSED.encode(),
    }
    project = Project(Modules(files), "model.py")
    assert migrate(source, path="model.py", project=project).data == source


def test_a_guard_of_an_extension_that_a_helper_loads_stays() -> None:
    source = """import torch
from util import load_extension
ext = load_extension("embedding", ["embedding.cpp", "embedding.cu"])

class TransE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, entity):
        if entity.device.type == "cuda":
            forward = ext.transe_forward_cuda
        else:
            forward = ext.transe_forward_cpu
        return forward(entity)
"""
    assert migrate(source.encode()).data.decode() == source


_UNKNOWN_FACTS = """import torch

def describe(x, device):
    if {test}:
        facts = torch.cuda.get_device_properties(device)
        {moved}
        return sum(getattr(facts, name) for name in dir(facts))
    return 0
"""


def test_a_guard_of_code_that_fails_on_xla_without_a_fix_stays_and_says_why() -> None:
    for test in ("x.is_cuda", "device.type == 'cuda'", "torch.cuda.is_available() and x.ndim"):
        source = _UNKNOWN_FACTS.format(test=test, moved="del x")
        found = {f.code: f for f in check(source.encode()) if f.line == 4}
        (guard,) = found.values()
        assert not guard.edits
        assert "It is unchanged because XLA113 in its branch has no fix" in guard.message


def test_a_guard_of_code_that_moves_to_the_device_is_replaced_though_other_code_there_fails() -> (
    None
):
    source = _UNKNOWN_FACTS.format(test="torch.cuda.is_available()", moved="x = x.cuda()")
    assert "if xla.is_available():" in migrate(source.encode()).data.decode()


def test_a_test_for_cuda_and_for_its_settings_of_tf32_stays() -> None:
    source = """import torch

def check(device):
    if device.type == "cuda" and torch.backends.cudnn.allow_tf32:
        raise ValueError("disable TF32")
"""
    assert migrate(source.encode()).data.decode() == source


def test_a_guard_of_an_import_of_kernels_by_the_name_of_the_package_stays() -> None:
    source = """def align(p):
    if p.is_cuda:
        p = p.contiguous()
        from align_cuda_binding import align_cuda as run
    else:
        from align_cpu_binding import align_cpu as run
    return run(p)
"""
    assert migrate(f"import torch\n{source}".encode()).data.decode() == f"import torch\n{source}"


def test_a_guard_of_an_import_from_a_package_that_binds_kernels_stays() -> None:
    source = b"""import torch

def conv(x):
    if torch.cuda.is_available():
        try:
            from layers.fast import FastConv
            return FastConv(x)
        except ImportError:
            pass
    return x
"""
    files = {
        "model.py": source,
        "layers/__init__.py": b"",
        "layers/fast/__init__.py": b"from .fast import FastConv\n",
        "layers/fast/fast.py": b"import fast_cuda\nimport torch\n\nclass FastConv:\n    pass\n",
    }
    project = Project(Modules(files), "model.py")
    assert migrate(source, path="model.py", project=project).data == source


def test_a_test_for_cuda_that_moves_other_tensors_to_the_host_stays() -> None:
    source = """import torch

def solve(costs, pack):
    if not costs.is_cuda:
        costs = costs.cpu()
    return pack(costs)
"""
    assert migrate(source.encode()).data.decode() == source
