"""Small questions about the arguments of a call, and the classes of transformers' training arguments."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..inference.library_types import RUNTIME
from ..nodes import walk

if TYPE_CHECKING:
    from ..parsed_file import ParsedFile

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


def keyword_argument(call: ast.Call, name: str) -> ast.keyword | None:
    """The keyword argument `name`, as a node that can be dropped or renamed."""
    return next((k for k in call.keywords if k.arg == name), None)


def is_true(node: ast.expr) -> bool:
    """True if `node` is the literal True."""
    return isinstance(node, ast.Constant) and node.value is True


def asks_runtime(script: ParsedFile, node: ast.expr) -> bool:
    """True if `node` depends on the runtime's device type already."""
    calls = (n for n in walk(node) if isinstance(n, ast.Call))
    return any(script.dotted(call.func) == f"{RUNTIME}.device_type" for call in calls)
