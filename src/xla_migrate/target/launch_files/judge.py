"""From a launch file's bytes to the verdict on it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping

from ...files.launch_names import is_of_recipes
from ...results import Diagnostic, FileVerdict
from . import (
    conda,
    dockerfile,
    json_settings,
    manifests,
    pyproject,
    recipes,
    requirements,
    shell,
    training_settings,
)
from .codes import CODES
from .found import Edit, Found, Wanted, apply

Check = Callable[[str, Wanted], Iterator[Found]]

_IGNORE = re.compile(r"#\s*xla-migrate:\s*ignore(?:\[(?P<codes>[^\]]*)\])?", re.IGNORECASE)


def check_of(name: str, text: str) -> Check | None:
    """Return the check for a launch file of this name and content; None for other files."""
    if name == "pyproject.toml":
        return pyproject.check
    if name.endswith((".txt", ".in")):
        return requirements.check
    if name.endswith((".sh", ".bash", ".sbatch", ".slurm")):
        return shell.check
    if name.endswith(".json"):
        return json_settings.check
    if is_of_recipes(name):
        return recipes.check
    if not name.endswith((".yml", ".yaml")):
        return dockerfile.check
    if re.search(r"^dependencies:", text, re.MULTILINE) and re.search(
        r"^(channels|name|prefix):", text, re.MULTILINE
    ):
        return conda.check
    is_manifest = re.search(r"^apiVersion:", text, re.MULTILINE) and re.search(
        r"^kind:", text, re.MULTILINE
    )
    is_compose = re.search(r"compose", name) and re.search(r"^services:", text, re.MULTILINE)
    return manifests.check if is_manifest or is_compose else training_settings.check


def wanted_of(target: Mapping[str, object]) -> Wanted:
    """Return the part of a checked `[tool.xla-migrate.target]` that launch files need."""
    from ...compiler.machines import MACHINES
    from ...compiler.profile import FOR, of_table

    name = str(target.get(FOR, ""))
    given = of_table(target, name, "settings") if target else {}
    devices, image = given.get("devices"), given.get("image")
    return Wanted(
        MACHINES[name].kind if name else "",
        name,
        int(devices.value) if devices and name else 0,
        str(image.value) if image else "",
    )


def judge(
    data: bytes,
    path: str,
    target: Mapping[str, object],
    selects: Callable[[str], bool],
    unsafe: bool,
    rewriting: bool,
) -> FileVerdict:
    """The verdict on `data`, the content of the launch file at `path`.

    Args:
        data: its bytes; bytes that are not UTF-8 are kept unchanged.
        path: determines the kind.
        target: the table `target` of its settings, which names machine, number of devices and image.
        selects: True for codes that are wanted.
        unsafe: make unsafe fixes, too.
        rewriting: make the fixes.
    """
    text = data.decode("utf-8", "surrogateescape")
    check = check_of(os.path.basename(path), text)
    if check is None:
        return FileVerdict()
    wanted = wanted_of(target)._replace(folder=os.path.dirname(os.path.abspath(path)))
    found = _kept(check(text, wanted), text, selects)
    if not rewriting:
        return FileVerdict(_rows(found, text), settled=not any(_is_made(f, unsafe) for f in found))
    new, made = _rewritten(text, found, unsafe)
    if not made:
        return FileVerdict(_rows(found, text))
    left = _kept(check(new, wanted), new, selects)
    data = new.encode("utf-8", "surrogateescape")
    return FileVerdict(_rows(left, new), _rows(made, text), data)


def findings_without_fixes(
    text: str, name: str, selects: Callable[[str], bool]
) -> tuple[Diagnostic, ...]:
    """Return the findings in the text of a launch file that is part of another file, without fixes."""
    check = check_of(name, text)
    found = _kept(check(text, Wanted()), text, selects) if check is not None else []
    return _rows([one._replace(edits=()) for one in found], text)


def _is_made(found: Found, unsafe: bool) -> bool:
    return bool(found.edits) and (found.safety == "safe" or unsafe)


def _kept(found: Iterator[Found], text: str, selects: Callable[[str], bool]) -> list[Found]:
    """Those that are wanted, in their order, without those that a comment suppresses."""
    kept = {f for f in found if selects(f.code) and not _suppressed(f, text)}
    return sorted(kept, key=lambda f: (f.start, f.code, f.end))


def _suppressed(found: Found, text: str) -> bool:
    """True if a comment on the line says so, or one that has the line above to itself (Dockerfiles know no others)."""
    first = text.rfind("\n", 0, found.start) + 1
    last = text.find("\n", found.start)
    line = text[first : len(text) if last < 0 else last]
    above = text[text.rfind("\n", 0, max(first - 1, 0)) + 1 : first].strip() if first else ""
    for place in (line, above if above.startswith("#") else ""):
        comment = _IGNORE.search(place)
        if comment and (comment["codes"] is None or found.code in _codes(comment["codes"])):
            return True
    return False


def _codes(text: str) -> set[str]:
    return {code.strip().upper() for code in text.split(",")}


def _rewritten(text: str, found: list[Found], unsafe: bool) -> tuple[str, list[Found]]:
    """The text with the edits of the findings made, the first where two overlap, and which were."""
    made: list[Found] = []
    edits: list[Edit] = []
    for one in found:
        if _is_made(one, unsafe) and not any(
            new.start < old.end and old.start < new.end for new in one.edits for old in edits
        ):
            made.append(one)
            edits += one.edits
    return apply(text, edits), made


def _rows(found: list[Found], text: str) -> tuple[Diagnostic, ...]:
    lines = text.split("\n")

    def place(offset: int) -> tuple[int, int]:
        line = text.count("\n", 0, offset)
        return line + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1

    rows = []
    for one in found:
        (line, column), (end_line, end_column) = place(one.start), place(one.end)
        rows.append(
            Diagnostic(
                one.code,
                CODES[one.code].name,
                one.message,
                line,
                column,
                end_line,
                end_column,
                one.severity,
                one.effort,
                one.safety if one.edits else None,
                lines[line - 1].strip(),
            )
        )
    return tuple(rows)
