"""One simple command of a shell, judged: what it sets, installs, and starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from xla_codemods.analysis.commands.launchers import (
    Command,
    Word,
    behind_opening,
    in_launcher,
    program,
    sets,
)
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
from .training_options import in_options

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


def in_command(
    command: Command, text: str, wanted: Wanted, given: Sequence[Word] = ()
) -> Iterator[Found]:
    """Findings in one command of `text`; `given` has its words with those of the arrays that it reads."""
    words = list(behind_opening(command.words))
    opening = command.words[: len(command.words) - len(words)]
    for k, word in enumerate(opening):
        if sets(word):
            yield from in_assignment(word, wanted)
        elif word.plain == "srun":
            yield from _resources(command.words[k + 1 :], "srun", wanted)
    if words:
        yield from _started(words, command, text, wanted)
        yield from in_options(given or words, wanted.folder, text)
    for word in command.words:
        for name in _PROGRAMS:
            if re.search(rf"[$`][(]?\s*(shell\s+)?{name}\b", word.text):
                message = f"{name} does not exist on an XLA host, so its output is empty"
                if name == "nvidia-smi":
                    message += ": write the number of XLA devices instead of counting GPUs"
                yield Found(NVIDIA_PROGRAM, word.start, word.end, message)


def is_named(name: str) -> bool:
    """True if a variable of this name is read by CUDA, NCCL, NVIDIA's container runtime, or torch for CUDA; or by torch_xla
    alone.
    """
    return _CUDA.match(name) is not None or name in VARIABLES


def in_assignment(word: Word, wanted: Wanted) -> Iterator[Found]:
    """Yield the finding in `NAME=VALUE` if the name is CUDA's or NCCL's."""
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
    """Yield the finding in a variable whose name begins at `start`."""
    if message := unread(name, value):
        yield Found(CUDA_VARIABLE, start, end, message, severity=WARNING)
    elif _CUDA.match(name):
        yield _of_cuda(name, value, start, end, wanted)


def _of_cuda(name: str, value: str, start: int, end: int, wanted: Wanted) -> Found:
    message = f"`{name}` has no effect on XLA"
    if name == "CUDA_VISIBLE_DEVICES" and value not in ("", "-1"):
        if wanted.kind == "neuron" and _cores(value):
            edits = (Edit(start, start + len(name), "NEURON_RT_VISIBLE_CORES"),)
            message += ": set `NEURON_RT_VISIBLE_CORES`"
            return Found(CUDA_VARIABLE, start, end, message, edits, WARNING)
        message += ": to choose devices, set `NEURON_RT_VISIBLE_CORES` or `TPU_VISIBLE_CHIPS`"
    return Found(CUDA_VARIABLE, start, end, message, severity=INFO)


def _cores(value: str) -> bool:
    """True if these devices follow one another: Neuron's collectives are documented for such only."""
    if not re.fullmatch(r"\d+(,\d+)*", value):
        return False
    numbers = [int(part) for part in value.split(",")]
    return numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def _started(words: list[Word], command: Command, text: str, wanted: Wanted) -> Iterator[Found]:
    name, rest = program(words)
    words = list(rest)
    said = [word.plain for word in words]
    for one in in_launcher(name, words, wanted.devices):
        edits = (Edit(one.start, one.end, one.instead),) if one.instead is not None else ()
        yield Found(GPU_LAUNCHER, one.start, one.end, one.message, edits, one.severity, one.effort)
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
    elif name in ("sbatch", "salloc"):
        yield from _resources(words[1:], name, wanted)
    elif name in _PROGRAMS:
        yield _program(name, words, command, wanted)
    elif name == "module" and "load" in said:
        for word in words:
            if re.match(r"(cuda|cudnn|nccl|nvhpc)\b", word.plain, re.IGNORECASE):
                message = f"the module {word.plain} does not exist on a cluster of XLA hosts"
                yield Found(NVIDIA_PROGRAM, word.start, word.end, message, severity=WARNING)


def _program(name: str, words: list[Word], command: Command, wanted: Wanted) -> Found:
    message = f"{name} does not exist on an XLA host"
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
            message = f"the arguments of {name} request GPUs: request XLA devices by your cluster's name for them"
            yield Found(GPU_RESOURCE, word.start, word.end, message)
