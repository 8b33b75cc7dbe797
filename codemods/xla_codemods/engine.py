"""Source in, findings or source out: parse once, ask every rule, make the edits in one pass."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar, cast

from .analysis.by_hand.written import as_written_by_hand, undecided
from .analysis.cuda_names import left_over
from .analysis.devices.checks.on_xla import without_dead, without_opened
from .analysis.host_programs import without_training_on_the_host
from .analysis.index import Index
from .analysis.inference.library_types import VENDORED
from .analysis.nodes import walk
from .analysis.projects.callees import names_of_bases
from .analysis.projects.project import Project
from .analysis.scopes import Scope
from .analysis.script import Script
from .analysis.scripted import without_calls_in_torchscript
from .analysis.training.manual_sharding.steps import without_manual_steps
from .analysis.wrappers import Wrapper, WrapperError
from .edits import Edit, Replace, ReplaceStatement, Unwrap
from .fallback import leftovers
from .finding import ERROR, SAFE, UNSAFE, Finding, moved_back, with_outlasting
from .rule import MethodCall, NodeCheck, Rule, Unhandled
from .rules import RULES, rules_from
from .source import Source, SourceError
from .suppress import Suppressions

_OF_STEPS = {rule.code: rule.of_step for rule in RULES if rule.of_step}
_NATIVE = f"import {VENDORED}"  # of a file in the native style
_DEFERRING = frozenset(rule.code for rule in RULES if rule.defers)
_OF_WHAT_RUNS = frozenset(rule.code for rule in RULES if rule.of_what_runs)
_TESTS = frozenset(rule.code for rule in RULES if rule.opens)
_FIRST = frozenset(rule.code for rule in RULES if rule.first)
_MORE = 3  # rewritings behind the first


class Options(NamedTuple):
    """`select` and `ignore` hold codes or their beginnings ("XLA1"); an empty `select` selects all.

    `wrappers` are the user's own names that the settings map. `parallel` is "spmd" if one process drives all devices.
    `origin` is "torch_xla" to rewrite code written for torch_xla, too. `style` is "native" if the result must not need
    `xla_migrate`; a file that imports a copy of the runtime always has this style.
    Generated lines longer than `line_length` are split, and lint-free; 0 leaves them as the rules write them.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    unsafe: bool = False
    wrappers: tuple[Wrapper, ...] = ()
    parallel: str = ""
    origin: str = ""
    style: str = ""
    line_length: int = 0

    def selects(self, code: str) -> bool:
        """True if findings with `code` are wanted."""
        wanted = not self.select or code.startswith(self.select)
        return wanted and not (self.ignore and code.startswith(self.ignore))


class Migration(NamedTuple):
    """What became of one file: `data` is the new source, `migrated` what the edits dealt with (places in the old
    source), `left` what is still there (places in the new one), `refused` the lines (of the old one) whose edits
    could not be made, with the reason.
    """

    data: bytes
    migrated: list[Finding]
    left: list[Finding]
    refused: tuple[tuple[int, str], ...] = ()


def check(
    data: bytes,
    options: Options = Options(),  # noqa: B008
    path: str = "<source>",
    project: Project | None = None,
) -> list[Finding]:
    """What is CUDA-only, slow or wrong on XLA in this source, in order of place; first what ends the attempt.

    `project` describes the other modules of the program, if they are known.

    Raises:
        SourceError: it cannot be decoded or parsed.
    """
    script = _script(data, options, path, project)
    try:
        return _findings(script, options)
    finally:
        script.release()


def migrate(
    data: bytes,
    options: Options = Options(),  # noqa: B008
    path: str = "<source>",
    project: Project | None = None,
) -> Migration:
    """The source with every safe fix made (and the unsafe ones where asked). `project` as for `check`.

    Raises:
        SourceError: it cannot be decoded or parsed, or the result could not be.
    """
    first = _rewritten(data, options, path, project, _of_origin) if options.origin else None
    if first is None:
        done = _migration(data, options, path, project)
    else:
        done = _followed(first, _migration(first.data, options, path, project), data)
    return _in_style(done, options, path, project)


def _followed(first: Migration, then: Migration, data: bytes) -> Migration:
    """`first`, which was of `data`, and behind it `then`, which was of its result."""
    return then._replace(
        migrated=[*first.migrated, *moved_back(then.migrated, data, first.data)],
        left=with_outlasting(then.left, first.left, first.data, then.data),
        refused=(*first.refused, *then.refused),
    )


def _in_style(done: Migration, options: Options, path: str, project: Project | None) -> Migration:
    """Return `done` without calls that need `xla_migrate`, if the options or the file want the native style."""
    if options.style != "native" and _NATIVE.encode() not in done.data:
        return done
    styled = _rewritten(
        done.data, options._replace(origin="xla_migrate"), path, project, _of_origin
    )
    if styled is None or styled.data == done.data:
        return done
    left = check(styled.data, options, path, project)
    return done._replace(
        data=styled.data, left=with_outlasting(left, done.left, done.data, styled.data)
    )


def _migration(data: bytes, options: Options, path: str, project: Project | None) -> Migration:
    """With what can be fixed only where something else has been: a read beside a scale that is now 1."""
    done = _rewritten(data, options, path, project, _findings)
    assert done is not None
    for _ in range(_MORE):
        if not any(_applies(finding, options) for finding in done.left):
            break
        then = _rewritten(done.data, options, path, project, _findings)
        if then is None or then.data == done.data:
            break
        done = _followed(done, then, data)
    return done


def _rewritten(
    data: bytes,
    options: Options,
    path: str,
    project: Project | None,
    find: Callable[[Script, Options], list[Finding]],
) -> Migration | None:
    """The source with the fixes of what `find` finds; None where `find` is for another kind of file."""
    script = _script(data, options, path, project)
    try:
        if find is _of_origin and not script.origin:
            return None
        return _with_fixes(data, script, options, find(script, options))
    finally:
        script.release()


def _with_fixes(
    data: bytes, script: Script, options: Options, findings: list[Finding]
) -> Migration:
    source = script.source
    chosen = _without_conflicts([f for f in findings if _applies(f, options)])
    if not chosen:
        return Migration(data, [], findings)
    from .rewriting.aligning import aligned
    from .rewriting.collapsing import collapsed
    from .rewriting.defaults import without_calls
    from .rewriting.imports import tidy_imports
    from .rewriting.rewrite import rewrite
    from .rewriting.wrapping import wrapped

    edits = collapsed([edit for finding in chosen for edit in finding.edits], script)
    text, refusals = rewrite(source, _without_lost(edits, script), script.parents)
    refused = {edit for refusal in refusals for edit in refusal.edits}
    reasons = tuple((refusal.line, refusal.reason) for refusal in refusals)
    if text == source.text:
        return Migration(data, [], findings, reasons)
    text = tidy_imports(text, script)
    if options.line_length:
        text = without_calls(text, source.text, script.xla)
        text = aligned(text, source.text, options.line_length)
        text = wrapped(text, source.text, options.line_length)
    result = source.encode(text)
    left = check(result, options, script.path, script.project)
    left = with_outlasting(left, findings, data, result)
    migrated = [f for f in chosen if not refused.intersection(f.edits)]
    return Migration(result, migrated, left, reasons)


def _script(data: bytes, options: Options, path: str, project: Project | None) -> Script:
    source = project.source(data) if project is not None else Source(data)
    wrappers, parallel = options.wrappers, options.parallel
    # Code written by hand for torch_xla reads values at the original points: reads are not deferred.
    later = not options.origin and all(map(options.selects, _DEFERRING))
    # In the native style, calls of torch_xla's functions are the result.
    is_native = options.origin == "torch_xla" and _NATIVE in source.text
    origin = "" if is_native else options.origin
    script = Script(source, path, wrappers, parallel, project, origin, options.style, later)
    suppressions = Suppressions(source)
    if suppressions.speaks:
        deferring = [(rule.code, rule.name) for rule in RULES if rule.defers]
        script.is_kept = lambda node: any(suppressions.keeps(*rule, node) for rule in deferring)
    return script


def _applies(finding: Finding, options: Options) -> bool:
    return finding.safety == SAFE or (finding.safety == UNSAFE and options.unsafe)


def _without_conflicts(findings: list[Finding]) -> list[Finding]:
    """Of findings that would replace the same node, the first; what others edit is not moved word for word."""
    claimed: set[ast.AST] = set()
    edited: set[ast.AST] = set()
    chosen: set[int] = set()
    moved = {id(f): {n for e in f.edits if _is_moved(e) for n in walk(e.node)} for f in findings}
    any_moved = any(moved.values())
    for finding in sorted(findings, key=lambda f: bool(moved[id(f)])):
        replaced = {
            e.node for e in finding.edits if isinstance(e, (Replace, ReplaceStatement, Unwrap))
        }
        if not (claimed & replaced or edited & moved[id(finding)]):
            claimed |= replaced
            if any_moved:
                edited.update(n for e in finding.edits for n in _edited(e))
            chosen.add(id(finding))
    return [finding for finding in findings if id(finding) in chosen]


def _is_moved(edit: Edit) -> bool:
    return isinstance(edit, Replace) and edit.is_moved


def _edited(edit: Edit) -> Iterator[ast.AST]:
    """What is not as it was once `edit` is made."""
    yield edit.node
    if isinstance(edit, Replace):
        kept = {n for hole in edit.holes for n in walk(hole)}
        yield from (n for n in walk(edit.node) if n not in kept)


def _without_lost(edits: list[Edit], script: Script) -> list[Edit]:
    """The edits but those inside a statement that is removed."""
    gone = {e.node for e in edits if isinstance(e, ReplaceStatement) and not e.text}
    if not gone:
        return edits
    return [e for e in edits if not any(a in gone for a in script.ancestors(e.node))]


def _findings(script: Script, options: Options) -> list[Finding]:
    found = _DISPATCH.run(script)
    if options.wrappers:
        from .wrappers import findings

        found += findings(script, options.wrappers)
    found = without_training_on_the_host(
        script, without_dead(script, found, _OF_WHAT_RUNS), _DISPATCH.of_any_training
    )
    found = without_opened(found, script, _TESTS)
    found = as_written_by_hand(script, found, _DISPATCH.of_any_training)
    found = without_manual_steps(script, found, _OF_STEPS)
    if script.origin:
        found += _found_of_origin(script)
    found = without_calls_in_torchscript(script, found)
    return _wanted(script, options, found)


def _of_origin(script: Script, options: Options) -> list[Finding]:
    return _wanted(script, options, _found_of_origin(script))


def _found_of_origin(script: Script) -> list[Finding]:
    found = _dispatch_from(script.origin).run(script)
    if undecided(script):
        return [f._replace(edits=(), safety=None) for f in found]
    return found


def _wanted(script: Script, options: Options, found: list[Finding]) -> list[Finding]:
    suppressions = Suppressions(script.source)
    # Asked of all findings: a suppression is in use even where its code is not selected.
    found = [f for f in found if not suppressions.covers(f)]
    found += suppressions.unused()
    kept = [f for f in found if options.selects(f.code)]
    kept.sort(key=lambda f: (not _ends_the_attempt(f), f.line, f.column, f.code))
    return kept


def _ends_the_attempt(finding: Finding) -> bool:
    """Return True for a library that the file cannot run without: its finding is listed first."""
    return finding.code in _FIRST and finding.severity == ERROR


def failing_examples(wrappers: tuple[Wrapper, ...]) -> Iterator[tuple[Wrapper, str, str]]:
    """Examples that do not hold: the mapping, what was expected, and what came out.

    Raises:
        WrapperError: one is no Python source.
    """
    options = Options(unsafe=True, wrappers=wrappers)
    for entry in wrappers:
        for before, after in entry.examples:
            try:
                got = migrate(before.encode(), options).data.decode()
            except SourceError as error:
                key = f'{entry.table}."{entry.dotted}".examples'
                where = f"line {error.line} of `before` is no Python"
                raise WrapperError(key, f"{where}: {error.reason}") from error
            if got.strip() != after.strip():
                yield entry, after, got


class _Dispatch:
    """Which rule listens to what, in dictionaries: one lookup per place, however many rules there are."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        rules = list(rules)
        self.calls = _merged(rule.calls for rule in rules)
        self.methods = _merged(rule.methods for rule in rules)
        self.references = _merged(rule.references for rule in rules)
        self.nodes: dict[type[ast.AST], list[tuple[tuple[str, ...], Mapping[Any, NodeCheck]]]] = {}
        for rule in rules:
            for kind in rule.nodes:
                self.nodes.setdefault(kind, []).append((rule.words, rule.nodes))
        self.subclasses = _merged(rule.subclasses for rule in rules)
        self.named = _by_type(_merged(rule.named for rule in rules))
        self.file_checks = [
            (rule.words, rule.file_checks, name) for rule in rules for name in rule.file_checks
        ]
        self.fallback_checks = [
            (rule.words, rule.fallback_checks, name)
            for rule in rules
            for name in rule.fallback_checks
        ]
        self.of_leftovers = [rule for rule in rules if rule.leftovers]
        self.fallback_codes = frozenset(
            rule.code for rule in rules if rule.fallback_checks or rule.leftovers
        )
        self.of_any_training = frozenset(r.code for r in rules if not r.shows_accelerator)
        # The last part of a dotted name tells at once whether any rule can care.
        self.call_ends = {name.rpartition(".")[2] for name in self.calls}
        self.reference_ends = {name.rpartition(".")[2] for name in self.references}

    def run(self, script: Script) -> list[Finding]:
        found: dict[tuple[str, ast.AST], Finding] = {}
        for finding in self._all(script):
            found.setdefault((finding.code, finding.node), finding)
        so_far = list(found.values())
        unhandled = Unhandled(left_over(script, so_far, self._hears), so_far, self.fallback_codes)
        for finding in self._at_fallbacks(script, unhandled):
            found.setdefault((finding.code, finding.node), finding)
        return list(found.values())

    def _at_fallbacks(self, script: Script, unhandled: Unhandled) -> Iterable[Finding]:
        for words, checks, name in self.fallback_checks:
            if unhandled.uses or not words or script.source.mentions(*words):
                yield from checks[name](script, unhandled)
        for rule in self.of_leftovers if unhandled.uses else ():
            yield from leftovers(rule, script, unhandled, rule.leftovers)

    def _hears(self, dotted: str, called: bool) -> bool:
        return dotted in (self.calls if called else self.references)

    def _all(self, script: Script) -> Iterable[Finding]:
        index = script.index
        yield from self._at_calls(script, index)
        yield from self._at_references(script, index)
        mentions = script.source.mentions
        for kind, tables in self.nodes.items():
            nodes = index.of(kind)
            if nodes:
                handlers = [t[kind] for words, t in tables if not words or mentions(*words)]
                for node, scope in nodes:
                    for handler in handlers:
                        yield from handler(script, node, scope)
        for kind, by_name in self.named.items():
            name_of = _NAME_OF[kind]
            for node, scope in index.of(kind):
                name = name_of(node)
                if name in by_name:
                    for named in by_name[name]:
                        yield from named[kind, name](script, node, scope)
        for definition, scope in index.of(ast.ClassDef) if self.subclasses else ():
            for dotted in script.cached(names_of_bases, definition) if definition.bases else ():
                for subclasses in self.subclasses.get(dotted, ()):
                    yield from subclasses[dotted](script, definition, scope)
        for words, checks, check in self.file_checks:
            if not words or mentions(*words):
                yield from checks[check](script)

    def _at_calls(self, script: Script, index: Index) -> Iterable[Finding]:
        for call, scope in index.of(ast.Call):
            func = call.func
            last = _called_by(call)
            dotted = None
            if (
                (
                    last is not None
                    and (
                        last in self.call_ends or isinstance(func, ast.Name) or last in self.methods
                    )
                )
                or isinstance(func, ast.Call)
                or (isinstance(func, ast.Attribute) and script.is_handed_on(func))
            ):
                dotted = script.dotted(func, scope)
            if dotted is not None:
                for checks in self.calls.get(dotted, ()):
                    yield from checks[dotted](script, call, scope)
            elif isinstance(func, ast.Attribute):
                for methods in self.methods.get(func.attr, ()):
                    yield from methods[func.attr](script, cast(MethodCall, call), scope)

    def _at_references(self, script: Script, index: Index) -> Iterable[Finding]:
        parents, ends = index.parents, self.reference_ends
        local = _imported_as(index, ends)
        names: list[tuple[ast.expr, Scope]] = []
        if local:
            loads = ((n, s) for n, s in index.of(ast.Name) if isinstance(n.ctx, ast.Load))
            names += [(n, s) for n, s in loads if n.id in local]
        names += [
            (n, s) for n, s in index.of(ast.Attribute) if n.attr in ends or script.is_handed_on(n)
        ]
        for node, scope in names:
            parent = parents[node]
            if isinstance(parent, ast.Attribute) or (
                isinstance(parent, ast.Call) and parent.func is node
            ):
                continue
            dotted = script.dotted(node, scope)
            if dotted is not None:
                for checks in self.references.get(dotted, ()):
                    yield from checks[dotted](script, node, scope)


def _called_by(call: ast.Call) -> str | None:
    """The last name of what is called."""
    func = call.func
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", None)


_NAME_OF: dict[type[ast.AST], Callable[[Any], str | None]] = {
    ast.keyword: attrgetter("arg"),
    ast.Attribute: attrgetter("attr"),
    ast.Call: _called_by,
}


def _imported_as(index: Index, names: set[str]) -> set[str]:
    """Return the local names of the `names` that a `from` import or a star import binds."""
    found: set[str] = set()
    for node, _ in index.of(ast.ImportFrom):
        for alias in node.names:
            if alias.name in names:
                found.add(alias.asname or alias.name)
            elif alias.name == "*":
                found |= names
    return found


K = TypeVar("K")
T = TypeVar("T")
C = TypeVar("C")


def _merged(tables: Iterable[dict[K, C]]) -> dict[K, list[dict[K, C]]]:
    """Return the tables that have a check for each key."""
    merged: dict[K, list[dict[K, C]]] = {}
    for table in tables:
        for key in table:
            merged.setdefault(key, []).append(table)
    return merged


def _by_type(table: dict[tuple[T, K], C]) -> dict[T, dict[K, C]]:
    nested: dict[T, dict[K, C]] = {}
    for (kind, name), checks in table.items():
        nested.setdefault(kind, {})[name] = checks
    return nested


_DISPATCH = _Dispatch(RULES)


@functools.cache
def _dispatch_from(origin: str) -> _Dispatch:
    return _Dispatch(rules_from(origin))
