"""A notebook's code cells as one script, which runs them as a kernel would.

Cells keep their lines, each below a line `# cell N`, so that places can be found. Magics that run Python run it;
those that only matter on a screen do nothing; others are refused, since what they would have done cannot be verified.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

# Line magics that say nothing about the training.
_NO_EFFECT = set(
    "matplotlib load_ext reload_ext autoreload config pylab pdb xmode precision colors autosave who whos wandb"
    " tensorboard pip conda mamba uv autocall logstart lsmagic pinfo pinfo2 history nbagg watermark".split()
)
# Cell magics whose body is shown, not run.
_SHOWN = set("html javascript js markdown latex svg".split())
_RUN_PYTHON = {"time", "timeit", "prun", "capture", "lprun", "memit", "mprun"}
_INSTALL = re.compile(r"\s*(?:\S*python\S*\s+-m\s+)?(?:pip3?|conda|mamba|uv|apt|apt-get)\b")
_CELL = re.compile(r"%%(?P<name>\w+)[ \t]*(?P<rest>.*)")
_LINE = re.compile(r"(?P<space>\s*)(?P<sign>[%!])(?P<rest>[^%=].*)")
_ASSIGNED = re.compile(r"(?P<target>\s*[\w.,\[\]'\" ]+?\s*=\s*)(?P<sign>[%!])(?!=)(?P<rest>.+)")
_HELP = re.compile(r"\s*(?:\?.*|[\w.*]+\?{1,2}\s*)$")
_OPTIONS = re.compile(r"(?:-[A-Za-z]\w*(?:\s+\d+)?\s+)*")
_START = "def display(*shown, **_): print(*shown)  # of the notebook: cells follow, as a kernel runs them"


class NotebookScriptError(Exception):
    """The notebook cannot be run as a script; the message is one line, with the cell."""


@dataclass
class NotebookScript:
    """Attributes: the script's `text`, and by cell number (from 1, among all cells) the `starts` of its lines."""

    text: str
    starts: dict[int, int] = field(default_factory=dict)

    def line(self, cell: int | None, line: int) -> int:
        """The line of the script that `line` of a cell has become."""
        return self.starts.get(cell or 0, 1) + line - 1


def as_script(data: bytes, name: str) -> NotebookScript:
    """The code cells, in their order.

    Args:
        data: the file.
        name: as the user called it, for messages.

    Raises:
        NotebookError: it is no notebook, not in Python, or has a magic that verify does not know.
    """
    try:
        notebook = json.loads(data.decode("utf-8-sig"))
        cells = notebook["cells"]
        language = notebook.get("metadata", {}).get("kernelspec", {}).get("language", "python")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotebookScriptError(f"{name}: no notebook: {error}") from error
    if language.lower() != "python":
        raise NotebookScriptError(f"{name}: its kernel runs {language}, not Python")
    lines, starts = [_START], {}
    for number, cell in enumerate(cells, 1):
        if cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        text = source if isinstance(source, str) else "".join(source)
        lines.append(f"# cell {number}")
        starts[number] = len(lines) + 1
        lines += _cell(text, f"{name}: cell {number}")
    return NotebookScript("\n".join(lines) + "\n", starts)


def _cell(text: str, place: str) -> list[str]:
    """As many lines of Python as the cell has."""
    lines = text.splitlines()
    match = _CELL.match(lines[0]) if lines else None
    if match is None:
        return [_line(line, place) for line in lines] if not _is_python(text) else lines
    magic, body = match["name"], lines[1:]
    if magic in _RUN_PYTHON:
        return [f"pass  # {lines[0]}", *(_line(line, place) for line in body)]
    if magic in _SHOWN:
        return [f"# {line}" for line in lines]
    if magic in ("bash", "sh"):
        run = f"import subprocess; subprocess.run([{magic!r}, '-c', {chr(10).join(body)!r}])"
        return [run, *["#"] * len(body)]
    if magic in ("writefile", "file"):
        mode = "a" if match["rest"].startswith("-a ") else "w"
        file = match["rest"].removeprefix("-a ").strip()
        content = "\n".join(body) + "\n"
        return [
            f"with open({file!r}, {mode!r}) as _file: _file.write({content!r})",
            *["#"] * len(body),
        ]
    raise NotebookScriptError(
        f"{place}: verify does not run the cell magic %%{magic}: remove the cell"
    )


def _is_python(text: str) -> bool:
    try:
        compile(text, "cell", "exec", flags=0x2000)  # a cell may await
    except SyntaxError:
        return False
    return True


def _line(line: str, place: str) -> str:
    if _HELP.match(line) and not line.strip().startswith("#"):
        return _nothing(line)
    assigned = _ASSIGNED.match(line)
    if assigned is not None and assigned["sign"] == "!":
        command = assigned["rest"].strip()
        return f"{assigned['target']}__import__('subprocess').getoutput({command!r}).splitlines()"
    match = _LINE.match(line)
    if match is None:
        return line
    if match["sign"] == "!":
        if _INSTALL.match(match["rest"].lstrip("!")):
            return _nothing(line)
        return f"{match['space']}__import__('os').system({match['rest'].strip()!r})"
    return match["space"] + _magic(match["rest"], line, place)


def _magic(text: str, line: str, place: str) -> str:
    name, _, rest = text.partition(" ")
    rest = rest.strip()
    if name in _RUN_PYTHON and rest:
        return rest[_OPTIONS.match(rest).end() :]  # type: ignore[union-attr]
    if name in _NO_EFFECT:
        return f"pass  # {line.strip()}"
    if name == "cd":
        return f"__import__('os').chdir({rest!r})"
    if name in ("env", "set_env") and rest:
        key, value = re.split(r"[= ]", rest, maxsplit=1) if re.search(r"[= ]", rest) else (rest, "")
        return f"__import__('os').environ[{key!r}] = {value.strip()!r}"
    if name == "run" and rest.endswith(".py"):
        return f"globals().update(__import__('runpy').run_path({rest!r}, run_name='__main__'))"
    raise NotebookScriptError(f"{place}: verify does not run the magic %{name}: remove the line")


def _nothing(line: str) -> str:
    space = line[: len(line) - len(line.lstrip())]
    return f"{space}pass  # {line.strip()}"
