"""The cache: never a wrong answer, and none that costs a read."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from xla_migrate.files import cache as module
from xla_migrate.files.cache import Cache, content_hash, folder, tool_key, trusted
from xla_migrate.files.read import State
from xla_migrate.results import Diagnostic, FileVerdict

STATE = (1_000_000_001, 1_000_000_002, 10, 7)
VERDICT = FileVerdict(
    (Diagnostic("XLA101", "n", "é", 1, 2, 3, 4, "error", "low", "safe", "x", None),),
    notes=((3, None, "why"),),
    settled=False,
)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "cache")


def filled(place: str, key: tuple[object, ...] = ("k",)) -> Cache:
    cache = Cache(place, key)
    cache.put("/a.py", STATE, content_hash(b"a"), VERDICT)
    cache.put("/clean.py", STATE, b"", FileVerdict())
    cache.save()
    return cache


def test_what_was_put_is_found_again(place: str) -> None:
    assert filled(place).is_new
    cache = Cache(place, ("k",))
    assert not cache.is_new
    assert cache.by_state("/a.py", STATE, named=True) == VERDICT
    assert cache.by_content("/a.py", content_hash(b"a")) == VERDICT
    assert cache.by_state("/clean.py", STATE, named=False) == FileVerdict()


def test_another_state_content_path_or_key_is_not_found(place: str) -> None:
    filled(place)
    cache = Cache(place, ("k",))
    for k in range(4):
        other: State = tuple(v + (k == i) for i, v in enumerate(STATE))  # type: ignore[assignment]
        assert cache.by_state("/a.py", other, named=False) is None
    assert cache.by_content("/a.py", content_hash(b"b")) is None
    assert cache.by_content("/clean.py", content_hash(b"")) is None
    assert cache.by_state("/b.py", STATE, named=False) is None
    assert Cache(place, ("other",)).by_state("/a.py", STATE, named=False) is None


def test_a_named_file_is_looked_at_whole(place: str) -> None:
    filled(place)
    assert Cache(place, ("k",)).by_state("/clean.py", STATE, named=True) is None


def test_a_state_without_trust_is_no_state(place: str) -> None:
    cache = Cache(place, ("k",))
    cache.put("/a.py", None, content_hash(b"a"), VERDICT)
    cache.put("/clean.py", None, b"", FileVerdict())
    assert cache.by_state("/a.py", STATE, named=False) is None
    assert cache.by_content("/a.py", content_hash(b"a")) == VERDICT
    assert cache.by_state("/clean.py", STATE, named=False) is None


def test_a_file_that_changed_just_now_is_not_trusted() -> None:
    now = time.time_ns()
    old = now - 60_000_000_000
    assert trusted((old, old + 1, 1, 1)) is not None
    assert trusted((now, old, 1, 1)) is None
    assert trusted((old, now, 1, 1)) is None
    assert trusted((now + 10**12, old, 1, 1)) is None  # a clock that goes ahead
    second = now // 10**9 * 10**9
    assert trusted((second - 10**9, second - 10**9, 1, 1)) is None  # times in whole seconds
    assert trusted((second - 10**9 + 1, second - 10**9 + 1, 1, 1)) is not None


def cache_file(place: str) -> Path:
    return Path(place) / os.listdir(place)[0]


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "other", "folder"])
def test_a_damaged_cache_is_as_good_as_none(place: str, damage: str) -> None:
    filled(place)
    file = cache_file(place)
    data = bytearray(file.read_bytes())
    if damage == "cut":
        file.write_bytes(data[:-5])
    elif damage == "flip":
        data[-3] ^= 1
        file.write_bytes(data)
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "other":
        file.write_bytes(b"xla-migrate cache 9\n" + data[20:])
    else:
        file.unlink()
        file.mkdir()
    cache = Cache(place, ("k",))
    assert cache.is_new
    assert cache.by_state("/a.py", STATE, named=False) is None
    cache.put("/a.py", STATE, content_hash(b"a"), VERDICT)
    cache.save()  # does not raise
    if damage != "folder":
        assert Cache(place, ("k",)).by_state("/a.py", STATE, named=False) == VERDICT


def test_an_unchanged_cache_is_not_written(place: str) -> None:
    filled(place)
    file = cache_file(place)
    os.utime(file, ns=(1, 1))
    cache = Cache(place, ("k",))
    cache.put("/a.py", STATE, content_hash(b"a"), VERDICT)
    cache.save()
    assert file.stat().st_mtime_ns == 1


def test_a_place_that_cannot_be_written_hurts_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = Cache(str(tmp_path / "file" / "cache"), ("k",))
    cache.put("/a.py", STATE, content_hash(b"a"), VERDICT)
    cache.save()


def test_old_caches_go_and_nothing_else(place: str) -> None:
    filled(place, ("old",))
    old = cache_file(place)
    os.utime(old, (1, 1))
    (Path(place) / "notes.txt").write_text("mine")
    os.utime(Path(place) / "notes.txt", (1, 1))
    filled(place, ("new",))
    assert not old.exists()
    assert sorted(len(name) for name in os.listdir(place)) == [9, 32]


def test_files_long_gone_are_forgotten(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(place, ("k",))
    for k in range(10_050):
        cache.put(f"/{k}.py", STATE, b"", FileVerdict())
    cache.save()
    again = Cache(place, ("k",))
    again.put("/new.py", STATE, b"", FileVerdict())
    again.save()
    last = Cache(place, ("k",))
    assert last.by_state("/new.py", STATE, named=False) is not None
    assert last.by_state("/1.py", STATE, named=False) is None


def test_the_folder_is_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XLA_MIGRATE_CACHE_DIR", raising=False)
    monkeypatch.setattr(module.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert folder() == "/x/xla-migrate"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert folder() == os.path.expanduser("~/.cache/xla-migrate")
    monkeypatch.setenv("XLA_MIGRATE_CACHE_DIR", "/y")
    assert folder() == "/y"


def test_the_key_names_the_rules_sources() -> None:
    names = {os.path.basename(path) for path, _, _ in tool_key()[3]}  # type: ignore[misc, attr-defined]
    assert {"cuda_method.py", "engine.py", "judge.py", "notebook.py"} <= names
