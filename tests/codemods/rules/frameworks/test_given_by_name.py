"""XLA812: what arrives by a variable, a field, an option or a dictionary is named where it is written."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ....each import each
from ...helpers import findings, migrated

ARGUMENTS = "from transformers import TrainingArguments\n"
LOADING = "from transformers import AutoModelForCausalLM\n"
TRAINER = "import lightning as L\nfrom xla_migrate import runtime as xla\nxla.patch_lightning()\n"


@pytest.mark.parametrize(
    "source",
    [
        "x = 'paged_adamw_32bit'\nTrainingArguments('o', optim=x)",
        "x = 'adamw_torch' if cpu else 'adamw_bnb_8bit'\nTrainingArguments('o', optim=x)",
        "p.add_argument('--optim', default='paged_adamw_8bit')\nTrainingArguments('o', optim=args.optim)",
        "p.add_argument('--opt-name', dest='o', default='adamw_apex_fused')\nTrainingArguments('o', optim=a.o)",
        "kw = {'optim': 'paged_adamw_32bit'}\nTrainingArguments('o', **kw)",
        "kw = dict(optim='paged_adamw_32bit')\nTrainingArguments('o', **kw)",
        "TrainingArguments('o', **{'optim': 'lion_8bit'})",
        "kw = {}; kw['optim'] = 'adamw_8bit'\nTrainingArguments('o', **kw)",
        "def f(optim='paged_lion_8bit'):\n    return TrainingArguments('o', optim=optim)",
        "class C:\n    optim: str = 'adamw_8bit'\nTrainingArguments('o', optim=C.optim)",
        "class C(TrainingArguments):\n    optim: str = 'adamw_8bit'",
        "kw = {'fsdp': 'hybrid_shard adamw_'} if args.big else {}\nTrainingArguments('o', optim='sgd', **kw)",
        "kw = dict(deepspeed='adamw_.json')\nTrainingArguments('o', optim='sgd', **kw)",
        "class C(TrainingArguments):\n    deepspeed: str = 'adamw_.json'\n    optim: str = 'sgd'",
        "class C(TrainingArguments):\n    optim: str = field(default='paged_adamw_32bit')",
        "class C(TrainingArguments):\n    optim = dataclasses.field(default='paged_adamw_32bit', metadata={})",
    ],
)
def test_optimizers(source: str) -> None:
    assert [code for _, code in findings(ARGUMENTS + source)] == ["XLA812"]
    assert "8bit" in migrated(ARGUMENTS + source) or "adamw_" in migrated(ARGUMENTS + source)


@pytest.mark.parametrize(
    "source",
    [
        "device_map = 'auto'\nAutoModelForCausalLM.from_pretrained('x', device_map=device_map)",
        "p.add_argument('--device_map', default='auto')\nAutoModelForCausalLM.from_pretrained('x', device_map=args.device_map)",
        "kw = dict(device_map='auto')\nAutoModelForCausalLM.from_pretrained('x', **kw)",
        "def f(places):\n    kw = {'device_map': places}\n    AutoModelForCausalLM.from_pretrained('x', **kw)\nf('auto')",
        "p.add_argument('--places', default='auto')\ndef f(m):\n    AutoModelForCausalLM.from_pretrained('x', device_map=m)\nf(args.places)",
        "p.add_argument('--load_in_4bit', action='store_true')\n"
        "AutoModelForCausalLM.from_pretrained('x', load_in_4bit=args.load_in_4bit)",
        "impl = 'flash_attention_2' if flash else 'sdpa'\n"
        "AutoModelForCausalLM.from_pretrained('x', attn_implementation=impl)",
        "class C:\n    load_in_8bit: bool = True\n"
        "AutoModelForCausalLM.from_pretrained('x', load_in_8bit=cfg.load_in_8bit)",
    ],
)
def test_loading(source: str) -> None:
    assert [code for _, code in findings(LOADING + source)] == ["XLA812"]


@pytest.mark.parametrize(
    "source",
    [
        "s = 'deepspeed_stage_3'\nL.Trainer(strategy=s)",
        "kw = {'accelerator': 'gpu'}\nL.Trainer(**kw)",
        "p.add_argument('--strategy', default='fsdp')\nL.Trainer(strategy=args.strategy)",
        "kinds = {'a': 'auto', 'b': 'fsdp'}\nL.Trainer(strategy=kinds[args.kind])",
        "L.Trainer(strategy={'a': 'auto', 'b': 'deepspeed'}[args.kind])",
        "L.Trainer(strategy=kinds.get(args.kind, 'fsdp'))",
        "def chosen(args):\n    if args.big:\n        return 'fsdp'\n    return 'auto'\nL.Trainer(strategy=chosen(args))",
        "from lightning.pytorch.plugins import MixedPrecision\np = [MixedPrecision('16-mixed', 'cuda')]\nL.Trainer(plugins=p)",
    ],
)
def test_lightning(source: str) -> None:
    assert [code for _, code in findings(TRAINER + source)] == ["XLA812"]


@pytest.mark.parametrize(
    "source",
    [
        "optim = 'adafactor'\nTrainingArguments('o', optim=optim)",
        "p.add_argument('--optim')\nTrainingArguments('o', optim=args.optim)",
        "def f(**kw):\n    return TrainingArguments('o', **kw)",
        "x = choose()\nTrainingArguments('o', optim=x)",
        "class C(TrainingArguments):\n    optim: str = 'adamw_torch'\n    bf16: bool = True",
        "class C(TrainingArguments):\n    optim: str = 'adamw_torch'\n    fsdp: str = ''",
        "kw = dict(deepspeed=None)\nTrainingArguments('o', optim='sgd', **kw)",
        "class C(Other):\n    optim: str = 'paged_adamw_32bit'",
        "from mylib import AutoModel\nm = 'auto'\nAutoModel.from_pretrained('x', device_map=m)",
    ],
)
def test_what_stays(source: str) -> None:
    assert findings(ARGUMENTS + source) == []


@pytest.mark.parametrize(
    "source",
    [
        "kinds = {'a': 'auto', 'b': 'xla_fsdp'}\nL.Trainer(strategy=kinds[args.kind])",
        "def chosen(args):\n    name = 'fsdp'\n    return 'auto'\nL.Trainer(strategy=chosen(args))",
        "def chosen(args):\n    def other():\n        return 'fsdp'\n    return 'auto'\nL.Trainer(strategy=chosen(args))",
        "from lightning.pytorch.plugins import MixedPrecision\nL.Trainer(plugins=[MixedPrecision('bf16-mixed', 'xla')])",
        "from lightning.pytorch.plugins.environments import SLURMEnvironment\nL.Trainer(plugins=[SLURMEnvironment()])",
        "from lightning.pytorch.strategies import SingleDeviceXLAStrategy\nL.Trainer(strategy=SingleDeviceXLAStrategy())",
        "from mylib import DDPStrategy\nL.Trainer(strategy=DDPStrategy())",
        "from mylib import make\nL.Trainer(strategy=make('fsdp'))",
    ],
)
def test_what_lightning_takes_on_xla_stays(source: str) -> None:
    assert findings(TRAINER + source) == []


@each(
    "source",
    [
        "from lightning.pytorch.strategies import DDPStrategy\ns = DDPStrategy()\nL.Trainer(strategy=s)",
        "L.Trainer(strategy={'a': 'ddp_spawn'}.get(args.kind, 'auto'))",
        "kw = {}; kw.update(accelerator='gpu')\nL.Trainer(**kw)",
        "kw = {}; kw.update({'strategy': 'ddp'})\nL.Trainer(**kw)",
        "s = 'ddp_find_unused_parameters_true'\nL.Trainer(strategy=s)",
        "from lightning.pytorch.accelerators import CUDAAccelerator\na = CUDAAccelerator()\nL.Trainer(accelerator=a)",
        "s = 'ddp'\nL.Trainer(strategy=s)",
        "s = 'ddp' if n > 1 else 'auto'\nL.Trainer(strategy=s)",
        "precision = '16-mixed'\nL.Trainer(precision=precision)",
        'kind = "cuda"\nL.Trainer(accelerator=kind)\nprint(kind)\n',
        'kind = "gpu"\nif y:\n    kind = "cpu"\nL.Trainer(accelerator=kind)\n',
        'kind = "gpu"\nL.Trainer(accelerator=kind)\nmine(accelerator=kind)\n',
        'o = {"accelerator": "gpu"}\nL.Trainer(**o)\nsave(o)\n',
        'a = "gpu"\no = {"accelerator": a}\nL.Trainer(**o)\nsave(**o)\n',
        'a = "gpu"\no = {"accelerator": a, "mine": a}\nL.Trainer(**o)\n',
        'o = {"accelerator": "gpu"}\no["devices"] = 1\nL.Trainer(**o)\n',
        'def f(kind="gpu"):\n    L.Trainer(accelerator=kind)\n',
        'class C:\n    accelerator = "gpu"\nL.Trainer(accelerator=C().accelerator)\n',
        "L.Trainer(strategy='ddp_find_unused_parameters_true')",
        "L.Trainer(strategy='ddp_notebook')",
        "from lightning.pytorch.strategies import DDPStrategy\nL.Trainer(strategy=DDPStrategy(static_graph=True))",
        "p.add_argument('--precision', default='16-mixed')\nL.Trainer(precision=args.precision)",
        "p.add_argument('--accelerator', default='gpu')\nL.Trainer(accelerator=args.accelerator)",
    ],
)
def test_what_the_patch_takes_for_the_same_on_xla(source: str) -> None:
    migrated_code = migrated(TRAINER + source)
    assert findings(migrated_code) == []
    assert migrated(migrated_code) == migrated_code


def test_a_tpu_that_is_asked_for_is_not_patched() -> None:
    source = "import lightning as L\ns = 'ddp_spawn'\nL.Trainer(accelerator='tpu', strategy=s)\n"
    assert [code for _, code in findings(source)] == ["XLA812"]


@pytest.mark.parametrize(
    "arguments",
    [
        "accelerator='tpu', strategy='ddp_notebook'",
        "strategy=ModelParallelStrategy()",
        "plugins=DDPPlugin(find_unused_parameters=False)",
        "plugins=[BitsandbytesPrecision('nf4')]",
        "accelerator=CUDAAccelerator()",
    ],
)
def test_what_lightning_is_given_in_the_call(arguments: str) -> None:
    imports = (
        "from lightning.pytorch.accelerators import CUDAAccelerator\n"
        "from lightning.pytorch.plugins import BitsandbytesPrecision, DDPPlugin\n"
        "from lightning.pytorch.strategies import ModelParallelStrategy\n"
    )
    found = [code for _, code in findings(f"{TRAINER}{imports}L.Trainer({arguments})")]
    assert found == ["XLA803"]


def test_checkpointing_that_the_command_line_switches_on_is_patched() -> None:
    source = (
        "from transformers import TrainingArguments\n"
        "p.add_argument('--gc', action='store_true')\n"
        "x = TrainingArguments('o', optim='sgd', gradient_checkpointing=args.gc)\n"
    )
    assert "modeling_utils.checkpoint = xla.checkpoint" in migrated(source)


def test_a_class_of_ones_own_that_names_no_optimizer_has_the_fused_default() -> None:
    source = """
        from transformers import HfArgumentParser, TrainingArguments

        class Mine(TrainingArguments):
            extra: int = 1

        parser = HfArgumentParser((Model, Mine))
        """
    assert 'parser.set_defaults(optim="adamw_torch")' in migrated(source)


@pytest.mark.parametrize(
    ("device_map", "times"),
    [
        ('{"": 0}', 1),
        ('{"": "cuda:0"}', 1),
        ('{"": "cpu"}', 0),
        ('{"": device}', 0),
        ("make_map()", 0),
        ("0", 1),
        ("False", 0),
    ],
)
def test_a_device_map_in_a_variable(device_map: str, times: int) -> None:
    source = f"from transformers import AutoModel\nplaces = {device_map}\nmodel = AutoModel.from_pretrained('x', device_map=places)\n"
    assert findings(source).count((2, "XLA812")) == times


@pytest.mark.parametrize(
    "call",
    [
        'lightning.Trainer(accelerator=settings["accelerator"])',
        'lightning.Trainer(precision=settings["trainer"]["precision"])',
        "lightning.Trainer(**settings)",
        "LightningCLI(Model)",
        'TrainingArguments("out", optim=settings["optim"])',
        "TrainingArguments(**settings)",
        'HfArgumentParser(TrainingArguments).parse_yaml_file("a.yaml")',
        'HfArgumentParser(TrainingArguments).parse_json_file("a.json")',
    ],
)
def test_what_a_settings_file_says_is_a_note(call: str) -> None:
    source = f"import lightning\nimport yaml\nfrom lightning.pytorch.cli import LightningCLI\nfrom transformers import HfArgumentParser, TrainingArguments\nsettings = yaml.safe_load(open('a.yaml'))\nx = {call}\n"
    assert [(f.line, f.severity) for f in check(source.encode()) if f.code == "XLA812"] == [
        (6, "info")
    ]


@pytest.mark.parametrize(
    "call",
    ['lightning.Trainer(max_epochs=settings["epochs"])', "lightning.Trainer()", "make(**settings)"],
)
def test_other_settings_are_nobody_s_business(call: str) -> None:
    source = (
        f"import lightning\nimport yaml\nsettings = yaml.safe_load(open('a.yaml'))\nx = {call}\n"
    )
    assert "XLA812" not in [code for _, code in findings(source)]


def test_the_defaults_of_lightning_s_command_line() -> None:
    source = 'from lightning.pytorch.cli import LightningCLI\ndefaults = {\n    "accelerator": "gpu",\n    "strategy": "ddp",\n    "precision": 32,\n}\nLightningCLI(Model, trainer_defaults=defaults)\n'
    assert [line for line, code in findings(source) if code == "XLA812"] == [7]


@pytest.mark.parametrize(
    "source",
    [
        'cpu = True\nx = TrainingArguments("o", optim="sgd", use_cpu=cpu)\n',
        'd = {"use_cpu": True, "optim": "sgd"}\nx = TrainingArguments("o", **d)\n',
        'p.add_argument("--no_cuda", action="store_true")\nx = TrainingArguments("o", optim="sgd", no_cuda=p.parse_args().no_cuda)\n',
        'class A(TrainingArguments):\n    optim: str = "sgd"\n    use_cpu: bool = True\n',
        'class A(TrainingArguments):\n    optim: str = "sgd"\n    no_cuda: bool = field(default=True)\n',
    ],
)
def test_the_host_that_is_asked_for_by_name(source: str) -> None:
    """The Trainer computes on XLA all the same."""
    found = check(f"from transformers import TrainingArguments\n{source}".encode())
    assert [(f.code, f.severity) for f in found] == [("XLA812", "warning")]
    assert "USE_TORCH_XLA=0" in found[0].message


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('kind = "cuda"\nL.Trainer(accelerator=kind)\n', 'kind = "auto"'),
        ('kind = "gpu" if x else "cpu"\nL.Trainer(accelerator=kind)\n', '"auto" if x else "cpu"'),
        (
            'kind = "gpu"\nL.Trainer(accelerator=kind)\nL.Fabric(accelerator=kind)\n',
            'kind = "auto"',
        ),
        ('o = {"accelerator": "gpu", "devices": 1}\nL.Trainer(**o)\n', '"accelerator": "auto"'),
        ('o = dict(accelerator="cuda", devices=1)\nL.Trainer(**o, max_epochs=1)\n', 'r="auto", d'),
        ('L.Trainer(**{"accelerator": "gpu"})\n', '{"accelerator": "auto"}'),
        ('a = "gpu"\nb = a\no = {"accelerator": b}\nL.Trainer(**o)\n', 'a = "auto"'),
        (
            'def f(x):\n    half = "16-mixed"\n    L.Trainer(accelerator="cpu", precision=half)\n',
            'half = "16-mixed" if xla.device_type() == "cuda" else "bf16-mixed"',
        ),
    ],
)
def test_what_goes_to_lightning_alone_is_rewritten(before: str, after: str) -> None:
    new = migrated(f"{TRAINER}{before}")
    assert after in new
    assert findings(new) == []


@pytest.mark.parametrize(
    "source",
    [
        'def f(x):\n    half = "16-true"\n    L.Trainer(precision=half)\n',
        'def f(x):\n    way = "deepspeed_stage_2"\n    L.Trainer(strategy=way)\n',
    ],
)
def test_what_others_read_too_is_named_and_stays(source: str) -> None:
    source = f"{TRAINER}{source}"
    assert {code for _, code in findings(source)} == {"XLA812"}
    assert migrated(source) == source


def test_a_dictionary_in_the_call_is_reported_once() -> None:
    source = "AutoModelForCausalLM.from_pretrained('x', device_map={'': 0})"
    assert [code for _, code in findings(LOADING + source)] == ["XLA807"]


def test_names_that_are_bound_in_a_cycle_are_kept() -> None:
    source = """
        import lightning as L

        def fit(model):
            for _ in range(3):
                a = b
                b = a
                b = "gpu"
            L.Trainer(accelerator=a).fit(model)
    """
    assert 'b = "gpu"' in migrated(source)


@pytest.mark.parametrize(
    "source",
    [
        "p.add_argument('--attn', default='flash_attention_2')\nconfig._attn_implementation = args.attn",
        "class C:\n    attn: str = field(default='flash_attention_2')\nconfig.attn_implementation = cfg.attn",
        "p.add_argument('--attn', default='flex_attention')\nconfig._attn_implementation = args.attn if big else 'sdpa'",
    ],
)
def test_an_attention_that_a_configuration_receives(source: str) -> None:
    assert [code for _, code in findings(LOADING + source)] == ["XLA812"]


@pytest.mark.parametrize(
    "source",
    [
        "p.add_argument('--attn', default='flash_attention_2')\n"
        "config._attn_implementation = args.attn if torch.cuda.is_available() else 'sdpa'",
        "p.add_argument('--attn', default='eager')\nconfig._attn_implementation = args.attn",
        "p.add_argument('--attn', default='flash_attention_2')\nconfig.attn = args.attn",
    ],
)
def test_an_attention_that_runs_on_xla(source: str) -> None:
    assert findings(f"import torch\n{LOADING}{source}") == []


def test_an_attention_is_reported_once() -> None:
    source = (
        "class C:\n    attn_implementation: str = field(default='flash_attention_2')\n"
        "AutoModelForCausalLM.from_pretrained('x', attn_implementation=c.attn_implementation)"
    )
    assert [code for _, code in findings(LOADING + source)] == ["XLA904"]


def test_float16_by_a_name_on_the_device() -> None:
    source = (
        "from xla_migrate import runtime as xla\np.add_argument('--dtype', default='float16')\n"
        "m = AutoModelForCausalLM.from_pretrained('x', dtype=args.dtype)"
    )
    moved = f"{LOADING}{source}.to(xla.xla_device())\n"
    assert findings(moved) == [(3, "XLA812")]
    assert findings(f"{LOADING}{source}\n".replace("from xla_migrate", "from mine")) == []


@pytest.mark.parametrize(
    ("source", "codes"),
    [
        ("o = dict(devices=2)\nL.Trainer(**o)", ["XLA812"]),
        ("o = dict(devices=2, accelerator='tpu')\nL.Trainer(**o)", []),
        ("L.Trainer(devices=2)", ["XLA803"]),
        ("L.Trainer(devices=8, accelerator='tpu')", []),
        ("L.Trainer(devices='auto')", []),
        ("L.Trainer(devices=-1)", []),
    ],
)
def test_a_number_of_devices_is_reported(source: str, codes: list[str]) -> None:
    new = migrated(TRAINER + source)
    assert [code for _, code in findings(new)] == codes


@pytest.mark.parametrize(
    ("devices", "after"),
    [
        ("devices=torch.cuda.device_count()", 'devices="auto"'),
        ("gpus=torch.cuda.device_count()", 'devices="auto"'),
        (
            "devices=torch.cuda.device_count() if torch.cuda.is_available() else 1",
            'devices="auto" if xla.is_available() else 1',
        ),
        ("devices=max(1, torch.cuda.device_count())", "devices=max(1, xla.device_count())"),
    ],
)
def test_the_count_of_devices_is_lightnings(devices: str, after: str) -> None:
    assert after in migrated(f"import torch\n{TRAINER}L.Trainer({devices})\n")
