"""Options of transformers' trainers in shell commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_migrate.target.launch_files.judge import judge

from .helpers import codes, rewritten

LAUNCH = """\
torchrun --nproc_per_node=4 sft.py \\
    --model_name_or_path gpt2 \\
    --eval_strategy "no" \\
    --tf32 True \\
    --fp16 --optim "adamw_torch_fused" \\
    --output_dir out
"""


def test_options_of_a_trainer_are_rewritten() -> None:
    expected = LAUNCH.replace(" \\\n    --tf32 True", "").replace("--fp16", "--bf16")
    assert rewritten(LAUNCH, "run.sh") == expected.replace('"adamw_torch_fused"', "adamw_torch")


@pytest.mark.parametrize("bf16", ["--bf16 False", "--bf16='no'", "--bf16", "--bf16 True"])
def test_one_of_two_halves_is_on(bf16: str) -> None:
    text = f"python a.py --save_strategy=no --fp16 True {bf16}\n"
    on = {"--bf16 False": "--bf16 True", "--bf16='no'": "--bf16=True"}.get(bf16, bf16)
    assert rewritten(text, "run.sh") == f"python a.py --save_strategy=no {on}\n"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--per_device_train_batch_size 4 --logging_steps 5 --tf32=true", 1),
        ("--per-device-train-batch-size 4 --do-train --deepspeed ds.json", 1),
        ("--eval_strategy no --gradient_checkpointing --torch_compile True", 2),
        ("--output_dir out --optim paged_adamw_8bit", 1),
        ("--eval_strategy no --load_in_4bit --device_map auto", 2),
        ("--eval_strategy no --attn_implementation sdpa --load_in_8bit False", 0),
        ("--eval_strategy no --fp16 False --tf32 $TF32", 0),
        ("--output_dir out --learning_rate 1e-4 --fp16 --tf32", 0),  # a parser of its own
        ("--per_device_train_batch_size 4 --fp16", 0),
        ("--optim adamw", 0),
        ("--ddp_backend nccl --fp16 --torch_compile", 3),
        ("--ddp-backend no_c10d --fp16", 0),  # of fairseq
        ("--optim adamw_torch --fp16 --load_in_4bit", 2),
        ("--per_device_train_batch_size 4 --max_steps 3 --fp16 --tf32 True --ddp_backend nccl", 3),
        ("--fp16_full_eval --attn_implementation flash_attention_2", 2),
    ],
)
def test_options_are_reported_if_transformers_reads_them(options: str, expected: int) -> None:
    assert codes(f"python train.py {options}\n", "run.sh") == ["XLA959"] * expected


def test_options_for_cuda_alone_go() -> None:
    text = (
        "python a.py --save_strategy no --torch_compile --use_liger_kernel True --attn_implementation"
        " flash_attention_2 --lr 1\n"
    )
    after = "python a.py --save_strategy no --attn_implementation sdpa --lr 1\n"
    assert rewritten(text, "run.sh") == after


def test_options_of_a_launcher_are_not_the_scripts() -> None:
    assert codes("wrapper --fp16 --eval_strategy no train.py --lr 1\n", "run.sh") == []


def _of_script(folder: Path, script: str) -> list[str]:
    (folder / "train.py").write_text(script)
    command = b"torchrun --nproc_per_node 8 train.py --output_dir out --fp16 --tf32\n"
    done = judge(command, str(folder / "run.sh"), {}, lambda code: True, False, False)
    return [row.code for row in done.left if row.code == "XLA959"]


def test_the_script_may_have_transformers_parser(tmp_path: Path) -> None:
    script = "from transformers import HfArgumentParser, TrainingArguments\n"
    assert _of_script(tmp_path, script) == ["XLA959", "XLA959"]
    own = "import argparse\nfrom transformers import TrainingArguments\n"
    assert _of_script(tmp_path, own) == []


_ARRAY = """\
ARGS=(
  --eval_strategy no
  --tf32 True  # of NVIDIA
  --fp16
)
OPTS="--ddp_backend nccl --output_dir out"
ARGS+=(--ddp_backend nccl --do_train)
"""


def test_options_in_arrays_and_variables_are_rewritten() -> None:
    text = f'{_ARRAY}torchrun train.py "${{ARGS[@]}}" --torch_compile ${{OPTS}} --seed 1\n'
    assert (
        rewritten(text, "run.sh")
        == """\
ARGS=(
  --eval_strategy no  # of NVIDIA
  --bf16
)
OPTS="--output_dir out"
ARGS+=(--do_train)
torchrun train.py "${ARGS[@]}" ${OPTS} --seed 1
"""
    )


def test_an_array_of_several_commands_is_rewritten_if_all_need_it() -> None:
    text = "A=(--fp16 --tf32 True)\npython a.py --eval_strategy no ${A[@]}\n"
    assert "A=(--bf16)" in rewritten(f"{text}python b.py --save_strategy no ${{A[@]}}\n", "run.sh")
    both = f"{text}python b.py ${{A[@]}}\n"  # with a parser of its own
    assert rewritten(both, "run.sh") == both
    assert codes(both, "run.sh") == ["XLA959"] * 2


def test_a_backend_is_removed_if_other_options_are_of_transformers() -> None:
    text = "python a.py --ddp_backend nccl --seed 1\n"
    assert rewritten(text, "run.sh") == text
    assert codes(text, "run.sh") == ["XLA959"]
    known = text.replace("--seed 1", "--ddp_backend=nccl --eval_strategy no")
    assert rewritten(known, "run.sh") == "python a.py --eval_strategy no\n"


def test_a_backend_of_the_scripts_own_parser_is_not_reported(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('parser.add_argument("--ddp_backend", default="nccl")\n')
    text = b"python a.py --ddp_backend nccl\n"
    assert not judge(text, str(tmp_path / "run.sh"), {}, lambda code: True, False, False).left
