"""Shell scripts and Dockerfiles."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from xla_codemods.analysis.commands.launchers import commands

from .helpers import NEURON, codes, rewritten, verdict

SCRIPT = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gres=gpu:4
set -e
export CUDA_VISIBLE_DEVICES=0,1,2,3 NCCL_DEBUG=INFO
nvidia-smi
if [ -z "$X" ]; then CUDA_VISIBLE_DEVICES=2 python train.py --gpus 4; fi
pip install flash-attn --no-build-isolation
pip install flash-attn && pip install wandb  # both
pip install 'torch==2.9.0+cu128' flash-attn tqdm \\
    --index-url https://wheels.example/whl/cu128
pip install -r requirements.txt flash-attn
srun torchrun --nproc_per_node=gpu --nnodes 2 train.py --lr 0.1 \\
   --name "a b"
docker run --rm --gpus all -v $PWD:/w nvidia/cuda:12.4.1-base-ubuntu22.04 python t.py
accelerate launch --mixed_precision fp16 train.py
export ACCELERATE_MIXED_PRECISION="fp16"
cat <<EOF > job
nvidia-smi
pip install flash-attn
EOF
"""


def test_on_neuron() -> None:
    assert (
        rewritten(SCRIPT, "run.sh", NEURON)
        == """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gres=gpu:4
set -e
export NEURON_RT_VISIBLE_CORES=0,1,2,3 NCCL_DEBUG=INFO
neuron-ls
if [ -z "$X" ]; then NEURON_RT_VISIBLE_CORES=2 python train.py --gpus 4; fi
true && pip install wandb  # both
pip install 'torch==2.9.0' tqdm \\
    --index-url https://wheels.example/whl/cpu
pip install -r requirements.txt
srun torchrun --nproc_per_node=32 --nnodes 2 train.py --lr 0.1 \\
   --name "a b"
docker run --rm $(printf -- '--device=%s ' /dev/neuron[0-9]*) -v $PWD:/w ubuntu:22.04 python t.py
accelerate launch --mixed_precision bf16 train.py
export ACCELERATE_MIXED_PRECISION="bf16"
cat <<EOF > job
nvidia-smi
pip install flash-attn
EOF
"""
    )


@pytest.mark.parametrize("target", [{}, NEURON])
def test_bash_takes_the_result(target: dict[str, object], tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(rewritten(SCRIPT, "run.sh", target))
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_without_a_machine_what_depends_on_it_stays() -> None:
    new = rewritten(SCRIPT, "run.sh")
    for text in ("CUDA_VISIBLE_DEVICES=0,1,2,3", "\nnvidia-smi\nif", "=gpu", "--gpus all"):
        assert text in new


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("python train.py --gpus 4 --device cuda", []),
        ("echo 'use nvidia-smi and flash-attn'", []),
        ("# nvidia-smi", []),
        ('echo "# not a comment"; nvidia-smi', ["XLA957"]),
        ("N=$(nvidia-smi -L | wc -l)", ["XLA957"]),
        ("N=`nvidia-smi -L | wc -l`", ["XLA957"]),
        ("export CUDA_VISIBLE_DEVICES=", ["xla954"]),
        ("CUDA_VISIBLE_DEVICES=$GPU python x.py", ["xla954"]),
        ("MY_CUDA_VAR=1 python x.py", []),
        ("export XLA_USE_BF16=1", ["XLA954"]),
        ("XLA_DOWNCAST_BF16=1 python train.py", ["XLA954"]),
        ("XLA_USE_BF16=0 python train.py", []),
        ("export XRT_TPU_CONFIG='localservice;0;localhost:51011'", ["XLA954"]),
        ("CUDA_FLAG='--cuda'", []),  # a script's own, seen in public ones
        ("CUDA_LAUNCH_BLOCKING=1 python x.py", ["xla954"]),
        ("module load gcc cuda/12.1", ["XLA957"]),
        ("deepspeed --num_gpus 4 train.py", ["XLA956"]),
        ("accelerate launch --multi_gpu train.py", ["XLA956"]),
        ("accelerate launch --use_fsdp --fsdp_sharding_strategy 1 train.py", ["XLA956"]),
        ("accelerate launch --use-deepspeed train.py", ["XLA956"]),
        ("accelerate config", []),
        ("accelerate launch --num_processes 8 train.py", ["XLA956"]),
        ("accelerate launch --num_processes=8 --tpu train.py", ["XLA956"]),
        ("accelerate launch --num-processes 1 train.py", []),
        ("accelerate launch --num_processes $N train.py", []),
        ("export ACCELERATE_MIXED_PRECISION=bf16", []),
        ("ACCELERATE_USE_FSDP=true accelerate launch train.py", ["XLA956"]),
        ("ACCELERATE_USE_FSDP=false python train.py", []),
        ("export ACCELERATE_USE_DEEPSPEED='true'", ["XLA956"]),
        ("ACCELERATE_DYNAMO_BACKEND=INDUCTOR python train.py", ["XLA956"]),
        ("torchrun --nproc-per-node gpu t.py", ["XLA956"]),
        ("python -m torch.distributed.run --nproc_per_node=auto t.py", ["XLA956"]),
        ("torchrun --nproc_per_node=$N t.py", []),
        ("srun torchrun --nproc_per_node=$SLURM_GPUS_ON_NODE t.py", ["XLA956"]),
        ("torchrun --nproc-per-node ${SLURM_GPUS_PER_NODE:-4} t.py", ["XLA956"]),
        ("python3 -m pip install apex", ["XLA953"]),
        ("uv pip install cupy-cuda12x", ["XLA953"]),
        ("conda install pytorch-cuda=12.4 -c pytorch", ["XLA952"]),
        ("srun --gpus=4 python t.py --gres=gpu", ["XLA955"]),
        ("docker run ubuntu:22.04 nvidia-smi", []),
        ("docker run --runtime=nvidia x", ["XLA955"]),
        ("docker build -t pytorch/pytorch:2.4-cuda12 .", []),
        ("nvidia-smi # xla-migrate: ignore", []),
        (
            "aws sagemaker create-training-job --resource-config InstanceType=ml.p4d.24xlarge",
            ["XLA955"],
        ),
        ("aws sagemaker create-training-job --resource-config InstanceType=ml.m5.xlarge", []),
        ("cat <<-'E'\n\tnvidia-smi\n\tE\nnvcc x.cu", ["XLA957"]),
        ("case $a in x) nvidia-smi ;; esac", ["XLA957"]),
        ("echo a\\\n nvidia-smi", []),
    ],
)
def test_one_command(line: str, found: list[str]) -> None:
    assert codes(line + "\n", "run.sh") == found


def test_what_devices_says_wins_over_a_number() -> None:
    assert rewritten("torchrun --nproc_per_node=8 t.py\n", "x.sh", NEURON).endswith("=32 t.py\n")
    assert codes("torchrun --nproc_per_node=8 t.py\n", "x.sh") == []
    assert codes("torchrun --nproc_per_node=32 t.py\n", "x.sh", NEURON) == []


def test_devices_that_do_not_follow_one_another_are_left() -> None:
    text = "CUDA_VISIBLE_DEVICES=0,2 python t.py\n"
    assert rewritten(text, "x.sh", NEURON) == text


def test_words_keep_their_places() -> None:
    text = 'a "b c" $(d "e)" f) \\\n g;h \'i;j\' # k\nl>m\n'
    found = [[word.text for word in command.words] for command in commands(text)]
    assert found == [["a", '"b c"', '$(d "e)" f)', "g"], ["h", "'i;j'"], ["l>m"]]
    assert all(text[w.start : w.end] == w.text for command in commands(text) for w in command.words)


@pytest.mark.parametrize("text", ["", "'", '"$(', "a \\", "$(a", "<<X\n", "`", "a\\\n", "((", "\\"])
def test_what_is_cut_off_is_read_to_its_end(text: str) -> None:
    assert codes(text, "x.sh") == []


DOCKERFILE = """\
# syntax=docker/dockerfile:1
FROM nvidia/cuda:12.4.1-cudnn-devel-ubuntu22.04 AS build
ARG BASE=pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime
FROM build AS again
FROM ${BASE}
ENV CUDA_HOME=/usr/local/cuda NVIDIA_VISIBLE_DEVICES=all
ENV NCCL_DEBUG INFO
RUN apt-get update && apt-get install -y git \\
    # nvidia-smi
    && rm -rf /var/lib/apt/lists/*
RUN --mount=type=cache,target=/c pip install torch==2.9.0+cu128 numpy \\
    # needs nvcc
    flash-attn>=2 \\
    tqdm --extra-index-url https://wheels.example/whl/cu128
RUN pip install flash-attn --no-build-isolation
RUN pip install flash-attn \\
    # and
    wandb
COPY nvidia-smi .
# xla-migrate: ignore[XLA953]
RUN pip install apex
CMD ["torchrun", "--nproc_per_node=gpu", "train.py"]
"""


def test_dockerfiles() -> None:
    new = rewritten(DOCKERFILE, "Dockerfile", NEURON)
    assert (
        new
        == """\
# syntax=docker/dockerfile:1
FROM ubuntu:22.04 AS build
ARG BASE=team/train:1
FROM build AS again
FROM ${BASE}
ENV CUDA_HOME=/usr/local/cuda NVIDIA_VISIBLE_DEVICES=all
ENV NCCL_DEBUG INFO
RUN apt-get update && apt-get install -y git \\
    # nvidia-smi
    && rm -rf /var/lib/apt/lists/*
RUN --mount=type=cache,target=/c pip install torch==2.9.0 numpy \\
    tqdm --extra-index-url https://wheels.example/whl/cpu
RUN pip install \\
    # and
    wandb
COPY nvidia-smi .
# xla-migrate: ignore[XLA953]
RUN pip install apex
CMD ["torchrun", "--nproc_per_node=32", "train.py"]
"""
    )
    assert codes(new, "Dockerfile", NEURON) == ["xla954"] * 3


@pytest.mark.parametrize(
    ("image", "new"),
    [
        ("nvidia/cuda:12.4.1-cudnn-devel-ubuntu22.04", "ubuntu:22.04"),
        ("registry.example/nvidia/cuda:11.8.0-devel-rockylinux8", "rockylinux:8"),
        ("nvidia/cuda:12.4.1-base-ubi8", "team/train:1"),
        ("nvidia/cuda:${V}-devel-ubuntu22.04", "team/train:1"),
        ("registry.example/nvidia/pytorch:24.07-py3", "team/train:1"),
        ("pytorch/pytorch:2.4.0-cuda12.4-cudnn9-devel", "team/train:1"),
        ("nvidia/dcgm-exporter:3", None),
        ("python:3.11", "python:3.11"),
        ("pytorch/manylinux:1", "pytorch/manylinux:1"),
        ("scratch", "scratch"),
    ],
)
def test_base_images(image: str, new: str | None) -> None:
    text = f"FROM {image}\n"
    assert rewritten(text, "Dockerfile", NEURON) == f"FROM {new or image}\n"
    if new is None:
        assert codes(text, "Dockerfile", NEURON) == ["XLA951"]


def test_system_packages_of_cuda_go() -> None:
    text = """\
FROM ubuntu:22.04
RUN apt-get update && apt-get install -y git libnccl2=2.18.3-1+cuda12.1 libnccl-dev \\
      cuda-toolkit-12-1 libcudnn9-dev-cuda-12 \\
      nvidia-cuda-toolkit libcurl4 cudf-tools \\
    && rm -rf /var/lib/apt/lists/*
"""
    assert (
        rewritten(text, "Dockerfile")
        == """\
FROM ubuntu:22.04
RUN apt-get update && apt-get install -y git libcurl4 cudf-tools \\
    && rm -rf /var/lib/apt/lists/*
"""
    )
    assert (
        codes("sudo apt install cuda\nyum install -y cuda-12-4 nvtop\n", "a.sh") == ["XLA952"] * 2
    )


@pytest.mark.parametrize(
    "command",
    [
        "pip install -v --global-option='--cpp_ext' --global-option='--cuda_ext' ./",
        'pip install --config-settings "--build-option=--cuda_ext" ./apex',
        "python setup.py install --cuda_ext --cpp_ext",
    ],
)
def test_a_build_of_apex_from_its_sources(command: str) -> None:
    text = f"git clone https://example.com/apex && cd apex && {command}\n"
    assert codes(text, "setup.sh") == ["XLA953"]
    assert rewritten(text, "setup.sh") == text


def test_the_json_form() -> None:
    text = """\
FROM ubuntu:22.04
RUN ["pip", "install", "tqdm", "flash-attn"]
ENTRYPOINT ["/bin/sh", "-c", "nvidia-smi; exec torchrun --nproc_per_node=gpu t.py"]
CMD ["torchrun", "--nproc_per_node=gpu", "train.py"]
"""
    new = rewritten(text, "Dockerfile", NEURON)
    assert """RUN ["pip", "install", "tqdm"]""" in new
    assert """-c", "nvidia-smi; exec torchrun --nproc_per_node=32 t.py"]""" in new
    assert """CMD ["torchrun", "--nproc_per_node=32", "train.py"]""" in new


@pytest.mark.parametrize("quote", ["'", '"', ""])
def test_quotes_around_an_option(quote: str) -> None:
    text = f"torchrun {quote}--nproc_per_node=gpu{quote} t.py\ntorchrun --nproc-per-node {quote}auto{quote} t.py\n"
    assert rewritten(text, "run.sh", NEURON) == text.replace("gpu", "32").replace("auto", "32")


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        ("deepspeed --num_gpus 4 train.py --lr 1", "torchrun --nproc_per_node=4 train.py --lr 1"),
        ("deepspeed --num_gpus=4 train.py", "torchrun --nproc_per_node=4 train.py"),
        (
            "deepspeed train.py --deepspeed ds.json",
            "torchrun --nproc_per_node=N train.py --deepspeed ds.json",
        ),
        (
            "deepspeed --master_port 29501 --num_gpus $N --no_local_rank train.py",
            "torchrun --nproc_per_node=$N --master_port=29501 train.py",
        ),
        (
            "deepspeed --module --num_gpus 2 my.train",
            "torchrun --nproc_per_node=2 --module my.train",
        ),
        ("deepspeed --hostfile hosts train.py", "torchrun"),
        ("deepspeed --include localhost:0,1 train.py", "torchrun"),
        ("deepspeed --num_nodes 2 --num_gpus 8 train.py", "torchrun"),
        ("horovodrun -np 4 python train.py", "torchrun"),
    ],
)
def test_what_to_type_in_place_of_deepspeeds_launcher(command: str, instead: str) -> None:
    (one,) = verdict(command + "\n", "run.sh", rewriting=False).left
    assert one.message.endswith(
        f"`{instead}`, which sets only LOCAL_RANK" if " " in instead else f"with {instead}"
    )
