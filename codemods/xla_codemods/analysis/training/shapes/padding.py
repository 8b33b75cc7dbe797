"""Batches of other sizes: padded to their longest sample, the last one of an epoch, and those of loaders of graphs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from ....edits import Edit, Replace
from ....flow.closure import reach
from ....flow.edges import sources
from ...parsed_file import ParsedFile
from ...scopes import FunctionNode
from ...script import Script
from ...syntax import is_literal, is_off, keyword, name_of, walk_body
from ..collating import PADDED, batch_lengths, collating, unjoined
from ..training import STEP, Loop
from ..turns import in_steps_and_evaluations

_COLLATORS = frozenset(
    f"transformers.{name}"
    for name in (
        "DataCollatorWithPadding",
        "DataCollatorForTokenClassification",
        "DataCollatorForSeq2Seq",
        "data.data_collator.DataCollatorWithPadding",
    )
)
# Trainers that pad with the tokenizer that they receive, if they receive no collator.
_TRAINERS = frozenset({"transformers.Trainer", "transformers.trainer.Trainer"})
# Arguments of trainers that pad always.
_OF_TRL = frozenset(f"trl.{kind}Config" for kind in ("SFT", "DPO", "KTO", "Reward"))
_DONE_ON_THE_HOST = frozenset({"batch_decode", "decode", "equal", "len"})
_MESSAGE = "XLA compiles once for every length that batches are padded to"
_UNJOINED = (
    "tensors of samples that are not joined have sizes of their own, and XLA compiles once for each set of sizes: pad "
    "to one size, such as the largest number of boxes, and stack"
)
_MAXIMUM = 'pad to one length: `padding="max_length", max_length=...`'
_MULTIPLE = "pass the maximum length as `pad_to_multiple_of`, or pack the samples"


class Padding(NamedTuple):
    """One place that pads to the longest, with the message and, if the length is given, the edit."""

    node: ast.expr
    message: str
    edit: Edit | None = None


def paddings(script: Script) -> Iterator[Padding]:
    """Tokenizers, collators and trainers that pad to the longest, and what a `collate_fn` pads, or joins, by its samples."""
    for call in _padded_for_steps(script):
        yield Padding(call, PADDED)
    if not script.source.mentions("tokeniz", "collat", "trl"):
        return
    for call, _ in script.index.of(ast.Call):
        dotted = script.dotted(call.func)
        if dotted in _COLLATORS:
            yield from _of_collator(call)
        elif dotted in _TRAINERS:
            yield from _of_trainer(script, call)
        elif dotted in _OF_TRL:
            yield from _of_trl(call)
        elif _is_tokenizer(script, call.func) and not _stays_on_the_host(script, call):
            yield from _of_tokenizer(call)
    for function in collating(script):
        for node, message in batch_lengths(script, function):
            yield Padding(node, message)
    for node in unjoined(script):
        yield Padding(node, _UNJOINED)


def _padded_for_steps(script: Script) -> Iterator[ast.Call]:
    """Yield the calls of `pad_sequence` in a step, an evaluation, or a generator of batches."""
    collators = set(collating(script))
    for call, _ in script.index.calls_of("pad_sequence"):
        function = script.function(call)
        is_in_turn = call in in_steps_and_evaluations(script) or _yields(function)
        if is_in_turn and function is not None and function not in collators:
            if any(node is call for node, _ in batch_lengths(script, function)):
                yield call


def _yields(function: FunctionNode | None) -> bool:
    body = walk_body(function.body) if function is not None else ()
    return any(isinstance(node, ast.Yield) for node in body)


def _of_collator(call: ast.Call) -> Iterator[Padding]:
    padding = keyword(call, "padding")
    fixed = keyword(call, "pad_to_multiple_of")
    if _is_longest(padding) or padding is None:
        if fixed is None or is_literal(fixed, None):
            yield Padding(call, f"{_MESSAGE}: {_MAXIMUM}")
        elif isinstance(fixed, ast.IfExp) and _chooses_none(fixed):
            yield Padding(fixed, f"{_MESSAGE}, if `pad_to_multiple_of` is None: {_MAXIMUM}")


def _chooses_none(choice: ast.IfExp) -> bool:
    """`8 if args.fp16 else None`, which is None without float16."""
    return is_literal(choice.body, None) or is_literal(choice.orelse, None)


def _of_trainer(script: ParsedFile, call: ast.Call) -> Iterator[Padding]:
    """`Trainer(..., processing_class=tokenizer)`, whose samples this file has tokenized, each as long as it is."""
    given = keyword(call, "processing_class") or keyword(call, "tokenizer")
    collator = keyword(call, "data_collator") or next(iter(call.args[2:3]), None)
    if given is None or not (collator is None or is_literal(collator, None)):
        return
    tokenized = [c for c, _ in script.index.of(ast.Call) if _is_tokenizer(script, c.func)]
    if tokenized and not any(_may_pad(keyword(one, "padding")) for one in tokenized):
        yield Padding(given, f"{_MESSAGE}, as the Trainer's default collator does: {_MAXIMUM}")


def _may_pad(padding: ast.expr | None) -> bool:
    return not (padding is None or is_literal(padding, False))


def _of_trl(call: ast.Call) -> Iterator[Padding]:
    packing, multiple = keyword(call, "packing"), keyword(call, "pad_to_multiple_of")
    packs = packing is not None and not is_off(packing)
    if packs or not (multiple is None or is_literal(multiple, None)):
        return
    if all(k.arg for k in call.keywords):
        yield Padding(call, f"{_MESSAGE}, as trl does: {_MULTIPLE}")


def _of_tokenizer(call: ast.Call) -> Iterator[Padding]:
    padding = keyword(call, "padding")
    if (
        padding is None
        or not _is_longest(padding)
        or keyword(call, "pad_to_multiple_of") is not None
    ):
        return
    length = keyword(call, "max_length")
    if length is None or is_literal(length, None):
        yield Padding(padding, f"{_MESSAGE}: {_MAXIMUM}")
    else:
        yield Padding(padding, f"{_MESSAGE}: pad to `max_length`", Replace(padding, '"max_length"'))


def _stays_on_the_host(script: ParsedFile, call: ast.Call) -> bool:
    """True if what the tokenizer gives gets a name, and is only measured, compared and decoded under it."""
    if not isinstance(script.parent(_part_of(script, call)), ast.Assign):
        return False
    start: list[ast.expr] = [call]
    uses = reach(start, lambda node: _named(script, node))
    return script.function(call) is not None and all(_is_looked_at(script, use) for use in uses)


def _named(script: ParsedFile, node: ast.expr) -> list[ast.expr]:
    """Return the reads of the name that `node`, or a part of it, is assigned to."""
    part = _part_of(script, node)
    match script.parent(part):
        case ast.Assign(targets=[ast.Name() as name]) if not _is_shape(part):
            return [n for n in script.index.reads(name) if n.lineno > part.lineno]
    return []


def _is_looked_at(script: ParsedFile, use: ast.expr) -> bool:
    part = _part_of(script, use)
    match script.parent(part):
        case ast.Call(func=func, args=args) if part in args:
            return name_of(func) in _DONE_ON_THE_HOST
        case ast.Assign(targets=[ast.Name()]):
            return True
    return _is_shape(part)


def _is_shape(part: ast.expr) -> bool:
    return isinstance(part, ast.Attribute) and part.attr in {"shape", "ndim"}


def _part_of(script: ParsedFile, node: ast.expr) -> ast.expr:
    """`node` with the attributes and elements that are taken of it, up to its shape."""
    while not (isinstance(node, ast.Attribute) and node.attr in {"shape", "ndim"}):
        around = script.parent(node)
        if not (isinstance(around, (ast.Attribute, ast.Subscript)) and around.value is node):
            break
        node = around
    return node


def _is_longest(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value in (True, "longest")


def _is_tokenizer(script: ParsedFile, func: ast.expr) -> bool:
    """True if `func` is what `AutoTokenizer.from_pretrained(...)` gave, or such a tokenizer's `batch_encode_plus`."""
    if isinstance(func, ast.Attribute) and func.attr in {"batch_encode_plus", "encode_plus", "pad"}:
        func = func.value
    if (
        isinstance(func, ast.Attribute)
        and isinstance(func.value, ast.Name)
        and func.value.id == "self"
    ):
        return func.attr.endswith("tokenizer") and "transformers" in script.source.text
    calls = (b.value for b in script.bindings(func) if isinstance(b.value, ast.Call))
    made = (script.dotted(call.func) or "" for call in calls)
    return any(name.startswith("transformers.") and "Tokenizer" in name for name in made)


_LOADERS = frozenset({"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"})


def uneven_loaders(script: Script) -> Iterator[ast.Call]:
    """`DataLoader(...)` calls that feed a loop that trains, and nothing else, and keep a smaller last batch."""
    training = [loop for loop in script.training.loops if STEP in loop.effects]
    others = [loop for loop in script.training.loops if STEP not in loop.effects]
    kept = {call for loop in others for call in _calls(script, loop)}
    calls = dict.fromkeys(call for loop in training for call in _calls(script, loop))
    yield from (call for call in calls if call not in kept and _keeps_last(call))


def _calls(script: Script, loop: Loop) -> Iterator[ast.Call]:
    """Yield the loader calls that `loop` may iterate over."""

    def step(node: ast.expr) -> list[ast.expr]:
        if not isinstance(node, ast.Call):  # `loader = accelerator.prepare(loader)` hides it
            plain = [b.value for b in script.bindings(node) if b.how == "assign" and not b.path]
            return [*sources(script, node), *(value for value in plain if value is not None)]
        dotted = script.dotted(node.func) or ""
        return node.args[:1] if dotted.endswith("MpDeviceLoader") else []

    for node in reach((driver.node for driver in loop.drivers), step):
        if isinstance(node, ast.Call) and script.dotted(node.func) in _LOADERS:
            yield node


def _keeps_last(call: ast.Call) -> bool:
    given = {k.arg for k in call.keywords}
    if (
        None in given
        or given & {"drop_last", "batch_sampler"}
        or any(isinstance(a, ast.Starred) for a in call.args)
    ):
        return False
    size = keyword(call, "batch_size") or (call.args[1] if len(call.args) > 1 else None)
    return size is not None and not (isinstance(size, ast.Constant) and size.value in {1, None})


_HOMES = ("torch_geometric.loader", "torch_geometric.data", "dgl.dataloading")
_MADE = ("Loader", "Sampler")


def graph_loaders(script: ParsedFile) -> Iterator[ast.Call]:
    """Calls that make loaders of PyTorch Geometric and DGL, which join, or sample, graphs."""
    if not script.source.mentions("torch_geometric", "dgl"):
        return
    for call, _ in script.index.of(ast.Call):
        home, _, name = (script.dotted(call.func) or "").rpartition(".")
        if not home.startswith(_HOMES) or not name.endswith(_MADE):
            continue
        if home.startswith("dgl") and name.endswith("Sampler"):
            continue  # which a loader is given
        yield call
