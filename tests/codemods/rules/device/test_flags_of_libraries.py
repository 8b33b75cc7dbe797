"""A test for CUDA that a foreign library receives must not become true on XLA."""

from __future__ import annotations

import textwrap

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check, migrate

from ...helpers import migrated

HEAD = "import torch\nfrom torch import nn\nimport easyocr, faiss, gymnasium, simlib, xgboost\n"
TAIL = "\nnet = nn.Linear(4, 1).cuda()\n"
ASKED = "torch.cuda.is_available()"


@pytest.mark.parametrize(
    "line",
    [
        f'env = simlib.Env(sim_device="cuda:0" if {ASKED} else "cpu")',
        f'sim_device = "cuda:0" if {ASKED} else "cpu"\nenv = simlib.Env(sim_device=sim_device)',
        f'env = gymnasium.make("Ant", device="cuda" if {ASKED} else "cpu")',
        f"if {ASKED}:\n    index = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, index)",
        f'params = {{"device": "cuda" if {ASKED} else "cpu"}}\nmodel = xgboost.train(params, data)',
        f'model = xgboost.XGBClassifier(tree_method="gpu_hist" if {ASKED} else "hist")',
        'clusters = faiss.Kmeans(8, 4, gpu=device.type == "cuda")',
        "def fit(x):\n    return faiss.Kmeans(8, 4, gpu=x.is_cuda)",
        f'method = "gpu_hist" if {ASKED} else "hist"',
        f'device = "cuda" if {ASKED} else "cpu"\nmodel = xgboost.XGBClassifier(device=device)',
        f'model = xgboost.XGBClassifier(device="cuda" if wanted and {ASKED} else "cpu")',
        f'params = {{"device": "cpu" if not {ASKED} else "cuda"}}\nmodel = xgboost.train(params, data)',
        'params = {}\nparams["device"] = "cuda"\nmodel = xgboost.train(params, data)',
        'params = dict(device="cuda", depth=3)\nprint(params)\nmodel = xgboost.train(params, data)',
        'params = {}\nparams.update(device="cuda:0")\nmodel = xgboost.XGBClassifier(**params)',
        'params = {}\nparams.update({"device": "cuda"})\nmodel = xgboost.train(params=params, dtrain=data)',
        'model = xgboost.XGBClassifier()\nmodel.set_params(device="cuda")',
        "class K:\n    def __init__(self, **kwargs):\n        self.kwargs = kwargs\n    def fit(self):\n"
        f"        faiss.Kmeans(8, 4, **self.kwargs)\nk = K(niter=2, gpu={ASKED})",
        "class K:\n    def __init__(self, gpu):\n        self.gpu = gpu\n    def fit(self):\n"
        "        faiss.Kmeans(8, 4, gpu=self.gpu)\nk = K(device.type == 'cuda')",
        "def fit(gpu):\n    return faiss.Kmeans(8, 4, gpu=gpu)\nis_cuda = x.is_cuda\nfit(is_cuda)",
        f'options = {{"gpu": {ASKED}}}\nfaiss.Kmeans(8, 4, **options)',
        "def near(index):\n    return faiss.index_cpu_to_all_gpus(index)\nif x.is_cuda:\n    index = near(index)",
        'def fit(device="cuda"):\n    return xgboost.train({"device": device}, data)\nfit("cuda:1")',
        "def on_gpu(x):\n    return x.is_cuda\nclusters = faiss.Kmeans(8, 4, gpu=on_gpu(x))",
        'params = dict(dict(device="cuda"))\nmodel = xgboost.train(params, data)',
        f"class K:\n    def __init__(self):\n        self.gpu = {ASKED}\n"
        "    def fit(self):\n        options = dict(gpu=self.gpu)\n        faiss.Kmeans(8, 4, **options)",
    ],
)
def test_a_choice_for_a_library_without_torch_stays(line: str) -> None:
    assert line in migrated(HEAD + line + TAIL)


@pytest.mark.parametrize(
    ("function", "call"),
    [
        (
            """
            class Clusters:
                def __init__(self, **kwargs):
                    self.kwargs = kwargs
                def __call__(self, n):
                    return faiss.Kmeans(n, 2, **self.kwargs)
            """,
            "lib.Clusters(niter=2, gpu=device.type == 'cuda')",
        ),
        ("def fit(n, gpu):\n    return faiss.Kmeans(n, 2, gpu=gpu)", f"lib.fit(4, {ASKED})"),
    ],
)
def test_a_test_that_another_module_passes_to_a_library_stays(function: str, call: str) -> None:
    lib = "import faiss\n" + textwrap.dedent(function)
    main = f"import lib\n{HEAD}made = {call}{TAIL}"
    files = {"lib.py": lib.encode(), "main.py": main.encode()}
    done = migrate(files["main.py"], Options(), "main.py", Project(Modules(files), "main.py"))
    assert call in done.data.decode()


@pytest.mark.parametrize(
    "line",
    [
        f'reader = easyocr.Reader(["en"], gpu={ASKED})',
        f"env = simlib.Env(headless=True, use_gpu_pipeline=not debug and {ASKED})",
        f"use_gpu = {ASKED}\nenv = simlib.Env(use_gpu=use_gpu)",
        f"agent = simlib.Agent(torch.nn.Linear(2, 2), config={{'use_cuda': {ASKED}}})",
        f"cfg = {{'general': {{'use_gpu': {ASKED}}}}}\nagent = simlib.Agent(torch.nn.Linear(2, 2), cfg)",
    ],
)
def test_a_flag_of_an_unknown_library_stays_and_is_reported(line: str) -> None:
    source = HEAD + line + TAIL
    assert line in migrated(source)
    assert any("may support only CUDA" in f.message for f in check(source.encode()))


@pytest.mark.parametrize(
    ("line", "after"),
    [
        (f"parser.add_argument('--gpu', default={ASKED})", "default=xla.is_available()"),
        (f"use_gpu = {ASKED}\nsimlib.f(gpu=use_gpu)\nif use_gpu:\n    x = x.cuda()", "use_gpu = xla.is_"),
        (f"options = {{'gpu': {ASKED}}}\nfaiss.Kmeans(8, 4, **options)\nif options['gpu']:\n    x = x.cuda()", "'gpu': xla.is_"),
        (f"wandb.init(config={{'use_cuda': {ASKED}}})", "'use_cuda': xla.is_"),
        (f"config = omegaconf.OmegaConf.create({{'use_cuda': {ASKED}}})", "'use_cuda': xla.is_"),
        (f"def f(**kwargs):\n    g(**kwargs)\nf(gpu={ASKED})", "f(gpu=xla.is_available())"),
        (f"def f(gpu=None): ...\nf(gpu={ASKED})", "f(gpu=xla.is_available())"),
        ('options = {}\noptions["device"] = "cuda"\nsimlib.f(**options)', "= xla.device_type()"),
        (f'device = "cuda" if {ASKED} else "cpu"\nxgboost.XGBClassifier(device=device)\nx.to(device)', "device = xla.device_type()"),
        (f'batch = simlib.batch(device="cuda" if {ASKED} else "cpu")', "device=xla.device_type()"),
    ],
)  # fmt: skip
def test_flags_of_the_program_follow_the_accelerator(line: str, after: str) -> None:
    assert after in migrated(HEAD + line + TAIL)


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("faiss.Kmeans(8, 4, gpu=flag)", "gpu=flag and torch.cuda.is_available())"),
        ("faiss.Kmeans(8, 4, gpu=not flag)", "gpu=not (flag and torch.cuda.is_available()))"),
        ('xgboost.X(tree_method="gpu_hist" if flag else "hist")', 'gpu_hist" if flag and torch.cuda.is_available() else'),
        ("xgboost.X(device=name)", 'device=name if torch.cuda.is_available() else "cpu")'),
        ("xgboost.X(device=device.type)", 'device=device.type if torch.cuda.is_available() else "cpu")'),
        ('params = {"device": name}\nxgboost.train(params, data)', 'name if torch.cuda.is_available() else "cpu"}'),
        ('params = {}\nparams["device"] = name\nxgboost.train(params, data)', '= name if torch.cuda.is_available() else "cpu"'),
        ("class A:\n    def f(self):\n        self.flag = torch.cuda.is_available()\n        faiss.Kmeans(8, 4, gpu=self.flag)\n        if self.flag:\n            return net.cuda()", "gpu=self.flag and torch.cuda.is_available())"),
    ],
)  # fmt: skip
def test_a_variable_that_torch_shares_with_a_library_is_for_cuda_there(
    line: str, after: str
) -> None:
    head = (
        f'{HEAD}flag = {ASKED}\nname = "cuda" if flag else "cpu"\ndevice = torch.device(name)\n'
        "net = nn.Linear(4, 1).to(device)\nif flag:\n    net = net.to(name)\n"
    )
    result = migrated(head + line + TAIL)
    assert after in result
    assert migrated(result) == result


def test_an_object_that_may_be_a_model_moves_to_the_device() -> None:
    source = f"""
    import torch
    from onnxruntime import InferenceSession
    from transformers import AutoModel

    class Classifier:
        def __init__(self, path, onnx):
            self.device = "cuda" if {ASKED} else "cpu"
            if onnx:
                self.model = InferenceSession(path)
            else:
                self.model = AutoModel.from_pretrained(path)

        def train(self):
            self.model.to(self.device)
            self.model.to(device="cuda")
    """
    result = migrated(source)
    assert "self.model.to(self.device)" in result
    assert "self.device = xla.device_type()" in result
    assert "self.model.to(device=xla.xla_device())" in result


def test_a_table_holds_the_device_of_torch() -> None:
    source = (
        f'import pandas as pd\n{HEAD}name = "cuda" if {ASKED} else "cpu"\nx = x.to(name)\n'
        'pd.DataFrame({"device": name, "fast": name == "cuda"}, index=[0])\n'
    )
    assert '{"device": name,' in migrated(source)


def test_a_variable_that_torch_shares_with_an_unknown_library_is_reported() -> None:
    source = (
        f"{HEAD}flag = {ASKED}\nenv = simlib.Env(use_gpu=flag)\nif flag:\n    x = x.cuda()\n{TAIL}"
    )
    assert "use_gpu=flag)" in migrated(source)
    (found,) = [f for f in check(source.encode()) if f.code == "XLA134"]
    assert "`simlib` may support only CUDA" in found.message


@pytest.mark.parametrize(
    "use",
    [
        f'options = {{"use_gpu": {ASKED}}}\nenv = simlib.Env(**options)\n',
        f"options = dict(n=2, use_gpu={ASKED})\nenv = simlib.Env(**options)\n",
        f'env = simlib.Env(**{{"use_gpu": {ASKED}}})\n',
        f"def build(**kw):\n    return simlib.Env(**kw)\nenv = build(use_gpu={ASKED})\n",
    ],
)
def test_a_flag_among_the_options_of_an_unknown_library_stays(use: str) -> None:
    source = f"import simlib\n{HEAD}{use}{TAIL}"
    assert ASKED in migrated(source)
    (found,) = [f for f in check(source.encode()) if f.code == "XLA102"]
    assert "`simlib` may support only CUDA" in found.message


def test_a_flag_among_options_that_code_reads_too_is_rewritten() -> None:
    source = f'import simlib\n{HEAD}o = {{"use_gpu": {ASKED}}}\nenv = simlib.Env(**o)\n'
    source += 'if o["use_gpu"]:\n    x = x.cuda()\n'
    assert ASKED not in migrated(source)


def test_on_gpu_of_lightning_is_reported() -> None:
    source = """
    import torch
    import pytorch_lightning as pl

    class Net(pl.LightningModule):
        def training_step(self, batch, index):
            if self.on_gpu:
                batch = batch.cuda()
            return self.trainer.on_gpu

    class Own:
        on_gpu = True

        def f(self):
            return self.on_gpu
    """
    found = [f.message for f in check(migrated(source).encode()) if "on_gpu" in f.message]
    assert found == [
        "Lightning's `on_gpu` is False on XLA: use `xla.is_accelerator(self.device)`",
        "Lightning's `on_gpu` is False on XLA: use `xla.is_accelerator(self.device)`",
    ]


def test_a_flag_for_both_leaves_the_library_with_cuda_after_all_rewrites() -> None:
    source = f'{HEAD}GPU = {ASKED}\nparams = {{"device": "cuda" if GPU else "cpu"}}\n'
    source += "model = xgboost.train(params, data)\nif GPU:\n    net = nn.Linear(4, 1).cuda()\n"
    once = migrated(source)
    assert f'"cuda" if GPU and {ASKED} else "cpu"' in once
    assert migrated(once) == once


def test_modules_whose_functions_call_each_other_end_the_search() -> None:
    files = {
        "a.py": b"import torch, faiss, b\ndef f(gpu):\n    b.g(gpu)\nb.g(torch.cuda.is_available())\n",
        "b.py": b"import faiss, a\ndef g(gpu):\n    a.f(gpu)\n",
    }
    check(files["a.py"], Options(), "a.py", Project(Modules(files), "a.py"))


def test_a_setting_for_the_device_of_a_simulator_is_not_converted() -> None:
    source = """import torch
from hydra import compose

def make(tasks, model):
    cfg = compose(config_name="config")
    sim_device = cfg.sim_device
    model.to(torch.device("cuda"))
    return tasks["ant"](sim_device=sim_device)
"""
    assert "sim_device = cfg.sim_device" in migrate(source.encode()).data.decode()


def test_a_flag_for_a_search_on_all_gpus_stays() -> None:
    source = """import torch

class Index:
    def __init__(self, options):
        import faiss
        self.faiss = faiss
        self.use_gpu = options["gpu"] and torch.cuda.is_available()

    def train(self, x):
        if self.use_gpu:
            self.index = self.faiss.index_cpu_to_all_gpus(self.index)
        self.index.train(x)
"""
    assert migrate(source.encode()).data.decode() == source
