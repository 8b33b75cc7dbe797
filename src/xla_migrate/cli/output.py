"""`--output PATH`: where the result of each file goes."""

from __future__ import annotations

import os

from ..files.find import Found
from .arguments import fail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def destinations(output: str, paths: Sequence[str], files: Sequence[Found]) -> dict[str, str]:
    """The path that each file's result is written to.

    One file goes to the path itself, unless that is a folder (or ends like one); several files go into the folder,
    each with its place in the folder that was named.

    Raises:
        SystemExit: two files would go to the same place, or one over an original.
    """
    is_folder = output.endswith(os.sep) or os.path.isdir(output) or len(paths) > 1
    is_folder = is_folder or any(os.path.isdir(path) for path in paths)
    if is_folder and os.path.exists(output) and not os.path.isdir(output):
        fail(f"--output {output}: it is a file, and there is more than one result")
    originals = {os.path.realpath(found.path) for found in files}
    goes: dict[str, str] = {}
    taken: dict[str, Found] = {}
    for found in files:
        place = os.path.abspath(output)
        if is_folder:
            place = os.path.join(place, os.path.relpath(found.path, found.base))
        if os.path.realpath(place) in originals:
            fail(f"--output {output}: {found.shown} would be written over an original")
        if place in taken:
            fail(
                f"--output {output}: {taken[place].shown} and {found.shown} would be the same file"
            )
        taken[place] = found
        goes[found.path] = place
    return goes
