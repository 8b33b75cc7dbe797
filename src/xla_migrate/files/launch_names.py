"""Recognise files that may install or start a training, by their names and a few words."""

from __future__ import annotations

# One of these stands in every launch file that concerns us; asked of the bytes, in small letters.
_WORDS = (
    b"nvidia",
    b"cuda",
    b"nccl",
    b"gpu",
    b"cu11",
    b"cu12",
    b"cu13",
    b"torch",
    b"_bf16",
    b"xrt_",
    b"apex",
    b"flash",
    b"deepspeed",
    b"bitsandbytes",
    b"xformers",
    b"horovod",
    b"triton",
    b"tensorrt",
    b"cupy",
    b"cudf",
    b"cuml",
    b"nvitop",
    b"accelerate",
    b"conv1d",
    b"mamba",
    b"transformer",
    b"liger",
    b"sage",
    b"nvcc",
    b"nsys",
    b"pynvml",
    # In settings of training.
    b"fp16",
    b"precision",
    b"strategy",
    b"bit",
    b"paged",
    b"checkpointing",
    b"tf32",
    b"fsdp",
    b"device_map",
    b"fused",
)

# Of JSON, in names of files of settings, and in those that concern us: DeepSpeed's, and others.
_NAMES_OF_SETTINGS = (
    *("ds", "deepspeed", "zero", "stage", "conf", "offload", "z1", "z2", "z3"),
    *("args", "param", "recipe", "setting", "train"),
)
_IN_SETTINGS = (
    *(b"zero_optimization", b"train_batch_size", b"train_micro_batch_size_per_gpu"),
    *(b'"fp16"', b'"fused"', b'"mixed_precision"', b'"precision"', b'"accelerator"', b'"strategy"'),
    *(b'"optim"', b'"tf32"', b'"device_map"', b'"fsdp"', b'"gradient_checkpointing"'),
)

_LIMIT = 1 << 20  # bytes
_ENDINGS = (".sh", ".bash", ".sbatch", ".slurm", ".yml", ".yaml", ".dockerfile")
_RECIPES = ("Makefile", "makefile", "GNUmakefile", "justfile", "Justfile", ".justfile")
_DOCKERFILES = ("Dockerfile", "dockerfile", "Containerfile")
# What is no Dockerfile, though it begins so: copies, templates and texts.
_OTHERS = ("~", ".bak", ".old", ".py", ".ipynb", ".md", ".rst", ".txt", ".j2", ".dockerignore")


def may_launch(name: str) -> bool:
    """True if a file of this name may be a launch file; of YAML and JSON files the content decides."""
    if name.endswith(_ENDINGS) or name == "pyproject.toml":
        return True
    if name.startswith("requirements"):
        return name.endswith((".txt", ".in"))
    if name.endswith(".json"):  # of which there are many, and few are read
        return any(word in name.lower() for word in _NAMES_OF_SETTINGS)
    if is_of_recipes(name):
        return True
    return name.startswith(_DOCKERFILES) and ".orig" not in name and not name.endswith(_OTHERS)


def is_of_recipes(name: str) -> bool:
    """True if a file of this name is a Makefile, or one of `just`."""
    if name in _RECIPES or name.endswith((".mk", ".just")):
        return True
    return name.startswith("Makefile.") and ".orig" not in name and not name.endswith(_OTHERS)


def concerns_a_launch(data: bytes, name: str) -> bool:
    """True if a word stands in `data` without which there is nothing for us in a launch file of this name."""
    if name.endswith(".json"):
        return any(word in data for word in _IN_SETTINGS)
    lowered = data.lower()
    return any(word in lowered for word in _WORDS)


def says_something(path: str) -> bool:
    """True if the file at `path`, found in a walk, holds such a word; YAML that is no launch file often is large."""
    try:
        with open(path, "rb") as file:
            data = file.read(_LIMIT + 1)
    except OSError:
        return True  # to be reported
    return len(data) <= _LIMIT and concerns_a_launch(data, path)
