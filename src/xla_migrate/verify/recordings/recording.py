"""A recording: runs of the original, recorded on one machine and checked on another, in one file.

The file is a zip archive. `recording.json` holds the format's version, the environment, the command and
the settings. Each process of each run is a member `<precision>/rank<r>.<pid>.jsonl`, in the format of
`judge.record_format`; long lists of numbers are packed as float32. With `--with-weights`, members `replay/*.pt` hold the
initial weights and the first batches, as torch saves them.
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..judge import trace
from ..judge.observed import ObservedRun
from ..observe.process.packing import pack, unpack

FORMAT = "xla-migrate recording"
VERSION = 3
_READABLE = (1, 2, 3)  # 2: `replay`, `scale` of steps; 3: operations
CUDA = "CUDA"
STAND_IN = "CPU stand-in"
_MOST_OUTPUT = 200_000  # characters of what a run printed, that are kept
_PACKED = "f32:"
_REPLAY = "replay/"
_LONG = 4  # numbers; longer lists are packed
_LISTS = {"values": ("gradients", "weights", "moved"), "initial": ("weights",)}


class RecordingError(Exception):
    """The file is no recording that this version can read; the message is one line."""


@dataclass(frozen=True)
class RecordingFacts:
    """A recording: its data, and where and how it was made.

    Attributes:
        kind: "CUDA", or "CPU stand-in" for CUDA calls that were sent to the CPU.
        script, args: as the user gave them.
        command: the words after `xla-migrate`.
        recorded: the time, in UTC.
        environment: versions, the device, the platform.
        steps, seed, dropout, nproc: of the runs.
        sources: SHA-256 of each file of the project that the runs imported, by path.
        shim: SHA-256 of the stand-in for data, or "".
        precisions: of the runs, in the order of recording: "float32", "as written", "bfloat16".
        replay: how many steps can be replayed: the file holds the batches of all of them; 0 if it holds none.
        models: of how many models it holds the initial weights.
    """

    kind: str
    script: str
    args: tuple[str, ...]
    command: tuple[str, ...]
    recorded: str
    environment: Mapping[str, str]
    steps: int
    seed: int
    dropout: str
    nproc: int
    sources: Mapping[str, str] = field(default_factory=dict)
    shim: str = ""
    precisions: tuple[str, ...] = ("float32",)
    replay: int = 0
    models: int = 0

    def __str__(self) -> str:
        known = self.environment
        device = known.get("device") or self.kind
        kind = "" if device == self.kind else f"{self.kind}, "
        return f"{kind}{device}, torch {known.get('torch', '?')}, recorded {self.recorded}"


@dataclass(frozen=True)
class Recording:
    """A recording read from its file: its description, its runs by precision, and the file."""

    about: RecordingFacts
    runs: Mapping[str, ObservedRun]
    file: Path = Path()


def save(
    path: Path,
    about: RecordingFacts,
    runs: Mapping[str, tuple[ObservedRun, Path]],
    replay: Path | None = None,
) -> None:
    """Write a recording.

    Args:
        path: the file. A link stays a link.
        about: what was recorded.
        runs: by precision, each with the folder of its processes' records.
        replay: a folder with initial weights and batches.
    """
    described = {
        name: {"output": run.output[-_MOST_OUTPUT:], "logs": run.logs, "seconds": run.seconds}
        for name, (run, _) in runs.items()
    }
    head = {"format": FORMAT, "version": VERSION, "about": asdict(about), "runs": described}
    real = Path(os.path.realpath(path))
    new = real.with_name(f"{real.name}.new")
    with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr("recording.json", json.dumps(head, indent=1))
        for name, (run, records) in runs.items():
            trained = {(t.rank, t.process) for t in run.traces}
            for file in sorted(records.glob("rank*.jsonl")):
                if trace.process_of(file.name) in trained:
                    text = file.read_text(encoding="utf-8")
                    archive.writestr(f"{name}/{file.name}", "\n".join(_packed(text)))
        for file in sorted(replay.glob("*.pt")) if replay is not None else ():
            archive.write(file, f"{_REPLAY}{file.name}", zipfile.ZIP_STORED)
    new.replace(real)


def load(path: Path) -> Recording:
    """Read a recording.

    Raises:
        RecordingError: the file is missing, no recording, or of a later version.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            head = json.loads(archive.read("recording.json"))
            if head.get("format") != FORMAT:
                raise RecordingError(f"{path}: not a recording of `xla-migrate verify --record`")
            if head["version"] not in _READABLE:
                raise RecordingError(
                    f"{path}: format {head['version']}; this xla-migrate reads up to format {VERSION}:"
                    " record again, or use the version that recorded it"
                )
            about = _about(head["about"])
            runs = {name: _run(archive, name, about, head) for name in head["runs"]}
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from None
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError) as error:
        detail = f"{type(error).__name__}: {error}"
        raise RecordingError(f"{path}: not a recording, or a damaged one ({detail})") from None
    return Recording(about, runs, path)


def unpack_replay(path: Path, folder: Path) -> None:
    """Write the initial weights and batches of a recording to a new folder."""
    folder.mkdir(parents=True)
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.filename.startswith(_REPLAY) and not member.is_dir():
                place = folder / Path(member.filename).name
                with archive.open(member) as source, place.open("wb") as target:
                    shutil.copyfileobj(source, target)


def _about(plain: dict[str, Any]) -> RecordingFacts:
    for key in ("args", "command", "precisions"):
        plain[key] = tuple(plain[key])
    return RecordingFacts(**plain)


def _run(
    archive: zipfile.ZipFile, name: str, about: RecordingFacts, head: Mapping[str, Any]
) -> ObservedRun:
    described = head["runs"][name]
    out = ObservedRun(
        "reference",
        Path(about.script),
        list(about.args),
        name,  # type: ignore[arg-type]
        Path(),
        output=described["output"],
        logs=described["logs"],
        seconds=described["seconds"],
    )
    for member in archive.namelist():
        if member.startswith(f"{name}/"):
            lines = _unpacked(archive.read(member).decode("utf-8"))
            out.traces.append(trace.of_records(lines, *trace.process_of(Path(member).name)))
    out.traces.sort(key=lambda t: (not t.steps, t.rank))
    return out


def _packed(text: str) -> Iterator[str]:
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except ValueError:  # cut short
            continue
        for key in _LISTS.get(record["kind"], ()):
            values = record.get(key)
            if values is not None and len(values) > _LONG:
                record[key] = _PACKED + pack(map(float, values))
        yield json.dumps(record, separators=(",", ":"))


def _unpacked(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        record = json.loads(line)
        for key in _LISTS.get(record["kind"], ()):
            value = record.get(key)
            if isinstance(value, str):
                record[key] = unpack(value.removeprefix(_PACKED))
        yield record
