"""The codes of findings in launch files, and their manuals."""

from __future__ import annotations

from typing import NamedTuple

NVIDIA_IMAGE = "XLA951"
CUDA_WHEEL = "XLA952"
CUDA_PACKAGE = "XLA953"
CUDA_VARIABLE = "XLA954"
GPU_RESOURCE = "XLA955"
GPU_LAUNCHER = "XLA956"
NVIDIA_PROGRAM = "XLA957"
TORCH_VERSION = "XLA958"
TRAINING_SETTINGS = "XLA959"


class Code(NamedTuple):
    """A code's name and manual; `summary` is the first sentence of it."""

    name: str
    text: str

    @property
    def summary(self) -> str:
        """The manual's first line."""
        return self.text.partition("\n")[0]


CODES = {
    NVIDIA_IMAGE: Code(
        "nvidia-image",
        """\
A container image with CUDA in it.

`nvidia/cuda` images are a Linux distribution with CUDA: the distribution of the same version takes their place
(`nvidia/cuda:12.4.1-cudnn-devel-ubuntu22.04` becomes `ubuntu:22.04`). Other images of NVIDIA's and PyTorch's CUDA images
also hold PyTorch: they become the image that the settings name, and stay where none is named.

```toml
[tool.xla-migrate.target]
image = "my-registry/training:1"
```

Found in Dockerfiles, in `docker run` and in Kubernetes manifests.""",
    ),
    CUDA_WHEEL: Code(
        "cuda-wheel",
        """\
Wheels that are built for CUDA, and the libraries of CUDA that they need.

`torch==2.9.0+cu128` becomes `torch==2.9.0`, an index `.../whl/cu128` the same index's `.../whl/cpu` (a page
`.../torch-2.9.0+cu128.html` that for `+cpu`), and the `nvidia-...-cu12` packages, conda's `pytorch-cuda` and `cudatoolkit`
and its channel `nvidia`, and the system's packages of CUDA (`apt-get install libnccl2 cuda-toolkit-12-4`) go: torch_xla
runs with torch's wheels for the CPU, and brings the library of its device itself.""",
    ),
    CUDA_PACKAGE: Code(
        "cuda-package",
        """\
A package that needs CUDA to be installed, or does nothing without.

apex and flash-attn are built by nvcc, so that their installation fails on an XLA host: their lines go. What used them is
found in the Python files, by the rules for it. Packages that install anywhere but have no kernels for XLA devices
(bitsandbytes, xformers, DeepSpeed, CuPy, DALI ...) are left to a person.""",
    ),
    CUDA_VARIABLE: Code(
        "cuda-variable",
        """\
An environment variable of CUDA, NCCL or torch_xla alone in a launch file.

XLA does not read the variables of CUDA and NCCL. They do no harm, so they are notes and do not change the exit code. If
`for` in `[tool.xla-migrate.target]` is a Neuron machine, `CUDA_VISIBLE_DEVICES` becomes `NEURON_RT_VISIBLE_CORES` if its
devices follow one another (`0,1,2,3` or `0`). On a TPU, set `TPU_VISIBLE_CHIPS` and `TPU_PROCESS_BOUNDS` to choose chips.
The same line in several files is printed once, with their number.

`XLA_USE_BF16=1` and `XLA_DOWNCAST_BF16=1` make torch_xla compute in bfloat16 what says float32; on every other device the training
is in float32 then. What torch_xla 2.9 no longer reads (`XRT_TPU_CONFIG` ...) is found, too.""",
    ),
    GPU_RESOURCE: Code(
        "gpu-resource",
        """\
A container, a job or a pod asks for GPUs.

`docker run --gpus all` fails where NVIDIA's runtime is not installed, and a job that asks SLURM or Kubernetes for GPUs
does not start. With `for` set to a Neuron machine, `--gpus` becomes the Neuron devices of the host, and with `devices`
also `nvidia.com/gpu: 8` becomes `aws.amazon.com/neuroncore: 32`. SLURM's resources have the names that the cluster's
administrators gave them; pods on TPUs need node selectors, too: both are left to a person.""",
    ),
    GPU_LAUNCHER: Code(
        "gpu-launcher",
        """\
A launcher that counts GPUs, or drives them.

`torchrun --nproc_per_node=gpu` fails without CUDA; with `devices` in the settings the number takes its place, and a
number that is not that of `devices` becomes it. `accelerate launch --mixed_precision fp16` and `ACCELERATE_MIXED_PRECISION=fp16`
become `bf16`; `--num_processes 8`, of which accelerate starts one on XLA, `--multi_gpu`, `--use_deepspeed`, DeepSpeed's launcher and horovodrun are left to a person: torchrun starts one process per device.""",
    ),
    NVIDIA_PROGRAM: Code(
        "nvidia-program",
        """\
A program of NVIDIA's, which an XLA host does not have.

`nvidia-smi` alone on a line becomes `neuron-ls` where `for` is a Neuron machine. What is computed from its output, nvcc,
nsys, ncu, compute-sanitizer, and `module load cuda` are left to a person.""",
    ),
    TORCH_VERSION: Code(
        "torch-version",
        f"""\
A torch that torch_xla does not fit.

torch_xla {"2.9"} is the last release, and runs with torch 2.9 only. Which version is right for the rest of the
requirements is for a person to say; `pip install 'torch==2.9.*' 'torch_xla==2.9.*'` takes two that fit.""",
    ),
    TRAINING_SETTINGS: Code(
        "training-settings",
        """\
A value in a file of settings on which a framework fails with XLA.

Read are accelerate's config (`distributed_type`, `mixed_precision`), the arguments of transformers' trainers and of
`from_pretrained` (`optim`, `fp16`, `tf32`, `load_in_4bit` ...) and those of Lightning's Trainer (`accelerator`,
`strategy`, `precision`), at any depth of YAML: mappings that hold at least two keys of the framework's own; and DeepSpeed's
configurations in JSON, which the runtime's engine reads.

```yaml
trainer:
  accelerator: gpu       # becomes auto
  devices: 8
  strategy: ddp          # becomes auto
  precision: 16-mixed    # becomes bf16-mixed
```

`optim: adamw_torch_fused` becomes `adamw_torch`, `fp16: true` becomes `bf16: true`, and `fused: true` beside other
arguments of an optimizer (`lr`, `betas`, `weight_decay` ...) becomes `false`. FSDP, quantisation and activation
checkpointing are left to a person, and so is accelerate's DeepSpeed: the finding says which of its settings to carry over.
In DeepSpeed's configurations each part is named that XLA has no counterpart of (1-bit optimizers, sparse attention,
curricula, monitors ...).""",
    ),
}
