"""YAML settings of accelerate, of transformers' trainers and of Lightning."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.frameworks.configurations import parsed

from .helpers import codes, rewritten, verdict

RECIPE = """\
# the model
model_name_or_path: gpt2
fp16: true   # half
optim: "adamw_torch_fused"
output_dir: data/sft
"""
CONFIG = """\
compute_environment: LOCAL_MACHINE
distributed_type: MULTI_GPU
mixed_precision: 'fp16'
num_processes: 8
"""
LIGHTNING = """\
seed_everything: 1
trainer: {accelerator: gpu, strategy: ddp, precision: "16-mixed", max_epochs: 3}
model:
  precision: 16
"""


def test_arguments_of_a_trainer() -> None:
    new = rewritten(RECIPE, "recipe.yaml")
    assert new == RECIPE.replace("fp16:", "bf16:").replace('"adamw_torch_fused"', "adamw_torch")


@pytest.mark.parametrize(
    ("other", "after"),
    [("bf16: false", "fp16: false\nbf16: true"), ("bf16: true", "fp16: false\nbf16: true")],
)
def test_one_of_two_halves_is_on(other: str, after: str) -> None:
    rest = "\noutput_dir: x\nsave_steps: 3\n"
    assert rewritten(f"fp16: true\n{other}{rest}", "a.yml") == after + rest


@pytest.mark.parametrize(
    "line",
    [
        "optim: paged_adamw_8bit",  # the states of what takes its place are larger
        "optim: galore_adamw",
        "tf32: true",
        "torch_compile: true",
        "gradient_checkpointing: true",
        "deepspeed: ds.json",
        "fsdp: full_shard offload",
        "fsdp_config: {min_num_params: 0, cpu_offload: true}",
        "ddp_backend: nccl",
        "load_in_4bit: true",
        "attn_implementation: flash_attention_2",
        "device_map: auto",
        "device_map: {'': 0}",
    ],
)
def test_what_a_person_decides(line: str) -> None:
    text = f"{line}\noutput_dir: x\nlearning_rate: 1e-4\n"
    assert codes(text, "a.yaml") == ["XLA959"]
    assert rewritten(text, "a.yaml") == text


def test_config_of_accelerate() -> None:
    assert codes(CONFIG, "default_config.yaml") == ["XLA959", "XLA959"]
    assert rewritten(CONFIG, "default_config.yaml") == CONFIG.replace("'fp16'", "bf16")


def test_config_of_accelerate_without_a_precision() -> None:
    text = CONFIG.replace("mixed_precision: 'fp16'", "machine_rank: 0")
    assert codes(text, "a.yaml") == ["XLA959"]


def test_a_precision_in_the_settings_of_a_program_is_a_note() -> None:
    text = "data: x\ntrain:\n  mixed_precision: fp16\n  lr: 0.1\n"
    (found,) = verdict(text, "config.yaml").left
    assert (found.code, found.severity, found.line) == ("XLA959", "info", 3)
    assert codes(text.replace("fp16", "bf16"), "config.yaml") == []


def test_trainer_of_lightning() -> None:
    new = rewritten(LIGHTNING, "config.yaml")
    assert "{accelerator: auto, strategy: ddp, precision: bf16-mixed, max_epochs: 3}" in new
    assert "model:\n  precision: 16\n" in new  # is the script's own


@pytest.mark.parametrize(
    "text",
    [
        "accelerator: gpu\ndevices: 1\n",
        "_target_: lightning.pytorch.Trainer\naccelerator: cuda\n",
        "class_path: pytorch_lightning.Trainer\naccelerator: gpu\n",
        "a:\n- b:\n    accelerator: gpu\n    max_steps: 3\n",
        "max_epochs: 3\nstrategy:\n  _target_: lightning.pytorch.strategies.FSDPStrategy\n",
        "max_epochs: 3\nstrategy: deepspeed_stage_2\n",
        "max_epochs: 3\nprecision: 16-true\n",
    ],
)
def test_forms_of_trainers(text: str) -> None:
    assert codes(text, "a.yaml") == ["XLA959"]


def test_a_number_of_devices_is_a_note() -> None:
    assert codes("max_epochs: 3\ndevices: 2\n", "a.yaml") == ["xla959"]


@pytest.mark.parametrize(
    "text",
    [
        "accelerator: auto\ndevices: 1\nstrategy: auto\nmax_epochs: 3\nprecision: bf16-mixed\n",
        "max_epochs: 3\nstrategy:\n  _target_: lightning.pytorch.strategies.XLAStrategy\n",
        "output_dir: x\nsave_steps: 3\nfp16: false\noptim: adamw_torch\ntf32: null\nfsdp: full_shard\n",
        "distributed_type: XLA\nmixed_precision: bf16\nnum_processes: 2\nnum_machines: 1\n",
        "strategy: ddp\nprecision: 16\n",  # of whom?
        "accelerator: tpu\ndevices: 8\n",
        "max_epochs: 3\nstrategy: ddp_find_unused_parameters_true\n",
        "max_epochs: 3\nstrategy:\n  _target_: lightning.pytorch.strategies.DDPStrategy\n",
        "device: cuda\nfp16: true\n",  # the script's own, which is rewritten where it reads them
        "accelerator: gpu\n",
        "strategy: {matrix: {gpu: [a]}}\nprecision: 16\n",
        "accelerator: {{ gpu }}\nmax_epochs: {% x %}\n",  # a template
        "accelerator: [gpu\nmax_epochs: 1\n",
        "- 3\n- fp16: true\n",
    ],
)
def test_left_alone(text: str) -> None:
    assert codes(text, "a.yaml") == []


def test_an_alias_is_told_of_once() -> None:
    text = "a: &a\n  accelerator: gpu\n  max_epochs: 3\nb: *a\nc:\n  <<: *a\n"
    assert codes(text, "a.yaml") == ["XLA959"]


def test_places_and_suppressions() -> None:
    text = "# ä\r\nmax_epochs: 3\r\naccelerator: gpu  # xla-migrate: ignore[XLA959]\r\nprecision: 16\r\n"
    (row,) = verdict(text, "a.yaml", rewriting=False).left
    assert (row.line, row.column, row.end_column) == (4, 12, 14)
    assert rewritten(text, "a.yaml") == text.replace("precision: 16", "precision: bf16-mixed")


@pytest.mark.parametrize(
    "text",
    [
        "optimizer: {name: AdamW, lr: 1e-3, fused: true}\n",
        "optimizer:\n  _target_: torch.optim.AdamW\n  lr: 0.1\n  fused: true  # fast\n",
        "model:\n  attention: {fused: true}\nlr: 0.1\n",
    ],
)
def test_what_is_fused_stays_for_cuda(text: str) -> None:
    """On XLA the runtime's patch ignores it (`patches.fused_optimizers`)."""
    assert codes(text, "train.yaml") == []


ACCELERATE = """\
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
deepspeed_config:
  gradient_accumulation_steps: 4
  gradient_clipping: 1.0
  zero_stage: 2
num_processes: 8
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "",
            "",
            "use Accelerator(gradient_accumulation_steps=4), accelerator.clip_grad_norm_(",
        ),
        ("zero_stage: 2", "zero_stage: 3", "; shard in your own training loop"),
        (
            "zero_stage: 2",
            "deepspeed_config_file: conf/ds.json",
            "its configuration is `conf/ds.json`",
        ),
        ("deepspeed_config:", "fsdp_config:", "set precision, accumulation and clipping"),
    ],
)
def test_accelerate_without_deepspeed(old: str, new: str, said: str) -> None:
    (row,) = verdict(ACCELERATE.replace(old, new, 1), "a.yaml", rewriting=False).left
    assert (row.code, row.line) == ("XLA959", 2)
    assert row.message.startswith("DeepSpeed does not run on XLA: remove it")
    assert said in row.message


DEEPSPEED = """\
{
\t"train_batch_size": 8, // of all
\t"optimizer": {"type": "OneBitAdam", "params": {"lr": 1e-3}},
\t"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
\t"wandb": {"enabled": true},
}
"""


def test_a_configuration_of_deepspeeds() -> None:
    rows = verdict(DEEPSPEED, "ds_config.json", rewriting=False).left
    assert [(r.code, r.line, r.severity) for r in rows] == [
        ("XLA959", 3, "error"),
        ("XLA959", 4, "info"),
        ("XLA959", 5, "error"),
    ]
    assert (rows[0].column, rows[0].end_column) == (16, 36)
    assert rewritten(DEEPSPEED, "ds_config.json") == DEEPSPEED


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ('{"output_dir": "a", "learning_rate": 1e-3, "fp16": true}', '"fp16": true'),
        ('{"accelerator": "gpu", "max_epochs": 3}', '"accelerator": "gpu"'),
        ('{"output_dir": "a", "save_steps": 3, "optim": "paged_adamw_8bit"}', "paged_adamw_8bit"),
    ],
)
def test_settings_in_json(text: str, after: str) -> None:
    assert codes(text, "train_config.json") == ["XLA959"]
    new = rewritten(text, "train_config.json")
    assert after in new
    assert parsed(new) is not None


@pytest.mark.parametrize(
    "text",
    [
        '{"fused": true, "layers": 3}',  # of whom?
        '{"model_type": "gpt2", "torch_dtype": "float16", "use_cache": true}',
        '{"train_batch_size": 8, "fp16": {"enabled": true}, "zero_optimization": {"stage": 3}}',
        '{"train_batch_size": "auto", "wandb": {"enabled": true}}',  # which a trainer fills in: told where it is named
        '{"wandb": {"enabled": true}, "amp": {"enabled": true}}',  # of whom?
        '{"train_batch_size": 8, "wandb": ',
        "[1, 2]",
    ],
)
def test_json_that_is_left_alone(text: str) -> None:
    assert codes(text, "config.json") == []
