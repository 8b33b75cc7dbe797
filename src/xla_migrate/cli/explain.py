"""`xla-migrate explain`: a rule's manual, the replacement of a CUDA name, or the errors in a log."""

from __future__ import annotations

import os
import re
import sys

from xla_codemods import catalog
from xla_codemods.analysis.wrappers import Wrapper, lookup
from xla_codemods.catalog import Row
from xla_codemods.catalog.families import ROOTS, is_cuda_only
from xla_codemods.manual import manual
from xla_codemods.rules import every_rule

from ..known_errors.explain import find, text_of
from ..manuals import OURS, rule_of
from ..reports.text import plural
from ..settings import Finder, SettingsError, nearest
from .checks import known_codes
from .usage import fail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


# Names by which scripts import modules.
_ALIASES = {
    "dist": "torch.distributed",
    "nn": "torch.nn",
    "F": "torch.nn.functional",
    "mp": "torch.multiprocessing",
    "cuda": "torch.cuda",
}
_USAGE = """\
usage: xla-migrate explain CODE | NAME
       xla-migrate explain --log FILE
       xla-migrate explain --all

CODE is a rule's code (XLA101) or name (cuda-method). The beginning of a code (XLA1) lists its rules. NAME is a CUDA
name (torch.cuda.Stream), or a name that the settings map.

  --log FILE  explain the known errors in a traceback or log (-: standard input): cause, fix and further reading
  --all       print the manuals of all rules
  -h, --help  print this help

examples:
  xla-migrate explain XLA201
  xla-migrate explain torch.cuda.Stream
  python train.py 2>&1 | xla-migrate explain --log -

exit codes: 0 explained, 1 the log contains no known error, 2 wrong usage
"""


def main(words: Sequence[str]) -> int:
    """Print what there is to say of one code or name; the exit code.

    Raises:
        SystemExit: the name is unknown; the message suggests similar names.
    """
    if words and words[0] in ("-h", "--help"):
        from ..reports.width import columns, fitted

        print(fitted(_USAGE, columns()), end="")
        return 0
    if list(words) == ["--all"]:
        print("\n\n\n".join(_of_code(code) for code in known_codes()))
        return 0
    if words and words[0] == "--log":
        return _of_log(words[1:])
    if words and words[0].startswith("-"):
        from .subparser import unknown_option

        fail(unknown_option("explain", words[0], ["--log", "--all", "--help"]))
    if len(words) != 1:
        fail("explain takes one code or name, like XLA101 or torch.cuda.Stream")
    what = words[0].strip()
    print(_of_code(what.upper()) or _of_name(what))
    return 0


def _of_log(words: Sequence[str]) -> int:
    """Explain the known errors in a log; the exit code."""
    if len(words) != 1:
        fail("explain --log takes one file, or - for standard input")
    name = words[0]
    try:
        with open(sys.stdin.fileno() if name == "-" else name, "rb", closefd=name != "-") as file:
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError as error:
        fail(f"{name}: {error.strerror}")
    found = find(lines)
    for one in found:
        print(text_of(one, "" if name == "-" else name), end="\n\n")
    count = plural(len(found), "known error") if found else "No known error"
    print(f"{count} in {plural(len(lines), 'line')}.")
    return 0 if found else 1


def _of_code(code: str) -> str:
    """Return the manual of the rule with this code or name, or nothing."""
    for number, ours in OURS.items():
        if code in (number, ours.name.upper()):
            return f"{number} {ours.name}\n\n{ours.text}"
    try:
        rule, page = rule_of(code if re.fullmatch(r"XLA\d*", code) else code.lower())
    except KeyError:
        if re.fullmatch(r"XLA\d*", code):
            begun = [rule for rule in every_rule() if rule.code.startswith(code)]
            if begun:
                return "\n".join(f"{r.code}  {r.name:<22}  {manual(r).summary}" for r in begun)
            fail(f"no rule has the code {code}{nearest(code, known_codes())}")
        return ""
    about = ", speed" if rule.about == "speed" else ""
    return f"{rule.code} {rule.name} ({rule.severity}{about})\n\n{_for_a_terminal(page.text)}"


def _for_a_terminal(text: str) -> str:
    """Return a manual with the paths of the pages that it links and of the facts that it cites."""
    plain = re.sub(r"\[([^\]]+)\]\((?:\.\./)?([\w/-]+\.md)[#\w-]*\)", r"\1 (docs/\2)", text)
    cites = re.search(r"\bfacts? \d\.\d", plain)
    return f"{plain.rstrip()}\n\nFacts are listed in docs/facts.md." if cites else plain


def _of_name(name: str) -> str:
    """Return the replacement of a CUDA name, or of a name that the user has mapped."""
    try:
        own = lookup(Finder().of(os.getcwd()).own, name, "")
    except SettingsError as error:
        fail(str(error))
    if own is not None:
        return _own(own)
    start, _, rest = name.partition(".")
    if rest and start in _ALIASES:
        name = f"{_ALIASES[start]}.{rest}"
    plain = name.removesuffix("()")
    rows = catalog.meant(name) or _of_a_part(name)
    ends = _ending(plain) if not rows or rows[0].name.endswith(f".{plain}") else []
    if rows and not (set(ends) - {row.name for row in rows}):
        return "\n\n\n".join(_row(row) for row in rows)
    heard = "" if rows or len(ends) > 1 else _listening(ends[0] if ends else plain)
    if heard:
        return heard
    close = ends[:4] or catalog.nearest(name)
    hint = f"; did you mean {' or '.join(f'`{one}`' for one in close)}?" if close else ""
    fail(f"`{name}` is neither a code nor a name in the catalog{hint}")


def _of_a_part(name: str) -> list[Row]:
    """Return the rows that contain `name`: the row of its class, of a package with one row for all
    its members (`cupy`), of a private name, or, for `x.cuda`, the row of the tensor method.
    """
    plain = name.removesuffix("()")
    home, _, last = plain.rpartition(".")
    row = catalog.covering(plain) if is_cuda_only(plain) else None
    if row is not None:
        whole = not any(other.startswith(f"{row.name}.") for other in catalog.table())
        if whole or home.rpartition(".")[2][:1].isupper() or "._" in plain:
            return [row]
        return []
    if last != plain and home.partition(".")[0] not in ROOTS:
        owners = (f"torch.Tensor.{last}", f"torch.nn.Module.{last}")
        return [row for owner in owners if (row := catalog.lookup(owner)) is not None]
    return []


def _ending(name: str) -> list[str]:
    """The names, of the catalog and of those that rules look at, that end so: `DistributedDataParallel`."""
    if "." in name:
        return []
    heard = (n for rule in every_rule() for n in (*rule.calls, *rule.references))
    found = {n for n in (*catalog.table(), *heard) if n.endswith(f".{name}")}
    return sorted(found, key=lambda n: (not n.startswith("torch."), len(n), n))


def _listening(name: str) -> str:
    """Return the rules that check uses of a name that is not CUDA-only, such as torch.unique, or ""."""
    last = name.rpartition(".")[2]
    rules = [rule for rule in every_rule() if name in rule.calls or name in rule.references]
    if name.partition(".")[0] not in ROOTS:
        rules = rules or [rule for rule in every_rule() if last in rule.methods]
    if not rules:
        return _below(name)
    lines = [f"    {rule.code:<11} {manual(rule).summary}" for rule in rules]
    text = "\n".join([f"{name}\n\nis not in the catalog; these rules check its uses:\n", *lines])
    return f"{text}\n\n`xla-migrate explain {rules[0].code}` shows the rule."


def _below(name: str) -> str:
    """List the names in a module that rules handle, such as `torch.utils`; empty if there are none."""
    begin = f"{name}."
    heard = {
        dotted: rule
        for rule in every_rule()
        for dotted in (*rule.calls, *rule.references)
        if dotted.startswith(begin) and dotted.isascii()
    }
    if not heard or "." not in name:
        return ""
    lines = [f"    {rule.code:<11} {dotted}" for dotted, rule in sorted(heard.items())]
    return "\n".join([f"{name}\n\nis not in the catalog; these rules check its members:\n", *lines])


def _fate(row: Row) -> str:
    if not row.rule:
        return row.fate
    by_rule = row.fate in (catalog.REWRITTEN, catalog.REMOVED)
    return f"{row.fate} by {row.rule}" if by_rule else f"{row.fate}; found by {row.rule}"


def _row(row: Row) -> str:
    facts = [
        ("on XLA", _fate(row)),
        ("difference", row.difference),
        ("if left", row.left),
        ("torch", row.torch),
        ("evidence", row.evidence),
    ]
    text = row.name + "\n\n" + "\n".join(f"    {key:<11} {value}" for key, value in facts)
    if row.instead:
        text += f"\n\n    - {row.name}\n    + {row.instead}"
    if row.note:
        text += f"\n\n{row.note}"
    shown = _example(row)
    if shown:
        text += "\n\nbefore and after:\n\n" + "\n".join(f"    {line}".rstrip() for line in shown)
    if row.rule:
        text += f"\n\n`xla-migrate explain {row.rule}` shows the rule."
    return text


def _example(row: Row) -> list[str]:
    """The shortest example in the manual of the row's rule in which the name is rewritten; none if there is none."""
    if row.fate not in (catalog.REWRITTEN, catalog.REMOVED):
        return []
    _, page = rule_of(row.rule)
    last = re.escape(re.split(r"[.(=]", row.name.rstrip(')"'))[-1].strip('"'))
    taken = re.compile(rf"^-.*\b{last}\b", re.MULTILINE)
    blocks = re.findall(r"^```diff\n(.*?)^```$", page.text, re.MULTILINE | re.DOTALL)
    return min((b.splitlines() for b in blocks if taken.search(b)), key=len, default=[])


def _own(own: Wrapper) -> str:
    text = f"{own.dotted}\n\n    mapped by   tool.xla-migrate.{own.table} (XLA003)"
    text += f"\n    becomes     {own.to or 'unchanged'}"
    for before, after in own.examples:
        rows = [f"- {line}" for line in before.strip().splitlines()]
        rows += [f"+ {line}" for line in after.strip().splitlines()]
        text += "\n\n" + "\n".join(f"    {row}" for row in rows)
    return text
