"""One simple command of a shell, judged: what it sets, installs, and starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from xla_codemods.analysis.frameworks.values import HALF, OF_ENVIRONMENT
from xla_codemods.catalog.torch_xla import VARIABLES, unread

from ...results import INFO, WARNING
from .codes import (
    CUDA_PACKAGE,
    CUDA_VARIABLE,
    CUDA_WHEEL,
    GPU_LAUNCHER,
    GPU_RESOURCE,
    NVIDIA_PROGRAM,
)
from .found import Edit, Found, Wanted, whole_line
from .images import in_image
from .packages import in_index, in_requirement, row_of
from .shell_words import Command, Word

_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.*)", re.DOTALL)
# Of CUDA, NCCL, NVIDIA's container runtime and torch; a script's own CUDA_FLAG is none.
_CUDA = re.compile(
    r"(CUDA_(VISIBLE_DEVICES|LAUNCH_BLOCKING|DEVICE_\w+|HOME|PATH|MODULE_LOADING|CACHE_\w+|MPS_\w+)"
    r"|NCCL_\w+|TORCH_NCCL_\w+|NVIDIA_(VISIBLE_DEVICES|DRIVER_CAPABILITIES|TF32_OVERRIDE|REQUIRE_\w+)"
    r"|PYTORCH_CUDA_\w+|PYTORCH_NO_CUDA_\w+|CUBLAS_WORKSPACE_CONFIG|TORCH_CUDA_ARCH_LIST)$"
)
_PROGRAMS = (
    "nvidia-smi",
    "nvcc",
    "nsys",
    "ncu",
    "nvprof",
    "compute-sanitizer",
    "cuda-gdb",
    "dcgmi",
)
_INSTALLERS = ("pip", "pip3", "uv")
_NEURON_DEVICES = "$(printf -- '--device=%s ' /dev/neuron[0-9]*)"


def in_command(command: Command, text: str, wanted: Wanted) -> Iterator[Found]:
    """Findings in one command of `text`."""
    words = list(command.words)
    while words and (
        words[0].plain in ("export", "env", "sudo", "exec", "srun") or _sets(words[0])
    ):
        if _sets(words[0]):
            yield from in_assignment(words[0], wanted)
        elif words[0].plain == "srun":
            yield from _resources(words[1:], "srun", wanted)
        words.pop(0)
        while words and words[0].text.startswith("-"):
            words.pop(0)
    if words:
        yield from _started(words, command, text, wanted)
    for word in command.words:
        for program in _PROGRAMS:
            if re.search(rf"[$`][(]?\s*{program}\b", word.text):
                message = f"{program} is not there on an XLA host: nothing is read from it"
                yield Found(NVIDIA_PROGRAM, word.start, word.end, message)


def _sets(word: Word) -> bool:
    return _ASSIGNMENT.match(word.text) is not None


def is_named(name: str) -> bool:
    """True if a variable of this name is read by CUDA, NCCL, NVIDIA's container runtime, or torch for CUDA; or by torch_xla
    alone.
    """
    return _CUDA.match(name) is not None or name in VARIABLES


def in_assignment(word: Word, wanted: Wanted) -> Iterator[Found]:
    """The finding in `NAME=VALUE`, where the name is CUDA's or NCCL's."""
    found = _ASSIGNMENT.match(word.text)
    if found is None:
        return
    if found["name"] in OF_ENVIRONMENT:
        yield from _of_accelerate(word, found["name"], found["value"].strip("\"'"))
    if is_named(found["name"]):
        yield from variable(
            found["name"], found["value"].strip("\"'"), word.start, word.end, wanted
        )


def _of_accelerate(word: Word, name: str, value: str) -> Iterator[Found]:
    message = OF_ENVIRONMENT[name](value)
    if message:
        start = word.start + word.text.rfind(value)
        edits = (Edit(start, start + len(value), "bf16"),) if message == HALF else ()
        yield Found(GPU_LAUNCHER, word.start, word.end, message, edits, WARNING)


def variable(name: str, value: str, start: int, end: int, wanted: Wanted) -> Iterator[Found]:
    """The finding in a variable that is named, whose name begins at `start`."""
    if message := unread(name, value):
        yield Found(CUDA_VARIABLE, start, end, message, severity=WARNING)
    elif _CUDA.match(name):
        yield _of_cuda(name, value, start, end, wanted)


def _of_cuda(name: str, value: str, start: int, end: int, wanted: Wanted) -> Found:
    if name != "CUDA_VISIBLE_DEVICES" or value in ("", "-1"):
        message = f"{name} means nothing to XLA"
        return Found(CUDA_VARIABLE, start, end, message, severity=INFO)
    cores = _cores(value)
    if wanted.kind == "neuron" and cores:
        edits = (Edit(start, start + len(name), "NEURON_RT_VISIBLE_CORES"),)
        message = "CUDA_VISIBLE_DEVICES chooses no XLA device: NEURON_RT_VISIBLE_CORES does"
        return Found(CUDA_VARIABLE, start, end, message, edits, WARNING)
    message = "CUDA_VISIBLE_DEVICES chooses no XLA device: NEURON_RT_VISIBLE_CORES or TPU_VISIBLE_CHIPS does"
    return Found(CUDA_VARIABLE, start, end, message, severity=WARNING)


def _cores(value: str) -> bool:
    """True if these devices follow one another: Neuron's collectives are documented for such only."""
    if not re.fullmatch(r"\d+(,\d+)*", value):
        return False
    numbers = [int(part) for part in value.split(",")]
    return numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def _started(words: list[Word], command: Command, text: str, wanted: Wanted) -> Iterator[Found]:
    name = words[0].plain.rpartition("/")[2]
    said = [word.plain for word in words]
    if name in ("python", "python3") and said[1:2] == ["-m"] and len(words) > 2:
        name, words, said = said[2], words[2:], said[2:]
    for word in words:
        if "--cuda_ext" in word.text:
            message = "apex is built by nvcc, which an XLA host does not have: the build fails"
            yield Found(CUDA_PACKAGE, word.start, word.end, message)
    if name in _INSTALLERS and "install" in said:
        yield from _installed(words, said, command, text)
    elif name in ("apt", "apt-get", "aptitude", "yum", "dnf") and "install" in said:
        yield from _of_system(words)
    elif name in ("conda", "mamba", "micromamba") and "install" in said:
        yield from _of_conda(words)
    elif name in ("docker", "podman", "nvidia-docker") and "run" in said[:3]:
        yield from _container(words, wanted)
    elif name in ("torchrun", "torch.distributed.run", "torch.distributed.launch"):
        yield from _torchrun(words, wanted)
    elif name in ("accelerate", "accelerate.commands.launch"):
        yield from _accelerate(words)
    elif name in ("deepspeed", "horovodrun"):
        instead = _as_torchrun(words, wanted) if name == "deepspeed" else ""
        how = f"`{instead}`, which gives the rank as LOCAL_RANK only" if instead else "torchrun"
        message = f"{name} drives GPUs over NCCL: start one process per device with {how}"
        yield Found(GPU_LAUNCHER, words[0].start, words[0].end, message, effort="high")
    elif name in ("sbatch", "salloc"):
        yield from _resources(words[1:], name, wanted)
    elif name in _PROGRAMS:
        yield _program(name, words, command, wanted)
    elif name == "module" and "load" in said:
        for word in words:
            if re.match(r"(cuda|cudnn|nccl|nvhpc)\b", word.plain, re.IGNORECASE):
                message = f"the module {word.plain} is not there on a cluster of XLA hosts"
                yield Found(NVIDIA_PROGRAM, word.start, word.end, message, severity=WARNING)


def _program(name: str, words: list[Word], command: Command, wanted: Wanted) -> Found:
    message = f"{name} is not there on an XLA host"
    simple = name == "nvidia-smi" and len(words) == 1 and command.alone and wanted.kind == "neuron"
    edits = (Edit(words[0].start, words[0].end, "neuron-ls"),) if simple else ()
    return Found(NVIDIA_PROGRAM, words[0].start, words[0].end, message, edits, WARNING)


_TAKE_A_VALUE = frozenset(
    "-r --requirement -c --constraint -i --index-url --extra-index-url -f --find-links --index -t --target"
    " --platform --python --prefix --root --trusted-host -e --editable --no-binary --only-binary".split()
)


def _installed(
    words: list[Word], said: Sequence[str], command: Command, text: str
) -> Iterator[Found]:
    place = said.index("install") + 1
    requirements = []
    option = ""
    others = False  # whether the command installs something else, too
    for word in words[place:]:
        if option:
            others |= option in ("-r", "--requirement")
            if option in ("-e", "--editable"):
                requirements.append(word)
            yield from in_index(word.plain, word.end - len(word.text) + word.text.find(word.plain))
            option = ""
        elif word.plain in _TAKE_A_VALUE:
            option = word.plain
        elif word.text.startswith("-"):
            others |= word.text.startswith(("-r", "--requirement"))
            yield from in_index(word.text, word.start)
        elif not word.text.startswith((">", "<", "2>")):
            requirements.append(word)
    going = [word for word in requirements if (row := row_of(word.plain)) and row[1].goes]
    whole = len(going) == len(requirements) and not others
    for word in requirements:
        begin = word.start + word.text.find(word.plain)
        removal = None
        if word in going:
            removal = _without(word, words, command, text, whole and word is going[0])
            if whole and word is not going[0]:
                removal = None
        yield from in_requirement(word.plain, begin, removal)
        yield from in_index(word.plain, begin)


def _without(
    word: Word, words: list[Word], command: Command, text: str, whole: bool
) -> Edit | None:
    """Takes one requirement out of a command, or with `whole` the command, of which nothing would be left."""
    if not whole:
        before = words[words.index(word) - 1]
        return None if before.plain in ("-e", "--editable") else Edit(before.end, word.end, "")
    if command.alone and "\n" not in text[command.start : command.end] and _line_is(command, text):
        return whole_line(text, command.start, command.end)
    return Edit(command.start, command.end, "true")


def _line_is(command: Command, text: str) -> bool:
    """True if its line holds nothing but the command."""
    first = text.rfind("\n", 0, command.start) + 1
    last = text.find("\n", command.end)
    return (
        text[first : len(text) if last < 0 else last].strip() == text[command.start : command.end]
        and not text[first : command.start].strip()
    )


_CONDA_CUDA = re.compile(r"(pytorch-cuda|cudatoolkit|cuda-toolkit|cudnn|nccl)\b")
# Packages of NVIDIA's own repositories, which come with images that have CUDA, and of its drivers.
_SYSTEM_CUDA = re.compile(
    r"(cuda(-(toolkit|runtime|compiler|libraries|libraries-dev|nvcc|cudart|cudart-dev|minimal-build|drivers|[\w-]+-dev))?"
    r"(-\d+(-\d+)?)?|libnccl\d*(-dev|-devel)?|libcud(nn|art)[\w-]*|libcu(blas|fft|rand|sparse|solver)[\w-]*|libnvinfer[\w-]*"
    r"|nvidia-(cuda-toolkit|driver-\d+|utils-\d+|container-toolkit|docker2)|datacenter-gpu-manager)(=\S+)?$"
)


def _of_conda(words: list[Word]) -> Iterator[Found]:
    yield from _left_out(words, _CONDA_CUDA, "CUDA, which an XLA host does not need")


def _of_system(words: list[Word]) -> Iterator[Found]:
    message = "a package of NVIDIA's repositories, which an XLA host does not need"
    yield from _left_out(words, _SYSTEM_CUDA, message)


def _left_out(words: list[Word], unneeded: re.Pattern[str], message: str) -> Iterator[Found]:
    """A finding for each word that names a package of this kind, which can be left out of the command."""
    for before, word in pairwise(words):
        if unneeded.match(word.plain):
            edits = (Edit(before.end, word.end, ""),)
            yield Found(CUDA_WHEEL, word.start, word.end, message, edits)


def _container(words: list[Word], wanted: Wanted) -> Iterator[Found]:
    neuron = wanted.kind == "neuron"
    if words[0].plain == "nvidia-docker":
        message = "nvidia-docker needs GPUs: docker gives a container other devices by --device"
        yield Found(GPU_RESOURCE, words[0].start, words[0].end, message)
    for k, word in enumerate(words):
        end = word.end
        if word.plain == "--gpus" and k + 1 < len(words):
            end = words[k + 1].end
        elif not word.plain.startswith(("--gpus=", "--runtime=nvidia")):
            image = in_image(word.plain, word.start + word.text.find(word.plain), wanted)
            if image is not None and not word.plain.startswith("-"):
                yield image
            continue
        what = "`--runtime=nvidia`" if "runtime" in word.plain else "`--gpus`"
        message = f"{what} fails without NVIDIA's runtime: give the container the XLA devices"
        edits = (Edit(word.start, end, _NEURON_DEVICES),) if neuron and "gpus" in word.plain else ()
        yield Found(GPU_RESOURCE, word.start, end, message, edits)


def _torchrun(words: list[Word], wanted: Wanted) -> Iterator[Found]:
    for k, word in enumerate(words):
        option = re.match(r"--nproc[-_]per[-_]node(=|$)", word.plain)
        if option is None:
            continue
        value = word.plain.partition("=")[2]
        if not option[1] and k + 1 < len(words):
            word = words[k + 1]
            value = word.plain
        start = word.start + word.text.rfind(value)  # without quotes
        end = start + len(value)
        number = str(wanted.devices) if wanted.devices else ""
        edits = (Edit(start, end, number),) if number else ()
        if value in ("gpu", "auto"):
            message = f"`--nproc_per_node={value}` counts GPUs: give the number of XLA devices"
            yield Found(GPU_LAUNCHER, start, end, message, edits)
        elif value.isdigit() and number and value != number:
            message = f"{value} processes for {number} devices: torchrun starts one for each"
            yield Found(GPU_LAUNCHER, start, end, message, edits, WARNING)
        elif "nvidia-smi" not in value and "device_count" in value:
            message = "counts CUDA devices, of which there are none: give the number of XLA devices"
            yield Found(GPU_LAUNCHER, start, end, message, edits)
        elif found := re.search(r"SLURM_\w*GPUS?\w*", value):
            message = f"{found[0]} is set where there are GPUs: give the number of XLA devices"
            yield Found(GPU_LAUNCHER, start, end, message, edits)


# Options of DeepSpeed's launcher, and torchrun's; "" for those that torchrun needs not be told.
_OF_DEEPSPEED = {
    "num_gpus": "nproc_per_node",
    "num_accelerators": "nproc_per_node",
    "master_port": "master_port",
    "master_addr": "master_addr",
    "num_nodes": "nnodes",
}
_FLAGS_OF_DEEPSPEED = {"no_local_rank": "", "no_python": "no_python", "module": "module"}


def _as_torchrun(words: list[Word], wanted: Wanted) -> str:
    """The same on one host by torchrun; empty where the launcher is told of hosts, or what torchrun has not."""
    options: dict[str, str] = {}
    rest = iter(words[1:])
    for word in rest:
        if not word.plain.startswith("--"):
            count = options.pop("nproc_per_node", "") or str(wanted.devices or "N")
            given = [f"--{k}={v}" if v else f"--{k}" for k, v in options.items()]
            script = [word.text, *(other.text for other in rest)]
            return " ".join(["torchrun", f"--nproc_per_node={count}", *given, *script])
        name, _, value = word.plain.removeprefix("--").partition("=")
        if name in _FLAGS_OF_DEEPSPEED and not value:
            if _FLAGS_OF_DEEPSPEED[name]:
                options[_FLAGS_OF_DEEPSPEED[name]] = ""
        elif name in _OF_DEEPSPEED:
            value = value or getattr(next(rest, None), "text", "")
            if name == "num_nodes" and value != "1":
                return ""
            options[_OF_DEEPSPEED[name]] = value
        else:
            return ""
    return ""


_OF_GPUS = frozenset(
    f"--{name.replace('_', joint)}"
    for name in ("multi_gpu", "gpu_ids", "use_deepspeed", "use_fsdp", "use_megatron_lm")
    for joint in "_-"
)


def _accelerate(words: list[Word]) -> Iterator[Found]:
    for k, word in enumerate(words):
        name, _, value = word.plain.partition("=")
        if name in ("--mixed_precision", "--mixed-precision"):
            place = word if value else words[k + 1] if k + 1 < len(words) else word
            value = value or place.plain
            if value == "fp16":
                start = place.end - len("fp16") - (place.text != place.plain)
                edits = (Edit(start, start + 4, "bf16"),)
                message = "float16 needs a GradScaler, which reads from the device at every step"
                yield Found(GPU_LAUNCHER, start, start + 4, message, edits, WARNING)
        elif name in ("--num_processes", "--num-processes"):
            place = word if value else words[k + 1] if k + 1 < len(words) else word
            value = value or place.plain
            if value.isdigit() and int(value) > 1:
                message = "accelerate starts one process on XLA, whatever this says: start one per XLA device with torchrun"
                yield Found(GPU_LAUNCHER, word.start, place.end, message, effort="medium")
        elif name in _OF_GPUS:
            message = f"`{name}` is for GPUs: start one process per XLA device with torchrun"
            yield Found(GPU_LAUNCHER, word.start, word.end, message, effort="medium")


def _resources(words: Sequence[Word], name: str, wanted: Wanted) -> Iterator[Found]:
    for word in words:
        if re.search(r"\.(py|sh)$", word.plain) or word.plain in (
            "python",
            "python3",
            "torchrun",
            "bash",
        ):
            return  # from here on, what is started and its own options
        if re.match(r"--gpus(-per-\w+)?(=|$)|-G\d|--gres=gpu", word.plain):
            message = f"{name} is asked for GPUs: ask for your cluster's name of its XLA devices"
            yield Found(GPU_RESOURCE, word.start, word.end, message)
