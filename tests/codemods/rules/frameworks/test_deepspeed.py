"""XLA804: DeepSpeed's engine, which the runtime has, and what it has not."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check, migrate
from xla_codemods.finding import Finding

from ...helpers import findings, migrated

BUILD = "engine, *_ = deepspeed.initialize(model=model, config=config)\n"
HOME = "xla_migrate.runtime.compat"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import deepspeed", f"from {HOME} import deepspeed"),
        ("import deepspeed as ds", f"from {HOME} import deepspeed as ds"),
        ("import os, deepspeed", f"import os\nfrom {HOME} import deepspeed"),
        ("from deepspeed import initialize", f"from {HOME}.deepspeed import initialize"),
        (
            "from deepspeed import DeepSpeedEngine as E, zero",
            f"from {HOME}.deepspeed import DeepSpeedEngine as E, zero",
        ),
        (
            "from deepspeed.accelerator import get_accelerator",
            f"from {HOME}.deepspeed import get_accelerator",
        ),
        (
            "from deepspeed.checkpointing import checkpoint",
            f"from {HOME}.deepspeed.checkpointing import checkpoint",
        ),
        (
            "from deepspeed import checkpointing",
            f"from {HOME}.deepspeed import checkpointing",
        ),
        ("from deepspeed.zero import Init", f"from {HOME}.deepspeed.zero import Init"),
        (
            "try:\n    import deepspeed\nexcept ImportError:\n    deepspeed = None",
            f"try:\n    from {HOME} import deepspeed\nexcept ImportError:\n    deepspeed = None",
        ),
    ],
)
def test_the_runtimes_is_imported(before: str, after: str) -> None:
    uses = {
        "deepspeed": "deepspeed.initialize(model=1)",
        "ds": "ds.initialize(model=1)",
        "initialize": "initialize(model=1)",
        "zero": "isinstance(1, E)\nwith zero.Init():\n    pass",
        "get_accelerator": "get_accelerator().device_name()",
        "Init": "with Init():\n    pass",
        "checkpoint": "checkpoint(print, 1)",
        "checkpointing": "checkpointing.configure(None)\ncheckpointing.checkpoint(print, 1)",
    }
    name = before.replace("\nexcept ImportError:\n    deepspeed = None", "").split()[-1]
    rest = f"import initialize as start\n\n{uses[name]}\nstart(model=2)\n"
    new = migrated(f"{before}\nfrom deepspeed {rest}")
    assert new == f"{after}\nfrom {HOME}.deepspeed {rest}"
    assert [code for _, code in findings(new)] == []


def test_the_engine_of_a_library_is_left() -> None:
    text = "import deepspeed\n\n\ndef f(m):\n    return isinstance(m, deepspeed.DeepSpeedEngine)\n"
    assert migrated(text) == text


@pytest.mark.parametrize(
    "line",
    [
        "deepspeed.comm.barrier()",
        "from deepspeed.pipe import PipelineModule\nPipelineModule(layers=[])",
        "deepspeed.initialize(model=1, config=2, mpu=3)",
        'deepspeed.initialize(model=1, config={"train_batch_size": 1, "sparse_attention": {"a": 1}})',
        'c = {"train_batch_size": 1, "optimizer": {"type": "OneBitAdam"}}',
        'c = {"zero_optimization": {"stage": 1}, "scheduler": {"type": "MyCycle"}}',
        'c = {"train_batch_size": 1, "optimizer": {"type": "Adam", "params": {"bias_correction": False}}}',
        'c = {"train_batch_size": 1, "tensor_parallel": {"autotp_size": 2}}',
        'c = {"train_batch_size": 1, "gradient_allreduce_op": "sum"}',
        'c = {"train_batch_size": 1, "managed_gradient_accumulation": False}',
        'c = {"train_batch_size": 1, "torch_autocast": {"enabled": True, "dtype": "bfloat16"}}',
        'c = {"train_batch_size": 1, "compile": {"deepcompile": True}}',
    ],
)
def test_more_than_the_runtime_has_is_left(line: str) -> None:
    text = f"import deepspeed\n\n{line}\n{BUILD}"
    assert migrated(text) == text
    assert {code for _, code in findings(text)} == {"XLA804"}


@pytest.mark.parametrize(
    "entry",
    [
        '"sparse_attention": None',
        '"flops_profiler": {"enabled": False}',
        '"fp16": {"enabled": True, "loss_scale": 0}',
        '"scheduler": {"type": "WarmupLR", "params": {}}',
        '"optimizer": {"type": name}',
        '"optimizer": {"type": "Lion", "params": {"lr": 1e-4}}',
        '"scheduler": {"type": "OneCycle", "params": {}}',
        '"scheduler": {"type": "StepLR", "params": {"step_size": 3}}',
        '"gradient_allreduce_op": "mean", "managed_gradient_accumulation": True',
        '"torch_autocast": {"enabled": False}, "compile": {"deepcompile": False}',
        '"seq_parallel_comm_data_type": "fp32", "zero_optimization": True',
    ],
)
def test_configurations_that_are_taken(entry: str) -> None:
    text = f'import deepspeed\n\nconfig = {{"train_batch_size": 1, {entry}}}\n{BUILD}'
    assert migrated(text) == text.replace("import deepspeed", f"from {HOME} import deepspeed")


def test_a_copy_of_the_runtime_has_no_engine() -> None:
    text = f"import deepspeed\n\n{BUILD}"
    assert migrate(text.encode(), Options(style="native")).data == text.encode()
    assert [f.code for f in check(text.encode(), Options(style="native"))] == ["XLA804"]


def test_with_spmd_batches_are_of_all_devices() -> None:
    text = f"import deepspeed\n\nmodel, config = make()\n{BUILD}for x in loader:\n    engine.backward(engine(x))\n    engine.step()\n"
    new = migrate(text.encode(), Options(parallel="spmd")).data.decode()
    assert "xla.use_spmd(batch_per_device=True)\nmodel, config" in new


def test_the_steps_around_it_are_cut_and_read_late() -> None:
    text = f"""import deepspeed
import torch
from torch.utils.data import DataLoader

def train(model, data, config):
    {BUILD}    total = 0.0
    for x, y in DataLoader(data, batch_size=4):
        x, y = x.to(engine.local_rank), y.to(engine.device)
        loss = torch.nn.functional.cross_entropy(engine(x), y)
        engine.backward(loss)
        engine.step()
        total += loss.item()
    print(total)
"""
    new = migrated(text)
    assert "in xla.MpDeviceLoader(DataLoader(data, batch_size=4)):" in new
    assert "x.to(xla.xla_device(engine.local_rank)), y.to(engine.device)" in new
    assert "total += xla.item(loss)" in new
    assert "engine.step()\n" in new
    assert findings(new) == []


# Configurations in files.

TAKEN = '{"train_batch_size": 8, "zero_optimization": {"stage": 2}}'
REFUSED = '{\n  "train_batch_size": 8, // all\n  "sparse_attention": {"mode": "fixed"},\n}'
OF_ARGS = """import argparse
import deepspeed
parser = deepspeed.add_config_arguments(argparse.ArgumentParser())
args = parser.parse_args()
engine, *_ = deepspeed.initialize(args=args, model=model)
"""


def _with_files(
    text: str, files: dict[str, str], path: str = "run/train.py"
) -> tuple[str, list[Finding]]:
    python = {path: text, **{k: v for k, v in files.items() if k.endswith(".py")}}
    beside = {k: v.encode() for k, v in files.items() if k.endswith(".json")}
    modules = Modules({k: v.encode() for k, v in python.items()}, beside)
    done = migrate(text.encode(), path=path, project=Project(modules, path))
    return done.data.decode(), done.left


@pytest.mark.parametrize(
    "made",
    [
        'deepspeed.initialize(model=model, config="ds.json")',
        'deepspeed.initialize(model=model, config_params="./ds.json")',
        'deepspeed.initialize(model=model, config=os.path.join(here, "ds.json"))',
        'deepspeed.initialize(model=model, config=Path("run") / "ds.json")',
        "deepspeed.initialize(model=model, args=args)",
        "deepspeed.initialize(args, model)",
    ],
)
def test_the_file_of_a_configuration_is_read(made: str) -> None:
    text = f"import deepspeed\n\nengine, *_ = {made}\n"
    new, left = _with_files(text, {"run/ds.json": TAKEN})
    assert new == text.replace("import deepspeed", f"from {HOME} import deepspeed")
    assert left == []
    same, left = _with_files(text, {"run/ds.json": REFUSED})
    assert same == text
    (told,) = (f for f in left if "`run/ds.json`" in f.message)
    assert told.severity == "error"
    assert told.message.startswith("DeepSpeed's sparse attention needs CUDA kernels: remove")
    assert told.message.endswith("(`sparse_attention` of `run/ds.json`)")


def test_one_of_several_files_may_be_taken() -> None:
    new, left = _with_files(OF_ARGS, {"run/a.json": REFUSED, "run/b.json": TAKEN})
    assert f"from {HOME} import deepspeed" in new
    assert [(f.code, f.severity, f.line) for f in left] == [("XLA804", "warning", 5)]
    assert "`run/a.json`" in left[0].message


@pytest.mark.parametrize(
    "files",
    [
        {"run/ds.json": TAKEN, "other/ds.json": REFUSED, "ds.json": REFUSED},
        {"ds.json": TAKEN, "other/z.json": '{"sparse_attention": {}}'},
        {"run/conf/ds.json": TAKEN, "conf/ds.json": REFUSED},
        {"run/broken.json": "{", "run/list.json": "[1]", "run/model.json": '{"amp": 1}'},
        {},
    ],
)
def test_the_nearest_file_counts(files: dict[str, str]) -> None:
    new, left = _with_files(OF_ARGS, files)
    assert f"from {HOME} import deepspeed" in new
    assert left == []


def test_a_dictionary_of_another_module_counts() -> None:
    text = f"import deepspeed\nfrom settings import config\n\n{BUILD}"
    settings = 'config = {"train_batch_size": 8, "amp": {"enabled": True}}\n'
    same, left = _with_files(text, {"run/settings.py": settings})
    assert same == text
    assert any("(`amp` of `run/settings.py`)" in f.message for f in left)


@pytest.mark.parametrize(
    "offload",
    [
        '"offload_optimizer": {"device": "cpu"}',
        '"cpu_offload": True',
        '"offload_param": {"device": "nvme"}',
    ],
)
def test_what_is_offloaded_is_noted(offload: str) -> None:
    config = f'{{"train_batch_size": 8, "zero_optimization": {{"stage": 3, {offload}}}}}'
    text = f"import deepspeed\n\nconfig = {config}\n{BUILD}"
    new = migrate(text.encode())
    assert f"from {HOME} import deepspeed" in new.data.decode()
    assert [(f.severity, f.line) for f in new.left] == [("info", 3)]
    assert [f.message for f in check(new.data)] == [f.message for f in new.left]


def test_the_reason_stands_at_the_setting() -> None:
    text = f"""import deepspeed

config = {{
    "train_batch_size": 8,
    "optimizer": {{
        "type": "OneBitAdam",
        "params": {{"lr": 1e-3}},
    }},
    "curriculum_learning": {{"enabled": True}},
    "wandb": {{"enabled": False}},
}}
{BUILD}"""
    found = {f.line: f.message for f in check(text.encode()) if f.line in range(4, 12)}
    assert found.keys() == {6, 9}
    assert "use `Adam`" in found[6]
    assert "each length of sequence" in found[9]


ZERO = (
    '{"bf16": {"enabled": true}, "gradient_accumulation_steps": 4, "gradient_clipping": 0.5, "train_batch_size": "auto", '
    '"optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95], "eps": "auto"}}, '
    '"scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 10}}, "zero_optimization": {"stage": STAGE}}'
)
CARRIED = (
    "bf16=True, gradient_accumulation_steps=4, max_grad_norm=0.5, learning_rate=0.0001, adam_beta1=0.9, "
    'adam_beta2=0.95, lr_scheduler_type="linear", warmup_steps=10'
)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("XLA801", 'a = TrainingArguments("o", optim="adamw_torch", deepspeed="ds.json")\n'),
        (
            "XLA801",
            'DS = "ds.json"\na = TrainingArguments("o", optim="adamw_torch", deepspeed=DS)\n',
        ),
        (
            "XLA801",
            'o = {"deepspeed": "./ds.json"}\na = TrainingArguments("o", optim="adamw_torch", **o)\n',
        ),
        (
            "XLA812",
            'class A(TrainingArguments):\n    deepspeed: str = "ds.json"\n    optim: str = "adamw_torch"\n',
        ),
    ],
)
@pytest.mark.parametrize("stage", [2, 3])
def test_what_a_trainer_is_to_be_told_without_deepspeed(code: str, text: str, stage: int) -> None:
    text = f"from transformers import TrainingArguments\n{text}"
    same, left = _with_files(text, {"run/ds.json": ZERO.replace("STAGE", str(stage))})
    assert same == text
    told = {f.message for f in left if "DeepSpeed" in f.message}
    shards = (
        "; shard in your own training loop with `xla.FullyShardedDataParallel`"
        if stage == 3
        else ""
    )
    assert told == {
        f"DeepSpeed does not run on XLA: remove it, and use {CARRIED} (from `run/ds.json`){shards}"
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            "gradient_accumulation_steps=2, gradient_clipping=1.0, zero_stage=2",
            "and use Accelerator(gradient_accumulation_steps=2), "
            "accelerator.clip_grad_norm_(model.parameters(), 1.0)",
        ),
        ("zero_stage=3", "; shard in your own training loop with `xla.FullyShardedDataParallel`"),
        (
            'hf_ds_config="ds.json"',
            'and use Accelerator(mixed_precision="bf16"), Accelerator(gradient_accumulation_steps=4), '
            "accelerator.clip_grad_norm_(model.parameters(), 0.5), AdamW in place of DummyOptim, "
            "WarmupDecayLR in place of DummyScheduler",
        ),
        ("hf_ds_config=path", "and set precision, accumulation and clipping"),
    ],
)
def test_what_accelerate_is_to_be_told_without_deepspeed(given: str, said: str) -> None:
    text = f"from accelerate import Accelerator\nfrom accelerate.utils import DeepSpeedPlugin\n\nplugin = DeepSpeedPlugin({given})\n"
    _, left = _with_files(text, {"run/ds.json": ZERO.replace("STAGE", "2")})
    (told,) = (f.message for f in left if "DeepSpeed does" in f.message)
    assert said in told


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ('"zenflow": {"topk_ratio": 0.05}', "ZenFlow delays updates"),
        ('"zeropp_loco_param": {"err_beta": 0.8}', "the setting has no effect"),
    ],
)
def test_what_zero_does_otherwise_is_a_note(option: str, message: str) -> None:
    text = (
        f'import deepspeed\n\nconfig = {{"zero_optimization": {{"stage": 2, {option}}}}}\n{BUILD}'
    )
    notes = [f for f in check(text.encode()) if f.message.startswith(message)]
    assert [str(f.severity) for f in notes] == ["info"]


MOE = "deepspeed.moe.layer.MoE(8, model)"
SPLIT = (
    "from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer as split"
)


@pytest.mark.parametrize(
    "part",
    [
        f"if config:\n    model = {MOE}\n",
        f"model = {MOE} if config else model\n",
        f"if config:\n    {SPLIT}\n    split(model)\n",
        f"def groups():\n    {SPLIT}\n    return split(model)\n",
    ],
)
def test_branches_without_a_counterpart_make_the_fix_unsafe(part: str) -> None:
    source = f"import deepspeed\n\nmodel, config = object(), {{}}\n{part}{BUILD}"
    found = check(source.encode(), Options())
    assert {(f.line, f.safety) for f in found if f.safety} == {(1, "unsafe")}
    assert [f.outlasts for f in found if not f.safety] == [True] * (len(found) - 1)
    assert len(found) > 1
    assert migrated(source) == source
    result = migrate(source.encode(), Options(unsafe=True))
    after = result.data.decode()
    assert len(result.left) == len({(f.line, f.column) for f in result.left}) >= 1
    assert after == source.replace("import deepspeed\n", f"from {HOME} import deepspeed\n", 1)


@pytest.mark.parametrize(
    "part",
    [
        f"model = {MOE}\n",
        f"{SPLIT}\nsplit(model)\n",
        "if deepspeed.moe.utils.is_moe_param(model):\n    print(model)\n",
        f'if __name__ == "__main__":\n    model = {MOE}\n',
    ],
)
def test_parts_without_a_counterpart_that_always_run_prevent_the_fix(part: str) -> None:
    source = f"import deepspeed\n\nmodel, config = object(), {{}}\n{part}{BUILD}"
    assert all(f.safety is None for f in check(source.encode(), Options()))
    assert migrated(source, unsafe=True) == source


def test_an_import_in_a_function_is_replaced() -> None:
    source = f"def main(model, config):\n    import deepspeed\n    {BUILD}    return engine\n"
    after = source.replace("import deepspeed", f"from {HOME} import deepspeed")
    assert migrated(source) == after
