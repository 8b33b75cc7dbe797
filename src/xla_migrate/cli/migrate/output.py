"""`--output PATH`: where the result of each file goes, and what else a program in a folder needs."""

from __future__ import annotations

import os
import sys

from ...files.find import ENDINGS, FoundFile, Walk, shown
from ..usage import fail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...settings import Finder

# Small files such as configuration are copied. Larger files are data or checkpoints: reported only.
_MOST = 4 << 20  # bytes of one file
_MOST_IN_ALL = 256 << 20


def destinations(output: str, paths: Sequence[str], files: Sequence[FoundFile]) -> dict[str, str]:
    """The path that each file's result is written to.

    One file goes to the path itself, unless that is a folder (or ends like one); several files go into the folder,
    each at its path relative to the folder given on the command line.

    Raises:
        SystemExit: two files would go to the same place, or one over an original.
    """
    is_folder = output.endswith(os.sep) or os.path.isdir(output) or len(paths) > 1
    is_folder = is_folder or any(os.path.isdir(path) for path in paths)
    if is_folder and os.path.exists(output) and not os.path.isdir(output):
        fail(f"--output {output} is a file, but there is more than one result: name a folder")
    if is_folder and output.endswith(ENDINGS) and not os.path.isdir(output):
        fail(
            f"--output {output} looks like a file name, but there is more than one result: name a folder"
        )
    originals = {os.path.realpath(found.path) for found in files}
    goes: dict[str, str] = {}
    taken: dict[str, FoundFile] = {}
    for found in files:
        place = os.path.abspath(output)
        if is_folder:
            place = os.path.join(place, os.path.relpath(found.path, found.base))
        if os.path.realpath(place) in originals:
            fail(f"--output {output}: the result of {found.shown} would overwrite an original")
        if place in taken:
            fail(
                f"--output {output}: the results of {taken[place].shown} and {found.shown} would be the same file"
            )
        taken[place] = found
        goes[found.path] = place
    return goes


def copy_others(output: str, paths: Sequence[str], finder: Finder) -> list[str]:
    """Copy the files beside the code of the folders among `paths` into the folder `output`.

    What `.gitignore` and the settings exclude stays out. Large files are not copied, and nothing that is there and
    differs is written over.

    Returns:
        What to tell the user, a line each.
    """
    folders = [path for path in paths if os.path.isdir(path)]
    walk = Walk(finder, without=os.path.abspath(output), endings=())
    left, differing, copied, size = [], [], 0, 0
    for found in walk.files(folders):
        if found.path.endswith(ENDINGS):
            continue
        place = os.path.join(os.path.abspath(output), os.path.relpath(found.path, found.base))
        weight = os.stat(found.path).st_size
        if os.path.lexists(place):
            if not _same(found.path, place):
                differing.append(found.shown)
        elif weight > _MOST or size + weight > _MOST_IN_ALL:
            left.append(found.shown)
        else:
            _copy(found.path, place)
            copied, size = copied + 1, size + weight
    return [*_copies_text(copied, left, differing, shown(os.path.abspath(output), os.getcwd()))]


def _copies_text(copied: int, left: list[str], differing: list[str], output: str) -> list[str]:
    lines = []
    if copied:
        lines.append(f"{copied} other {'file' if copied == 1 else 'files'} copied into {output}")
    for names, why in ((left, "large"), (differing, "a different file exists")):
        if names:
            some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            lines.append(f"not copied into {output} ({why}): {some}")
    return lines


def _copy(path: str, place: str) -> None:
    from shutil import copy2

    try:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        copy2(path, place)
    except OSError as error:
        print(f"xla-migrate: {path}: cannot be copied: {error.strerror}", file=sys.stderr)


def _same(path: str, place: str) -> bool:
    import filecmp

    return os.path.isfile(place) and filecmp.cmp(path, place, shallow=False)
