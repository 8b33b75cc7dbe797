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
    """The name and the manual of a code. `summary` is the manual's first line."""

    name: str
    text: str

    @property
    def summary(self) -> str:
        """Return the manual's first line."""
        return self.text.partition("\n")[0]


CODES = {
    NVIDIA_IMAGE: Code(
        "nvidia-image",
        """\
A container image contains CUDA.

## What it reports

Images of NVIDIA and PyTorch's CUDA images in Dockerfiles, in `docker run` and in Kubernetes
manifests.

## Why it matters on XLA

An XLA host does not need CUDA, and a PyTorch build for CUDA does not fit torch_xla.

## What to do

Fix: safe, or none.

An `nvidia/cuda` image is a Linux distribution with CUDA. It becomes the distribution of the same
version. Other images also contain PyTorch. They become the image that the settings name. Without
that setting they are reported without a fix.

## Example

`nvidia/cuda:12.4.1-cudnn-devel-ubuntu22.04` becomes `ubuntu:22.04`. The settings for other images:

```toml
[tool.xla-migrate.target]
image = "my-registry/training:1"
```""",
    ),
    CUDA_WHEEL: Code(
        "cuda-wheel",
        """\
A wheel is built for CUDA, or belongs to the libraries of CUDA.

## What it reports

Versions, indexes and packages for CUDA in requirements, in conda environments and in commands that
install them.

## Why it matters on XLA

torch_xla runs with PyTorch's wheels for the CPU, and includes the library of its device.

## What to do

Fix: safe.

Use the wheels for the CPU, and remove the libraries of CUDA.

## Example

- `torch==2.9.0+cu128` becomes `torch==2.9.0`.
- The index `.../whl/cu128` becomes `.../whl/cpu`, and the page `.../torch-2.9.0+cu128.html` becomes
  the page for `+cpu`.
- These are removed: `nvidia-...-cu12` packages, conda's `pytorch-cuda`, `cudatoolkit` and channel
  `nvidia`, and CUDA packages of the system (`apt-get install libnccl2 cuda-toolkit-12-4`).""",
    ),
    CUDA_PACKAGE: Code(
        "cuda-package",
        """\
A package needs CUDA.

## What it reports

Packages that need CUDA to be installed, or that have no kernels for XLA devices.

## Why it matters on XLA

nvcc builds apex and flash-attn, so their installation fails on an XLA host. bitsandbytes, xformers,
DeepSpeed, CuPy, DALI and similar packages install, but have no kernels for XLA devices.

## What to do

Fix: safe, or none.

Lines of packages that cannot be installed are removed. Remove the others when the script no longer
uses them. Rules for the Python files report the code that uses a package.""",
    ),
    CUDA_VARIABLE: Code(
        "cuda-variable",
        """\
An environment variable belongs to CUDA, NCCL or torch_xla only.

## What it reports

Variables of CUDA and NCCL in launch files, and variables that torch_xla 2.9 no longer reads
(`XRT_TPU_CONFIG` and others). If several files contain the same line, it is printed once with their
number.

## Why it matters on XLA

XLA does not read the variables of CUDA and NCCL. They do no harm, so they are notes and do not
change the exit code. `XLA_USE_BF16=1` and `XLA_DOWNCAST_BF16=1` make torch_xla compute float32 in
bfloat16, but on each other device the training runs in float32.

## What to do

Fix: safe, or none.

If `for` in `[tool.xla-migrate.target]` is a Neuron machine, `CUDA_VISIBLE_DEVICES` becomes
`NEURON_RT_VISIBLE_CORES`, provided that its devices are consecutive (`0,1,2,3` or `0`). On a TPU,
set `TPU_VISIBLE_CHIPS` and `TPU_PROCESS_BOUNDS` to choose chips.""",
    ),
    GPU_RESOURCE: Code(
        "gpu-resource",
        """\
A container, a job or a pod requests GPUs.

## What it reports

`docker run --gpus`, and requests for GPUs in SLURM scripts and Kubernetes manifests.

## Why it matters on XLA

`docker run --gpus all` fails without NVIDIA's runtime. A job that requests GPUs does not start.

## What to do

Fix: safe, or none.

If `for` is a Neuron machine, `--gpus` becomes the Neuron devices of the host. With `devices`,
`nvidia.com/gpu: 8` becomes `aws.amazon.com/neuroncore: 32`.

## Limits

The names of SLURM's resources depend on the cluster, and pods on TPUs also need node selectors. You
need to change both by hand.""",
    ),
    GPU_LAUNCHER: Code(
        "gpu-launcher",
        """\
A launcher counts or needs GPUs.

## What it reports

`torchrun --nproc_per_node=gpu`, `accelerate launch`, DeepSpeed's launcher and horovodrun.

## Why it matters on XLA

`torchrun --nproc_per_node=gpu` fails without CUDA. accelerate starts one process on XLA, whatever
`--num_processes` says. The other launchers need GPUs.

## What to do

Fix: safe, or none.

Use torchrun, which starts one process per device. On a TPU, start a script that uses accelerate
with `accelerate launch --tpu` ([guide](../guides/accelerate.md)). With `devices` in the settings,
its number replaces `gpu` and other numbers. `accelerate launch --mixed_precision fp16` and
`ACCELERATE_MIXED_PRECISION=fp16` become `bf16`. You need to change `--num_processes`,
`--multi_gpu`, `--use_deepspeed` and the other launchers by hand.""",
    ),
    NVIDIA_PROGRAM: Code(
        "nvidia-program",
        """\
An XLA host does not have NVIDIA's programs.

## What it reports

`nvidia-smi`, nvcc, nsys, ncu, compute-sanitizer and `module load cuda`.

## Why it matters on XLA

The command fails on an XLA host.

## What to do

Fix: safe, or none.

`nvidia-smi` alone on a line becomes `neuron-ls` if `for` is a Neuron machine. You need to change
code that parses its output, and the other programs, by hand.""",
    ),
    TORCH_VERSION: Code(
        "torch-version",
        """\
A version of PyTorch does not match torch_xla.

## What it reports

Requirements with a version of PyTorch other than 2.9.

## Why it matters on XLA

torch_xla 2.9 is the last release, and runs with PyTorch 2.9 only.

## What to do

Fix: none.

Pin `torch==2.9.*`, add `torch_xla==2.9.*`, and check that the other requirements support this
version of PyTorch.""",
    ),
    TRAINING_SETTINGS: Code(
        "training-settings",
        """\
A value in a settings file makes a framework fail on XLA.

## What it reports

Values in YAML files at any depth, in mappings with at least two keys of the framework: accelerate's
config (`distributed_type`, `mixed_precision`), arguments of transformers' trainers and of
`from_pretrained` (`optim`, `fp16`, `tf32`, `load_in_4bit` and others), and arguments of Lightning's
Trainer (`accelerator`, `devices`, `strategy`, `precision`). `mixed_precision: fp16` in other settings is a note:
the program may hand it to an Accelerator. Also DeepSpeed's configurations in JSON, which the
runtime's engine reads, and options of transformers' trainers in shell commands.

## Why it matters on XLA

The framework fails as if the script contained the value.

## What to do

Fix: safe, or none.

`optim: adamw_torch_fused` becomes `adamw_torch`, and `fp16: true` becomes `bf16: true`. In shell
commands, `--tf32 True` is removed. FSDP,
quantisation, activation checkpointing and accelerate's DeepSpeed need manual changes: the finding
names the settings to transfer. In DeepSpeed's configurations, each entry without a counterpart on
XLA is reported (1-bit optimizers, sparse attention, curricula, monitors and others). `fused: true`
of an optimizer stays: on XLA the runtime ignores it. `strategy: ddp` stays, too:
`xla.patch_lightning()` treats it as data parallelism.

## Example

```yaml
trainer:
  accelerator: gpu       # becomes auto
  devices: 8             # a note: use auto
  strategy: ddp
  precision: 16-mixed    # becomes bf16-mixed
```""",
    ),
}
