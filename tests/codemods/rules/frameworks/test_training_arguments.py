"""XLA801: which arguments of transformers' Trainer change, and which stay."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ...helpers import findings, migrated

HEAD = "from transformers import TrainingArguments\n"
RUNTIME = HEAD + "from xla_migrate import runtime as xla\n"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", 'optim="adamw_torch"'),
        ('"out"', '"out", optim="adamw_torch"'),
        ('"out", optim="sgd", ddp_backend="nccl"', '"out", optim="sgd"'),
    ],
)
def test_arguments(given: str, expected: str) -> None:
    unsafe = "8bit" in given
    assert (
        migrated(f"{HEAD}x = TrainingArguments({given})\n", unsafe=unsafe)
        == f"{HEAD}x = TrainingArguments({expected})\n"
    )


CUDA = 'xla.device_type() == "cuda"'
OTHERS = 'xla.device_type() != "cuda"'


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("fp16=True", f"fp16={CUDA}, bf16={OTHERS}"),
        ("fp16=True, bf16=False", f"fp16={CUDA}, bf16={OTHERS}"),
        ("fp16_full_eval=True", f"fp16_full_eval={CUDA}, bf16_full_eval={OTHERS}"),
        ("fp16=args.half", f"fp16=args.half and {CUDA}, bf16=args.half and {OTHERS}"),
        (
            "fp16=a.fp16, bf16=a.bf16",
            f"fp16=a.fp16 and {CUDA}, bf16=a.bf16 or (a.fp16 and {OTHERS})",
        ),
        (
            "fp16=xla.is_available()",
            f'fp16={CUDA}, bf16=xla.device_type() not in ("cpu", "cuda")',
        ),
        ("fp16=a or b", f"fp16=(a or b) and {CUDA}, bf16=(a or b) and {OTHERS}"),
        (
            'fp16={"x": True}["x"], bf16=b',
            f'fp16={{"x": True}}["x"] and {CUDA}, bf16=b or ({{"x": True}}["x"] and {OTHERS})',
        ),
        (
            'fp16=True, half_precision_backend="apex"',
            f'fp16={CUDA}, half_precision_backend="apex", bf16={OTHERS}',
        ),
    ],
)
def test_float16_stays_on_cuda(given: str, expected: str) -> None:
    after = migrated(f'{RUNTIME}x = TrainingArguments("out", optim="sgd", {given})\n')
    assert after == f'{RUNTIME}x = TrainingArguments("out", optim="sgd", {expected})\n'
    assert migrated(after) == after


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("adamw_torch_fused", "adamw_torch"),
        ("adamw_apex_fused", "adamw_torch"),
        ("adamw_bnb_8bit", "adamw_torch"),
        ("rmsprop_bnb_32bit", "rmsprop"),
    ],
)
def test_optimizers_stay_on_cuda(name: str, other: str) -> None:
    source = f'{HEAD}x = TrainingArguments("out", optim="{name}")\n'
    after = migrated(source, unsafe="8bit" in name)
    chosen = f'"{name}" if {CUDA} else "{other}"'
    assert after == f'{RUNTIME}x = TrainingArguments("out", optim={chosen})\n'
    assert migrated(after) == after


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("tf32=True", 'tf32=xla.device_type() == "cuda"'),
        ("tf32=args.tf32", 'tf32=args.tf32 and xla.device_type() == "cuda"'),
        ("torch_compile=True", 'torch_compile=xla.device_type() != "xla"'),
        ("use_liger_kernel=True", 'use_liger_kernel=xla.device_type() == "cuda"'),
    ],
)
def test_what_stays_on_where_there_is_cuda(given: str, expected: str) -> None:
    source = f'{HEAD}x = TrainingArguments("out", optim="sgd", {given})\n'
    assert migrated(source) == f'{RUNTIME}x = TrainingArguments("out", optim="sgd", {expected})\n'


@pytest.mark.parametrize(
    "given",
    [
        'optim="adamw_torch"',
        'optim="adafactor"',
        "optim=args.optim",
        'optim="sgd", bf16=True',
        'optim="sgd", fp16=False',
        'optim="sgd", tf32=False',
        'optim="sgd", tf32=None',
        'optim="sgd", torch_compile=False',
        'optim="sgd", use_cpu=False',
        'optim="sgd", deepspeed=None',
        'optim="sgd", fsdp=""',
        'optim="sgd", fp16=not has_bf16(), bf16=has_bf16()',
        'optim="sgd", dataloader_pin_memory=True, ddp_find_unused_parameters=False',
        "**options",
    ],
)
def test_what_xla_runs_as_it_is(given: str) -> None:
    assert findings(f"{HEAD}x = TrainingArguments({given})\n") == []


@pytest.mark.parametrize(
    "given",
    [
        'optim="lion_8bit"',
        'optim="galore_adamw_8bit"',
        'optim="sgd", deepspeed="zero2.json"',
        'optim="sgd", fsdp="full_shard offload"',
        'optim="sgd", fsdp=["hybrid_shard", "auto_wrap"]',
        'optim="sgd", fsdp=[FSDPOption.OFFLOAD]',
        'optim="sgd", fsdp_config={"cpu_offload": True}',
        'optim="sgd", fsdp_config={"fsdp_offload_params": "true"}',
        'optim="sgd", fsdp_config={"reshard_after_forward": "HYBRID_SHARD_ZERO2"}',
        'optim="sgd", use_cpu=True',
        'optim="sgd", no_cuda=True',
        'optim="sgd", group_by_length=True',
    ],
)
def test_what_is_left_to_a_person(given: str) -> None:
    source = f"{HEAD}x = TrainingArguments({given})\n"
    assert findings(source) == [(2, "XLA801")]
    assert migrated(source, unsafe=True) == source


@pytest.mark.parametrize(
    "given",
    [
        'fsdp="full_shard auto_wrap"',
        'fsdp=["full_shard"]',
        'fsdp=True, fsdp_config={"cpu_offload": False, "xla": True, "xla_fsdp_v2": True}',
        "fsdp=fsdp",
        "**options",
    ],
)
@pytest.mark.parametrize("trainer", ["Trainer", "trl.SFTTrainer", "Mine", "Other"])
def test_fsdp_shards_over_all_devices_of_one_process(given: str, trainer: str) -> None:
    """Where the file makes the Trainer it is patched there, else before its arguments."""
    imports = (
        "import trl\nfrom other import Other\nfrom transformers import Trainer, TrainingArguments\n"
    )
    own = "class Mine(Trainer):\n    pass\n" if trainer == "Mine" else ""
    values = 'fsdp = "shard_grad_op"\noptions = {"fsdp": "full_shard"}\n'
    made = f'args = TrainingArguments("out", optim="sgd", {given})\n'
    trained = f"trainer = {trainer}(model, args)\ntrainer.train()\n"
    patch = "xla.patch_accelerate()\n"
    first = f"xla.use_spmd(batch_per_device=True)\n{values}"
    end = f"{patch}{made}{trained}" if trainer == "Other" else f"{made}{patch}{trained}"
    after = migrated(imports + own + values + made + trained)
    assert after == f"{imports}from xla_migrate import runtime as xla\n{own}{first}{end}"
    assert [code for _, code in findings(after) if code != "XLA503"] == []


def test_fsdp_that_may_be_asked_for() -> None:
    """Whoever asks for it not has several processes of one device each."""
    source = f"""{HEAD}from transformers import Trainer
args = TrainingArguments("out", optim="sgd", fsdp="full_shard" if big else "")
Trainer(model, args).train()
"""
    after = migrated(source)
    assert "use_spmd" not in after
    assert "patch_accelerate()\nargs" in after


@pytest.mark.parametrize(
    "name",
    [
        "transformers.Seq2SeqTrainingArguments",
        "transformers.training_args.TrainingArguments",
        "trl.SFTConfig",
        "trl.DPOConfig",
        "sentence_transformers.SentenceTransformerTrainingArguments",
    ],
)
def test_other_classes_of_arguments(name: str) -> None:
    home, _, last = name.rpartition(".")
    source = f'from {home} import {last}\nx = {last}("out")\n'
    assert f'{last}("out", optim="adamw_torch")' in migrated(source)


def test_a_class_that_derives_from_them() -> None:
    after = migrated("""
        from transformers import TrainingArguments
        class Mine(TrainingArguments):
            extra: int = 1
        x = Mine("out", optim="sgd", fp16=True)
        """)
    assert f'Mine("out", optim="sgd", fp16={CUDA}, bf16={OTHERS})' in after


@pytest.mark.parametrize(
    "source",
    [
        "from mylib import TrainingArguments\nx = TrainingArguments(fp16=True)\n",
        "class TrainingArguments:\n    pass\nx = TrainingArguments(fp16=True)\n",
        "x = dict(fp16=True, optim='adamw_torch_fused')\n",
        "from transformers import PretrainedConfig\nx = PretrainedConfig(fp16=True)\n",
    ],
)
def test_what_is_called_the_same(source: str) -> None:
    assert findings(source) == []


def test_parser_of_arguments() -> None:
    source = """
        from transformers import HfArgumentParser, TrainingArguments

        def main():
            parser = HfArgumentParser((ModelArguments, TrainingArguments))
            model_args, args = parser.parse_args_into_dataclasses()
        """
    lines = migrated(source).splitlines()
    at = lines.index("    parser = HfArgumentParser((ModelArguments, TrainingArguments))")
    assert lines[at + 1] == '    parser.set_defaults(optim="adamw_torch")'


@pytest.mark.parametrize(
    "source",
    [
        "from transformers import HfArgumentParser\nparser = HfArgumentParser((ModelArguments,))\n",
        "from mylib import HfArgumentParser\nfrom transformers import TrainingArguments\n"
        "parser = HfArgumentParser((TrainingArguments,))\n",
    ],
)
def test_parsers_of_other_things(source: str) -> None:
    assert findings(source) == []


def test_checkpointing_is_patched_once() -> None:
    source = """
        from transformers import TrainingArguments
        def arguments():
            return TrainingArguments("out", optim="sgd", gradient_checkpointing=True)
        """
    after = migrated(source)
    assert after.count("modeling_utils.checkpoint = xla.checkpoint") == 1
    assert findings(after) == []


@pytest.mark.parametrize(
    ("name", "safety"),
    [
        ("adamw_bnb_8bit", "unsafe"),
        ("paged_adamw_8bit", "unsafe"),
        ("adamw_torch_4bit", "unsafe"),
        ("rmsprop_bnb_8bit", "unsafe"),
        ("paged_adamw_32bit", "safe"),
        ("adamw_torch_fused", "safe"),
    ],
)
def test_states_of_few_bits_are_given_up_when_that_is_asked_for(name: str, safety: str) -> None:
    (found,) = check(f"{HEAD}x = TrainingArguments('out', optim='{name}')\n".encode())
    assert found.safety == safety


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("a, b = HfArgumentParser((A, TrainingArguments)).parse_args_into_dataclasses()", True),
        ("b = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()[0]", True),
        ("(b,) = HfArgumentParser(TrainingArguments).parse_json_file(path)", True),
        ("print(HfArgumentParser(TrainingArguments).parse_args_into_dataclasses())", False),
        ("parser = b = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()", False),
    ],
)
def test_a_parser_without_a_name_gets_one(statement: str, named: bool) -> None:
    text = f"from transformers import HfArgumentParser, TrainingArguments\n\n{statement}\n"
    new = migrated(text)
    if not named:
        assert new == text
        return
    lines = new.splitlines()
    assert lines[-2] == 'parser.set_defaults(optim="adamw_torch")'
    assert lines[-3].startswith("parser = HfArgumentParser(")
    assert "= parser.parse" in lines[-1]
    assert [code for _, code in findings(new) if code == "XLA801"] == []
