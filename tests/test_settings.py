"""[tool.xla-migrate] in pyproject.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_migrate.settings import DEFAULT_EXCLUDES, KEYS, Finder, Settings, SettingsError, load


def read(folder: Path, text: str) -> Settings:
    (folder / "pyproject.toml").write_text(text)
    found = load(str(folder))
    assert found is not None
    return found


def test_everything_at_once(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """
        [tool.xla-migrate]
        select = ["XLA1", "XLA402"]
        ignore = ["XLA101"]
        unsafe = true
        target = "xla"
        baseline = "known.json"
        extend-exclude = ["old/"]
        [tool.xla-migrate.per-file-ignores]
        "tests/" = ["XLA1"]
        "*.ipynb" = ["XLA4", "XLA5"]
        [tool.xla-migrate.devices]
        "mylib.get_device" = "xla_device"
        """,
    )
    assert (found.select, found.ignore, found.unsafe) == (("XLA1", "XLA402"), ("XLA101",), True)
    assert found.baseline == "known.json"
    assert found.root == str(tmp_path)
    assert found.ignored_in(f"{tmp_path}/a.py") == ("XLA101",)
    assert found.ignored_in(f"{tmp_path}/tests/sub/a.py") == ("XLA101", "XLA1")
    assert found.ignored_in(f"{tmp_path}/tests/a.ipynb") == ("XLA101", "XLA1", "XLA4", "XLA5")
    assert found.excludes(f"{tmp_path}/old", True)
    assert found.excludes(f"{tmp_path}/venv", True)
    assert found.excludes_named(f"{tmp_path}/old/x/a.py")
    assert [own.dotted for own in found.own] == ["mylib.get_device"]


def test_defaults() -> None:
    found = Settings()
    assert (found.select, found.ignore, found.unsafe, found.baseline) == ((), (), False, "")
    for name in ("__pycache__", ".git", "x.egg-info", "site-packages"):
        assert found.excludes(f"/any/where/{name}", True), name
    assert not found.excludes("/any/where/src", True)
    assert sorted(DEFAULT_EXCLUDES) == sorted(set(DEFAULT_EXCLUDES))


@pytest.mark.parametrize(
    "text", ["", "[tool.ruff]\n", "# xla-migrate is not set up here\n", "[tool]\nx = 1\n"]
)
def test_a_file_without_our_table_has_no_settings(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    assert load(str(tmp_path)) is None
    assert load(str(tmp_path / "nowhere")) is None


def test_an_empty_table_counts(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.xla-migrate]\nselect = ["XLA1"]\n')
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "pyproject.toml").write_text("[tool.xla-migrate]\n")
    assert Finder().of(str(inner)).select == ()
    assert Finder().of(str(tmp_path)).select == ("XLA1",)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("selct = []", "selct: no such setting; did you mean `select`?"),
        ("extend_exclude = []", "extend_exclude: no such setting; did you mean `extend-exclude`?"),
        ("zzz = 1", "zzz: no such setting; known: "),
        ('select = "XLA1"', "select: must be a list of strings, not 'XLA1'"),
        ("select = [1]", "select: must be a list of strings, not [1]"),
        ('select = ["E501"]', 'select: "E501" is neither a code'),
        ('ignore = ["XLA1011"]', 'ignore: "XLA1011" is neither a code'),
        ('unsafe = "yes"', "unsafe: must be true or false, not 'yes'"),
        ("unsafe = 1", "unsafe: must be true or false, not 1"),
        ("baseline = true", "baseline: must be a string, not true"),
        ('baseline = ""', "baseline: must be a string, not ''"),
        ('target = "tpu"', 'target: "tpu" is not a target; known: `xla`'),
        ("exclude = 3", "exclude: must be a list of strings, not 3"),
        ("per-file-ignores = []", "per-file-ignores: must be a table of patterns, not []"),
        (
            'per-file-ignores = {"a.py" = "XLA1"}',
            'per-file-ignores."a.py": must be a list of strings',
        ),
        ('per-file-ignores = {"a.py" = ["x"]}', 'per-file-ignores."a.py": "x" is neither a code'),
        ("devices = []", "devices: must be a table of names"),
        ('devices = {"f" = "xla_device"}', 'devices."f": must be a dotted name'),
        ('devices = {"a b.f" = "xla_device"}', 'devices."a b.f": must be a dotted name'),
        ('devices = {"m.f" = 3}', 'devices."m.f": must be a name or a text with braces, or true'),
        (
            'functions = {"m.f" = true}',
            'functions."m.f": must be a name or a text with braces, not True',
        ),
        ('functions = {"m.f" = "x + 1"}', "functions.\"m.f\": 'x + 1' is neither a name nor"),
        (
            'functions = {"m.f" = "{0}.to("}',
            "functions.\"m.f\": '{0}.to(' is not a Python expression",
        ),
        (
            'functions = {"m.f" = "g({0}, {0})"}',
            'functions."m.f": an argument can occur once',
        ),
        ('functions = {"m.f" = {}}', 'functions."m.f": `to` is missing'),
        ('functions = {"m.f" = {to = "x", too = 1}}', 'functions."m.f".too: no such key'),
        (
            'functions = {"m.f" = {to = "x", safety = "ok"}}',
            'functions."m.f".safety: must be "safe"',
        ),
        (
            'functions = {"m.f" = {to = "x", message = 1}}',
            'functions."m.f".message: must be a string',
        ),
        (
            'functions = {"m.f" = {to = "x", examples = 1}}',
            'functions."m.f".examples: must be a list',
        ),
        (
            'functions = {"m.f" = {to = "x", examples = [{before = ""}]}}',
            "must have `before` and `after`",
        ),
        (
            'functions = {"m.f" = {to = "x", examples = [{before = "", after = 1}]}}',
            "must be strings",
        ),
    ],
)
def test_what_is_wrong_is_told_in_one_line(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(SettingsError) as error:
        read(tmp_path, f"[tool.xla-migrate]\n{line}\n")
    told = str(error.value)
    assert told.startswith(f"{tmp_path}/pyproject.toml: tool.xla-migrate.")
    assert message in told
    assert "\n" not in told


@pytest.mark.parametrize("data", [b"[tool.xla-migrate\n", b"[tool.xla-migrate]\nx = '\xff'\n"])
def test_what_is_no_toml_is_told(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "pyproject.toml").write_bytes(data)
    with pytest.raises(SettingsError, match=r"pyproject\.toml: "):
        load(str(tmp_path))


def test_the_table_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"tool\.xla-migrate must be a table"):
        read(tmp_path, "[tool]\nxla-migrate = 3\n")


def test_a_settings_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").mkdir()
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        load(str(tmp_path))


def test_what_findings_depend_on_is_in_the_key(tmp_path: Path) -> None:
    keys = {read(tmp_path, "[tool.xla-migrate]\n").key}
    for line in (
        'select = ["XLA1"]',
        'ignore = ["XLA1"]',
        "unsafe = true",
        'per-file-ignores = {"a.py" = ["XLA1"]}',
        'devices = {"m.f" = "xla_device"}',
        'devices = {"m.f" = true}',
    ):
        keys.add(read(tmp_path, f"[tool.xla-migrate]\n{line}\n").key)
    assert len(keys) == 7


def test_every_key_is_known_once() -> None:
    assert len(set(KEYS)) == len(KEYS)


def test_what_scripts_are_rewritten_from(tmp_path: Path) -> None:
    assert Settings().origin == "cuda"
    found = read(tmp_path, '[tool.xla-migrate]\nfrom = "torch_xla"\n')
    assert found.origin == "torch_xla"
    assert found.key != Settings(str(tmp_path)).key
    with pytest.raises(
        SettingsError, match=r'tool\.xla-migrate\.from: "jax" is not one of the choices'
    ):
        read(tmp_path, '[tool.xla-migrate]\nfrom = "jax"\n')
