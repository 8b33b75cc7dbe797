"""Makefiles and justfiles."""

from __future__ import annotations

from xla_migrate.files.launch_names import may_launch

from ...each import each
from .helpers import NEURON, codes, rewritten

MAKEFILE = """\
# nvidia-smi
NGPU ?= $(shell nvidia-smi -L | wc -l)
LAUNCH = torchrun --nproc_per_node=gpu \\
\t--nnodes=1
export CUDA_VISIBLE_DEVICES = 0,1

.PHONY: install train
install: requirements.txt
\t@pip install flash-attn
\t-pip install 'torch==2.9.0+cu128' flash-attn tqdm
ifdef SLOW
train: install
\t$(LAUNCH) train.py --name "a b" \\
\t\t--more
\tCUDA_VISIBLE_DEVICES=0 accelerate launch --mixed_precision fp16 t.py; echo $$?
\tcd x && torchrun --nproc_per_node=gpu t.py  # both
endif
"""

JUSTFILE = """\
export CUDA_VISIBLE_DEVICES := "0"
launch := 'accelerate launch --mixed_precision=fp16'

train *args:
    @torchrun --nproc_per_node=gpu train.py {{args}}
    {{launch}} t.py

report:
    #!/usr/bin/env python
    print("nvidia-smi"); nvidia-smi

smi:
    #!/usr/bin/env bash
    nvidia-smi
"""


def test_a_makefile_on_neuron() -> None:
    assert (
        rewritten(MAKEFILE, "Makefile", NEURON)
        == """\
# nvidia-smi
NGPU ?= $(shell nvidia-smi -L | wc -l)
LAUNCH = torchrun --nproc_per_node=32 \\
\t--nnodes=1
export CUDA_VISIBLE_DEVICES = 0,1

.PHONY: install train
install: requirements.txt
\t-pip install 'torch==2.9.0' tqdm
ifdef SLOW
train: install
\t$(LAUNCH) train.py --name "a b" \\
\t\t--more
\tNEURON_RT_VISIBLE_CORES=0 accelerate launch --mixed_precision bf16 t.py; echo $$?
\tcd x && torchrun --nproc_per_node=32 t.py  # both
endif
"""
    )


def test_what_is_told_of_a_makefile() -> None:
    assert codes(MAKEFILE, "Makefile") == [
        *("XLA957", "XLA956", "xla954", "XLA953", "XLA952", "XLA953"),
        *("xla954", "XLA956", "XLA956"),
    ]


def test_a_justfile() -> None:
    new = rewritten(JUSTFILE, "justfile", NEURON)
    assert "launch := 'accelerate launch --mixed_precision=bf16'\n" in new
    assert "    @torchrun --nproc_per_node=32 train.py {{args}}\n" in new
    assert 'print("nvidia-smi"); nvidia-smi\n' in new
    assert new.endswith("bash\n    neuron-ls\n")
    assert codes(JUSTFILE, "justfile") == ["xla954", "XLA956", "XLA956", "XLA957"]


@each(
    "text, found",
    [
        ("all:\n\tgcc -c a.c\n", []),
        ("FLAGS = --a \\\n\tnvidia-smi\n", []),  # goes on: no recipe
        ("all: b\n\techo nvidia-smi\n\n\n", []),
        ("all:\n\tnvidia-smi # xla-migrate: ignore\n", []),
        ("CC := nvcc\n", ["XLA957"]),
        ("a:\n\tdeepspeed --num_gpus 4 train.py", ["XLA956"]),
        ("a:\n\tif true; then \\\n\t  accelerate launch --multi_gpu t.py; \\\n\tfi\n", ["XLA956"]),
        ("a:\n\tdocker run --gpus all x\n", ["XLA955"]),
        ("ACCELERATE_MIXED_PRECISION := fp16\n", ["XLA956"]),
        ("NAME = accelerate\nGPU = 1\n", []),
        ("", []),
        ("\\", []),
        ("a = ", []),
        ("=\n:=\n\t", []),
    ],
)
def test_what_is_found(text: str, found: list[str]) -> None:
    assert codes(text, "Makefile") == found


def test_names() -> None:
    taken = ["Makefile", "makefile", "GNUmakefile", "Makefile.gpu", "x.mk", "justfile", "a.just"]
    assert all(map(may_launch, taken))
    assert not any(
        map(may_launch, ["Makefile.orig", "Makefile.bak", "Makefile.py", "just", "make"])
    )
