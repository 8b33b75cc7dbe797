"""The training scripts of fixtures/train: how they are run, and what the tool makes of them."""

from __future__ import annotations

import importlib.util
import sys
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, migrate

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
TRAIN = ROOT / "fixtures" / "train"
STAND_INS = {"apex"}  # the reference brings its own
PLAIN = Options()


@dataclass(frozen=True)
class Fixture:
    """One folder of fixtures/train.

    Attributes:
        name: the folder's.
        processes: how many train together.
        steps: optimizer steps of a test run.
        modes: arguments per kind of run: "float32", and "bf16" and "dropout" where it has them.
        needs: packages besides torch.
        slow: the finding that says that the script stays slow on XLA, or "".
        small: texts, each with another in its place, that make the model smaller.
    """

    name: str
    processes: int
    steps: int
    modes: tuple[tuple[str, tuple[str, ...]], ...]
    needs: tuple[str, ...]
    slow: str
    small: tuple[tuple[str, str], ...]

    @property
    def folder(self) -> Path:
        return TRAIN / self.name

    @property
    def script(self) -> Path:
        return self.folder / "train.py"

    @property
    def hand(self) -> Path:
        return self.folder / "hand_xla.py"

    def args(self, mode: str, out: Path) -> list[str]:
        """The arguments of a run that writes into `out`."""
        return [word.replace("{out}", str(out)) for word in dict(self.modes)[mode]]

    def imports(self) -> list[str]:
        """Packages that it imports besides torch, but for those that have a stand-in."""
        return [name for name in self.needs if name not in STAND_INS]

    def missing(self) -> list[str]:
        """Packages that it needs and that are not installed."""
        return [name for name in self.imports() if importlib.util.find_spec(name) is None]


def _read(folder: Path) -> Fixture:
    told = tomllib.loads((folder / "fixture.toml").read_text(encoding="utf-8"))
    units = str(told["units"])
    common = [word.replace("{units}", units) for word in told["args"]]
    modes = tuple((k, tuple(common + told[k])) for k in ("float32", "bf16", "dropout") if k in told)
    steps = told["units"] * told["steps_per_unit"]
    needs = tuple(told.get("needs", ()))
    small = tuple((old, new) for old, new in told.get("small", ()))
    processes, slow = told.get("processes", 1), told.get("slow", "")
    return Fixture(folder.name, processes, steps, modes, needs, slow, small)


ALL = [_read(path.parent) for path in sorted(TRAIN.glob("*/fixture.toml"))]
SINGLE = [fixture for fixture in ALL if fixture.processes == 1]


def sources(fixture: Fixture, *, small: bool = False) -> dict[str, bytes]:
    """Return its scripts and modules by file name; if `small`, with a model that compiles faster."""
    found = {path.name: path.read_bytes() for path in sorted(fixture.folder.glob("*.py"))}
    for old, new in fixture.small if small else ():
        assert any(old.encode() in data for data in found.values()), f"{fixture.name}: no {old!r}"
        found = {name: data.replace(old.encode(), new.encode()) for name, data in found.items()}
    return found


def migrated(
    fixture: Fixture, options: Options = PLAIN, *, small: bool = False
) -> dict[str, str | bytes]:
    """Return its modules after migration by file name; if `small`, those of a smaller model."""
    with _MIGRATING:
        return _migrated(fixture, options, small)


def rewritten(fixture: Fixture, *, small: bool = False) -> bytes:
    """Return the script that is written for torch_xla by hand, rewritten to the runtime."""
    data = sources(fixture, small=small)[fixture.hand.name]
    with _MIGRATING:
        return migrate(data, Options(origin="torch_xla"), str(fixture.hand)).data


# Tests ask in threads, and CPython 3.11's `ast.parse` fails now and then in two at a time.
_MIGRATING = threading.Lock()


@cache
def _migrated(fixture: Fixture, options: Options, small: bool) -> dict[str, str | bytes]:
    files = sources(fixture, small=small)
    del files[fixture.hand.name]
    modules = Modules(files)
    return {
        name: migrate(data, options, str(fixture.folder / name), Project(modules, name)).data
        for name, data in files.items()
    }
