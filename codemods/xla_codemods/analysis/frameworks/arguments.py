"""Small questions about the arguments of a call, and the classes of transformers' training arguments."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from ...edits import Replace
from ..inference.library_types import RUNTIME
from ..nodes import walk
from ..once import once
from ..parsed_file import ParsedFile
from ..syntax import keyword

_TRL = (
    "SFT DPO GRPO PPO RLOO KTO ORPO CPO BCO XPO NashMD OnlineDPO GKD Reward PRM Iterative".split()
)

# Classes of arguments of Hugging Face trainers.
ARGUMENTS = frozenset(
    [
        "transformers.TrainingArguments",
        "transformers.training_args.TrainingArguments",
        "transformers.Seq2SeqTrainingArguments",
        "transformers.training_args_seq2seq.Seq2SeqTrainingArguments",
        "sentence_transformers.SentenceTransformerTrainingArguments",
        "sentence_transformers.training_args.SentenceTransformerTrainingArguments",
        *(f"trl.{name}Config" for name in _TRL),
    ]
)

# Hugging Face trainers, all of which are transformers' with something added.
TRAINERS = frozenset(
    [
        "transformers.Trainer",
        "transformers.trainer.Trainer",
        "transformers.Seq2SeqTrainer",
        "transformers.trainer_seq2seq.Seq2SeqTrainer",
        "sentence_transformers.SentenceTransformerTrainer",
        "sentence_transformers.trainer.SentenceTransformerTrainer",
        *(f"trl.{name}Trainer" for name in _TRL),
    ]
)

# Those whose `compute_loss` reads metrics for each batch (trl 1.16).
READING_TRAINERS = frozenset(
    f"trl.{name}Trainer" for name in ("DPO", "GRPO", "KTO", "RLOO", "Reward", "SFT")
)

# Lightning's own.
_LIGHTNINGS = frozenset(
    f"{home}.Trainer" for home in ("lightning", "lightning.pytorch", "pytorch_lightning")
)


@once
def has_a_trainer(script: ParsedFile) -> bool:
    """True if the file makes a trainer of a framework's, or makes or parses its arguments: it trains on whatever accelerator
    there is.
    """
    if not script.source.mentions("trainer", "trainingarguments", "trl", "argparser"):
        return False
    makers = TRAINERS | ARGUMENTS | _LIGHTNINGS
    names = {maker.rpartition(".")[2] for maker in makers}
    names |= {name for name in script.module.bindings if script.module.dotted(name) in makers}
    calls = [(call, scope) for name in names for call, scope in script.index.calls_of(name)]
    if any(script.dotted(call.func) in makers for call, _ in calls):
        return True
    parsers = {parser.rpartition(".")[2] for parser in PARSERS}
    return any(
        script.dotted(call.func) in PARSERS and parses_arguments(script, call)
        for name in parsers
        for call, _ in script.index.calls_of(name)
    )


# What reads such arguments from a command line.
PARSERS = frozenset(
    {
        "transformers.HfArgumentParser",
        "transformers.hf_argparser.HfArgumentParser",
        "trl.TrlParser",
    }
)


def parsed_classes(call: ast.Call) -> list[ast.expr]:
    """What one of `PARSERS` is given: `HfArgumentParser((ModelArguments, TrainingArguments))`."""
    kinds = call.args[0] if call.args else keyword(call, "dataclass_types")
    if kinds is None:
        return []
    return kinds.elts if isinstance(kinds, (ast.Tuple, ast.List)) else [kinds]


def parses_arguments(script: ParsedFile, call: ast.Call) -> bool:
    """True if one of `PARSERS` reads arguments of a trainer, or of a local class that derives from them."""
    for kind in parsed_classes(call):
        definition = script.value(kind).definition
        bases = definition.bases if isinstance(definition, ast.ClassDef) else []
        if any(script.dotted(one) in ARGUMENTS for one in (kind, *bases)):
            return True
    return False


def keyword_argument(call: ast.Call, name: str) -> ast.keyword | None:
    """The keyword argument `name`, as a node that can be dropped or renamed."""
    return next((k for k in call.keywords if k.arg == name), None)


def calls_of_any(script: ParsedFile, names: Collection[str]) -> list[ast.Call]:
    """The calls of what has one of these dotted names, whatever it is called here."""
    return [c for c, _ in script.index.of(ast.Call) if script.dotted(c.func) in names]


@once
def makes_trainer(script: ParsedFile) -> bool:
    """Return True if this file makes one of `TRAINERS`, or an object of its own subclass of one."""
    own = (
        node.name
        for node, _ in script.index.of(ast.ClassDef)
        if any(script.dotted(base) in TRAINERS for base in node.bases)
    )
    return any(map(script.index.calls_of, own)) or bool(calls_of_any(script, TRAINERS))


_ASKS = frozenset({f"{RUNTIME}.device_type", f"{RUNTIME}.supports_fused"})


def asks_runtime(script: ParsedFile, node: ast.expr) -> bool:
    """True if `node` depends on the runtime's device type already."""
    calls = (n for n in walk(node) if isinstance(n, ast.Call))
    return any(script.dotted(call.func) in _ASKS for call in calls)


def only_on_cuda(script: ParsedFile, value: ast.expr, instead: str) -> Replace:
    """Return the edit that keeps `value` on CUDA, and is `instead` elsewhere."""
    on_cuda = f'{script.xla}.device_type() == "cuda"'
    return Replace(value, f"{{0}} if {on_cuda} else {instead}", (value,))


def makings(script: ParsedFile, definition: ast.ClassDef) -> Iterator[ast.Call]:
    """Return the calls of the file that give the framework's class its arguments: `super().__init__(accelerator="gpu")`, or,
    if the class has no `__init__`, the calls that make its objects.
    """
    own = _init(definition)
    if own is not None:
        for node in walk(own):
            match node:
                case ast.Call(func=ast.Attribute(attr="__init__")):
                    yield node
    elif not any(_init(owner) for owner in script.inference.lineage(definition)):
        for call, scope in script.index.calls_of(definition.name):
            if script.inference.value(call.func, scope).definition is definition:
                yield call


def _init(definition: ast.ClassDef) -> ast.FunctionDef | None:
    for statement in definition.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            return statement
    return None
