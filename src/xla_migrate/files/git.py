"""Could git give this file back as it is now?"""

from __future__ import annotations

import os


def can_restore(path: str, data: bytes) -> bool:
    """True if `data`, the content of the file at `path`, is what `git restore` would bring back.

    Decided by the hash in git's index. If git changes a file on checkout or commit (line ends, large
    file storage), the hashes differ and the file counts as not restorable, which is the safe answer.
    """
    real = os.path.realpath(path)
    root = _working_tree(os.path.dirname(real))
    if root is None:
        return False
    import subprocess

    name = os.path.relpath(real, root)
    command = ["git", "-C", root, "--literal-pathspecs", "ls-files", "-s", "-z", "--", name]
    try:
        answer = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    except OSError:  # no git
        return False
    # "<mode> <hash> <stage>\t<path>", nothing if it is not tracked; other stages are of an unfinished merge.
    fields = answer.stdout.partition(b"\t")[0].split()
    if answer.returncode or len(fields) != 3 or fields[2] != b"0":
        return False
    return fields[1].decode() == _hash_of(data, len(fields[1]))


def _working_tree(folder: str) -> str | None:
    """The root of the working tree that `folder` lies in."""
    while not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return folder


def _hash_of(data: bytes, length: int) -> str:
    """The hash under which git keeps `data`, in a repository whose hashes have this length."""
    import hashlib

    make = hashlib.sha1 if length == 40 else hashlib.sha256
    return make(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
