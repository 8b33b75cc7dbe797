"""Launchers that count GPUs or drive them, and their options: for shells, containers, manifests and Python alike."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...finding import ERROR, HIGH, LOW, MEDIUM, WARNING

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


class Said(NamedTuple):
    """The message about the text between two offsets, and the replacement (None: the user decides)."""

    start: int
    end: int
    message: str
    instead: str | None = None
    severity: str = ERROR
    effort: str = LOW


def sets(word: Word) -> bool:
    """True if the word gives a variable a value: `NAME=VALUE`."""
    return _ASSIGNMENT.match(word.text) is not None


# Programs that start the one behind them, and its options.
_OPEN = ("export", "env", "sudo", "exec", "srun", "nohup", "nice", "setsid")


def behind_opening(words: Sequence[Word]) -> Sequence[Word]:
    """The words from the program on: behind variables that are set for it, and programs like `env` and `srun`."""
    at = 0
    while at < len(words) and (words[at].plain in _OPEN or sets(words[at])):
        at += 1
        while at < len(words) and words[at].text.startswith("-"):
            at += 1
    return words[at:]


def program(words: Sequence[Word]) -> tuple[str, Sequence[Word]]:
    """The name of what a command starts, and the words from there on; of `python -m NAME` that of the module."""
    name = words[0].plain.rpartition("/")[2]
    if name in ("python", "python3") and len(words) > 2 and words[1].plain == "-m":
        return words[2].plain, words[2:]
    return name, words


def in_launcher(name: str, words: Sequence[Word], devices: int = 0) -> Iterator[Said]:
    """Yield the messages about the command `words`, which starts the program `name`.

    Args:
        name: as `program` tells it.
        words: from the program on.
        devices: how many XLA devices a host has, 0 if unknown.
    """
    if name in ("torchrun", "torch.distributed.run", "torch.distributed.launch"):
        yield from _torchrun(words, devices)
    elif name in ("accelerate", "accelerate.commands.launch"):
        yield from _accelerate(words)
    elif name in ("deepspeed", "horovodrun"):
        instead = _as_torchrun(words, devices) if name == "deepspeed" else ""
        how = f"`{instead}`, which sets only LOCAL_RANK" if instead else "torchrun"
        message = f"{name} drives GPUs over NCCL: start one process per device with {how}"
        yield Said(words[0].start, words[0].end, message, effort=HIGH)


def _torchrun(words: Sequence[Word], devices: int) -> Iterator[Said]:
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
        number = str(devices) if devices else None
        if value in ("gpu", "auto"):
            message = f"`--nproc_per_node={value}` counts GPUs: pass the number of XLA devices"
            yield Said(start, end, message, number)
        elif value.isdigit() and number and value != number:
            message = f"{value} processes for {number} devices: torchrun starts one for each"
            yield Said(start, end, message, number, WARNING)
        elif "nvidia-smi" not in value and "device_count" in value:
            message = "counts CUDA devices, which an XLA host does not have: pass the number of XLA devices"
            yield Said(start, end, message, number)
        elif found := re.search(r"SLURM_\w*GPUS?\w*", value):
            message = (
                f"SLURM sets {found[0]} only on nodes with GPUs: pass the number of XLA devices"
            )
            yield Said(start, end, message, number)


# Options of DeepSpeed's launcher, and of torchrun; "" for options that torchrun does not need.
_OF_DEEPSPEED = {
    "num_gpus": "nproc_per_node",
    "num_accelerators": "nproc_per_node",
    "master_port": "master_port",
    "master_addr": "master_addr",
    "num_nodes": "nnodes",
}
_FLAGS_OF_DEEPSPEED = {"no_local_rank": "", "no_python": "no_python", "module": "module"}


def _as_torchrun(words: Sequence[Word], devices: int) -> str:
    """Return the torchrun command for one host; empty for several hosts, or options that torchrun lacks."""
    options: dict[str, str] = {}
    rest = iter(words[1:])
    for word in rest:
        if not word.plain.startswith("--"):
            count = options.pop("nproc_per_node", "") or str(devices or "N")
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


# Under torchrun, torch_xla gives each process its TPU chip in `init_process_group`, which accelerate does not call on XLA.
ONE_PER_DEVICE = (
    "start one process per XLA device with torchrun, or on a TPU with `accelerate launch --tpu`"
)


def _accelerate(words: Sequence[Word]) -> Iterator[Said]:
    for k, word in enumerate(words):
        name, _, value = word.plain.partition("=")
        if name in ("--mixed_precision", "--mixed-precision"):
            place = word if value else words[k + 1] if k + 1 < len(words) else word
            value = value or place.plain
            if value == "fp16":
                start = place.end - len("fp16") - (place.text != place.plain)
                message = "float16 needs a GradScaler, which reads from the device at every step: use bf16"
                yield Said(start, start + 4, message, "bf16", WARNING)
        elif name in ("--num_processes", "--num-processes"):
            place = word if value else words[k + 1] if k + 1 < len(words) else word
            value = value or place.plain
            if value.isdigit() and int(value) > 1:
                message = f"accelerate starts one process on XLA, whatever `--num_processes` says: {ONE_PER_DEVICE}"
                yield Said(word.start, place.end, message, effort=MEDIUM)
        elif name in _OF_GPUS:
            message = f"`{name}` is for GPUs: {ONE_PER_DEVICE}"
            yield Said(word.start, word.end, message, effort=MEDIUM)


_SPACE = " \t"
_ENDS = ";&|()\n"
# Words that a command can follow, as at the beginning of a line.
_KEYWORDS = frozenset("if then elif else while until do ! { } time".split())
_HEREDOC = re.compile(r"<<(?P<dash>-?)[ \t]*(?P<quote>['\"\\]?)(?P<end>[A-Za-z_][\w.]*)(?P=quote)?")


class Word(NamedTuple):
    """One word: its text as it is written, without outer quotes in `plain`, and where it stands."""

    text: str
    start: int
    end: int

    @property
    def plain(self) -> str:
        """The text without quotes around it, or around the value behind `=`."""
        text = self.text
        if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0]:
            return text[1:-1]
        return text


class Command(NamedTuple):
    """One simple command; `alone` if nothing else stands on its lines."""

    words: tuple[Word, ...]
    alone: bool

    @property
    def start(self) -> int:
        """Where it begins."""
        return self.words[0].start

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.words[-1].end


def commands(text: str, start: int = 0, end: int | None = None) -> Iterator[Command]:
    """The simple commands of `text` between two offsets, in order."""
    return _Reader(text, start, len(text) if end is None else end).commands()


def of_words(words: list[Word], text: str) -> Iterator[Command]:
    """The commands of a list of words, as JSON and YAML hold them; `sh -c` is given a script, which is read in turn.

    Args:
        words: each as it stands in `text`, without the quotes around it.
        text: the whole file.
    """
    shell = bool(words) and words[0].plain.rpartition("/")[2] in ("sh", "bash")
    options = [word.plain for word in words[1:-1]]
    if shell and options and re.fullmatch(r"-\w*c", options[-1]) and "\\" not in words[-1].text:
        yield from commands(text, words[-1].start, words[-1].end)
    elif words:
        yield Command(tuple(words), False)


class _Reader:
    def __init__(self, text: str, start: int, end: int) -> None:
        self.text, self.at, self.start, self.end = text, start, start, end
        self.waiting: list[tuple[str, bool]] = []  # here-documents that begin on the next line

    def commands(self) -> Iterator[Command]:
        words: list[Word] = []
        first_of_line = True
        while self.at < self.end:
            char = self.text[self.at]
            if char in _SPACE or self._continues():
                self.at += 2 if char == "\\" and self.text[self.at + 1] == "\n" else 1
                self.at += char == "\\" and self.text[self.at - 1] == "\r"
            elif char == "\r":
                self.at += 1
            elif char == "#":
                self.at = self._line_end()
            elif char == "<" and (here := _HEREDOC.match(self.text, self.at, self.end)):
                self.waiting.append((here["end"], bool(here["dash"])))
                self.at = here.end()
            elif char in _ENDS:
                yield from self._done(words, first_of_line and char == "\n")
                words = []
                first_of_line = char == "\n"
                self.at += 1
                if char == "\n":
                    self._skip_documents()
            else:
                word = self._word()
                if not words and word.text in _KEYWORDS:
                    first_of_line = False
                    continue
                words.append(word)
        yield from self._done(words, first_of_line)

    def _done(self, words: list[Word], alone: bool) -> Iterator[Command]:
        if words:
            yield Command(tuple(words), alone)

    def _continues(self) -> bool:
        return self.text.startswith(("\\\n", "\\\r\n"), self.at)

    def _line_end(self) -> int:
        end = self.text.find("\n", self.at, self.end)
        return self.end if end < 0 else end

    def _skip_documents(self) -> None:
        for name, dash in self.waiting:
            while self.at < self.end:
                stop = self._line_end()
                line = self.text[self.at : stop].rstrip("\r")
                self.at = min(stop + 1, self.end)
                if (line.lstrip("\t") if dash else line) == name:
                    break
        self.waiting.clear()

    def _word(self) -> Word:
        start = self.at
        while self.at < self.end:
            char = self.text[self.at]
            if char in _SPACE or char in _ENDS or char == "\r" or self._continues():
                break
            if char == "\\":
                self.at += 2
            elif char in "'\"`":
                self._quoted(char)
            elif self.text.startswith(("$(", "<(", ">("), self.at):
                self.at += 1
                self._nested()
            elif char in "<>" and self.at + 1 < self.end and self.text[self.at + 1] in "&>|<":
                self.at += 2
            else:
                self.at += 1
        self.at = min(self.at, self.end)
        return Word(self.text[start : self.at], start, self.at)

    def _quoted(self, quote: str) -> None:
        self.at += 1
        while self.at < self.end and self.text[self.at] != quote:
            if self.text[self.at] == "\\" and quote != "'":
                self.at += 1
            elif quote == '"' and self.text.startswith("$(", self.at):
                self.at += 1
                self._nested()
                continue
            self.at += 1
        self.at += 1

    def _nested(self) -> None:
        """From an opening parenthesis behind the one that closes it."""
        depth = 0
        while self.at < self.end:
            char = self.text[self.at]
            if char in "'\"":
                self._quoted(char)
                continue
            depth += (char == "(") - (char == ")")
            self.at += 2 if char == "\\" else 1
            if depth == 0:
                return
