"""Does the program keep the parameters of an optimizer the same on every process?

Averages of gradients train such parameters right, and all others wrong. In a program without a process group there
is nothing to tell: processes that the runtime starts hold the same. In one with a process group something has to
show it: a wrapper around the model (`DistributedDataParallel` and its like), or an all-reduce of its gradients.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...flow.calls import outer_calls, receives
from ...flow.closure import reach
from ...patterns import Pattern
from ..inference.values import BATCH, TENSOR, WEIGHT
from ..nodes import walk
from ..parsed_file import ParsedFile
from ..scopes import Scope
from ..syntax import keyword, name_of, unparsed
from .tensors.parameters_of import Sources

# Messages for a step that averages nothing; `{}` is the optimizer.
REDUCED_ALREADY = (
    "on several XLA devices `xla.optimizer_step` averages gradients, but this program averages the gradients of `{}` itself: "
    "`average=False` avoids a second all-reduce"
)
NOT_REPLICATED = (
    "nothing shows that the parameters of `{}` are the same on every process (no DistributedDataParallel, no all-reduce "
    "of their gradients): the step averages no gradients"
)
OF_ONE_BATCH = "`{}` changes values of this process's own batch: `average=False` keeps the gradients of other processes out of them"
# `init_rpc` gives each process a separate part.
_GROUPS = ("init_process_group", "init_device_mesh", "init_rpc")
# Classes and functions that make replicas of a model, by their common names.
_WRAPPERS = Pattern(
    r"^_?(?:\w*DDP|Distributed\w*DataParallel\w*|(?:Fully)?ShardedDataParallel|FSDP\w*|fully_shard|deepspeed|horovod"
    r"|ZeroRedundancyOptimizer|distribute_module|parallelize_module|replicate)$",
    re.IGNORECASE,
)
# They show replicas, and average no gradients.
_NORMALIZATIONS = Pattern(
    r"^_?(?:(?:convert_)?sync_?b(?:atch_?)?n(?:orm)?\w*|convert_syncbn_model)$", re.IGNORECASE
)
_WORD = Pattern(r"[A-Za-z_]\w*")
_REDUCES = frozenset({"all_reduce", "allreduce", "all_reduce_coalesced", "reduce_gradients"})
_REDUCED = Pattern(r"all_?reduce\w*\([^()\n]*grad|(?:average|sync)_grad\w*\(")
_REDUCING = Pattern(r"all_?reduce|(?:average|sync)_grad")  # an identifier of `_REDUCED`
# A function that reads gradients, reduces something, and changes it: packed gradients.
_READS_GRADIENTS = Pattern(r"\.grad\b")
_REDUCES_ALL = Pattern(r"\ball_?reduce\w*\(")
_CHANGES = Pattern(r"\b(?:copy|div|mul)_\(|/= |\.grad(?:\.data)? = ")
_FUNCTION = Pattern(r"^[ \t]*(?:async[ \t]+)?def[ \t]", re.MULTILINE)
_NO_CODE = Pattern(
    r"#[^\n]*|\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL
)
_REDUCED_BY_A_RUNTIME = Pattern(r"\breduce_gradients\(")
_CLASS = Pattern(
    r"^class (?P<name>\w+)\b(?P<bases>[^\n]*)\n(?P<body>(?:[ \t]+[^\n]*\n|\n)*)", re.MULTILINE
)
_OF_GRADIENTS = Pattern(r"grad(?!_norm|_scal|_acc|ient_acc)")
_HARMLESS = frozenset(
    "print len list tuple iter sum id repr str isinstance type set hasattr".split()
)
_ASKING = (ast.Attribute, ast.Subscript, ast.Compare, ast.BinOp, ast.Expr, ast.If)


class Replication:
    """What one file, and the programs that load it, say of replicas."""

    def __init__(self, script: ParsedFile) -> None:
        self.script = script
        self.sources = Sources(script)
        self.has_group = self._says(*_GROUPS)
        self._wrapped: list[ast.expr] = []
        self._is_open = False  # something is wrapped, or reduced, that has another name elsewhere
        self._has_wrapper = False
        self._reduces = False  # by an all-reduce in the program's own code
        if self.has_group:
            self._look()

    def averages(self, optimizer: ast.expr | None) -> bool:
        """True if a step of `optimizer` is to average what no wrapper averages.

        False if it changes values of one batch, such as those of an attack: each process has its own. True if there is
        no process group; if a wrapper, or an all-reduce of gradients, has its parameters; and
        if that is unknown, but some model of the program has one. False if none has, or if some of its
        parameters belong to something made in this file that no wrapper receives.
        """
        if optimizer is None:
            return True
        if self._is_of_one_batch(optimizer):
            return False
        if not self.has_group:
            return True
        if self._reduces_itself:
            return False
        if not (self._wrapped or self._is_open):
            return False
        owners = self.sources.of_optimizer(optimizer)
        return not any(self._is_alone(owner) for owner in owners)

    def reason(self, optimizer: ast.expr) -> str:
        """Return the message for a step of `optimizer` that averages nothing."""
        message = REDUCED_ALREADY if self._reduces_itself else NOT_REPLICATED
        if self._is_of_one_batch(optimizer):
            message = OF_ONE_BATCH
        return message.format(self.script.segment(optimizer))

    @property
    def _reduces_itself(self) -> bool:
        return self._reduces and not self._has_wrapper

    def _is_of_one_batch(self, optimizer: ast.expr) -> bool:
        """Return True for `SGD([delta])` of tensors that are no parameters, made again for each batch."""
        given = self.sources.given(optimizer)
        return bool(given) and all(
            isinstance(tensors, ast.List)
            and all(self._is_plain_tensor(tensor) for tensor in tensors.elts)
            and self._runs_for_each_batch(call)
            for call, tensors in given.items()
        )

    def _is_plain_tensor(self, node: ast.expr) -> bool:
        value = self.script.value(node)
        return isinstance(node, ast.Name) and value.has(TENSOR) and not value.has(WEIGHT)

    def _runs_for_each_batch(self, call: ast.Call) -> bool:
        """Return True if `call`, or a call of the function around it, stands in a loop over batches."""
        script = self.script
        calls = reach([call], lambda each: outer_calls(script, each))
        loops = (a for each in calls for a in script.ancestors(each) if isinstance(a, ast.For))
        functions = (f for each in calls if (f := script.function(each)) is not None)
        return any(self._gives_batches(loop.iter) for loop in loops) or any(
            script.callers.take_part_in_steps(function) for function in functions
        )

    def _gives_batches(self, loader: ast.expr) -> bool:
        element = self.script.inference.element(self.script.value(loader))
        return any(part.has(BATCH) for part in (element, *(element.items or ())))

    # The program.

    def _says(self, *names: str) -> bool:
        if any(self.script.index.calls_of(name) for name in names):
            return True
        project = self.script.project
        called = tuple(f"{name}(" for name in names)
        return project.in_its_programs(project.modules.having(called))

    def _look(self) -> None:
        own = _reducing_classes(self.script.source.text, *self._classes_of_others())
        for call, _ in self.script.index.of(ast.Call):
            if _shows_a_copy(call.func):
                self._add(call.args[0] if call.args else keyword(call, "module"))
                self._add_targets(call)
                is_own = name_of(call.func) in own
                self._reduces |= is_own
                self._has_wrapper |= _is_wrapper(call.func) and not is_own
            elif name_of(call.func) in _REDUCES and self._reduces_gradients(call):
                self._reduces |= name_of(call.func) != "reduce_gradients"
                owners = list(self.sources.of_loop_around(call))
                for owner in owners:
                    self._add(owner)
                self._is_open |= not owners
        self._look_at_others(own)
        if self._hands_on_a_wrapper(own):
            self._is_open = self._has_wrapper = True

    def _classes_of_others(self) -> Iterator[str]:
        """Yield the texts of the program's other modules that define a wrapper."""
        modules, programs = self.script.project.modules, self.script.project.programs
        yield from map(modules.text, sorted(modules.where(_defines_a_wrapper) & programs))

    def _look_at_others(self, own: frozenset[str]) -> None:
        modules, programs = self.script.project.modules, self.script.project.programs

        def codes(paths: frozenset[str]) -> Iterator[str]:
            return (_code(modules.text(path)) for path in sorted(paths & programs))

        wrapping, reducing = map(modules.with_word_like, (_WRAPPERS, _REDUCING))
        others = modules.with_word("reduce_gradients") | modules.with_word_like(_NORMALIZATIONS)
        wraps = any(_wrappers_in(code) - own for code in codes(wrapping))
        reduces = any(map(_reduces_gradients_in, codes(reducing)))
        self._has_wrapper |= wraps
        self._reduces |= reduces
        self._is_open |= wraps or reduces or any(map(_shows_replicas_otherwise, codes(others)))

    def _add(self, wrapped: ast.expr | None) -> None:
        if not isinstance(wrapped, (ast.Name, ast.Attribute)):
            self._is_open |= wrapped is None
            return
        self._wrapped.append(wrapped)
        self._is_open |= self.sources.is_parameter(wrapped)

    def _add_targets(self, call: ast.Call) -> None:
        statement = self.script.statement(call)
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, (ast.Name, ast.Attribute)):
                    self._wrapped.append(target)
                else:
                    self._is_open = True
        else:
            self._is_open = True  # returned, kept in a list

    def _hands_on_a_wrapper(self, own: frozenset[str]) -> bool:
        """`wrap = DDP`, `partial(DDP, ...)`: the arguments of the later call are unknown."""
        index = self.script.index
        nodes: list[tuple[ast.Name | ast.Attribute, Scope]] = [
            *index.of(ast.Name),
            *index.of(ast.Attribute),
        ]
        for node, _ in nodes:
            if not isinstance(node.ctx, ast.Load) or not _is_wrapper(node) or name_of(node) in own:
                continue
            parent = self.script.parent(node)
            if isinstance(parent, ast.Attribute) or self.script.is_annotation(node):
                continue
            if isinstance(parent, ast.Call) and (
                parent.func is node or name_of(parent.func) in {"isinstance", "issubclass"}
            ):
                continue
            if isinstance(parent, (ast.Tuple, ast.ClassDef, ast.Compare)):
                continue
            return True
        return False

    def _reduces_gradients(self, call: ast.Call) -> bool:
        """Over all processes: with a group of some it shows nothing of the others."""
        if keyword(call, "group") is not None or len(call.args) > 2:
            return False
        if name_of(call.func) == "reduce_gradients":
            return True
        if self._is_in_a_gradient_hook(call):
            return True
        reduced = call.args[0] if call.args else keyword(call, "tensor")
        return reduced is not None and any(
            _OF_GRADIENTS.search(unparsed(node)) for node in self._made_of(reduced)
        )

    def _is_in_a_gradient_hook(self, call: ast.Call) -> bool:
        """Return True in a function that is registered for the gradients of tensors."""
        script = self.script
        if not script.source.mentions("hook"):
            return False
        registered = [
            argument
            for name in ("register_hook", "register_post_accumulate_grad_hook")
            for register, _ in script.index.calls_of(name)
            for given in register.args
            for argument in (given, *(given.args if isinstance(given, ast.Call) else ()))
        ]
        names = {name_of(argument) for argument in registered}
        return any(
            ancestor in registered or getattr(ancestor, "name", None) in names
            for ancestor in script.ancestors(call)
            if isinstance(ancestor, (ast.FunctionDef, ast.Lambda))
        )

    def _made_of(self, node: ast.expr) -> Iterator[ast.expr]:
        yield node
        for part in walk(node):
            yield from (b.value for b in self.script.bindings(part) if b.value is not None)

    # One model.

    def _is_alone(self, owner: ast.expr) -> bool:
        """True if `owner`, of parameters, is made in this file and wrapped, or reduced, nowhere."""
        if any(_is_same(owner, wrapped) for wrapped in self._wrapped):
            return False
        if not self.sources.is_made_here(owner):
            return False
        uses = reach(self._reads(owner), lambda use: self._passed_on(use) or ())
        return not any(use in self._wrapped or self._passed_on(use) is None for use in uses)

    def _reads(self, owner: ast.expr) -> list[ast.expr]:
        """Return the reads of the variable or attribute `owner`."""
        if isinstance(owner, ast.Name):
            return [*self.script.index.reads(owner)]
        nodes = self.script.index.spelled(owner)
        return [node for node in nodes if isinstance(getattr(node, "ctx", None), ast.Load)]

    def _passed_on(self, node: ast.expr) -> list[ast.expr] | None:
        """Return the reads of the parameter that receives `node`; None if unknown code may wrap `node`."""
        parent = self.script.parent(node)
        if isinstance(parent, _ASKING):
            return []
        while isinstance(parent, (ast.List, ast.Dict)):  # in the groups of an optimizer
            parent = self.script.parent(parent)
            if isinstance(parent, ast.Call) and self._is_of_optimizers(parent):
                return []
        if isinstance(parent, ast.keyword):
            parent = self.script.parent(parent)
        if not isinstance(parent, ast.Call):
            return None
        dotted = self.script.dotted(parent.func) or ""
        if parent.func is node or getattr(parent.func, "id", "") in _HARMLESS:
            return []
        if dotted.startswith("torch."):
            is_function = dotted.rpartition(".")[2].islower()
            return [] if is_function or self._is_of_optimizers(parent) else None
        received = receives(self.script, parent, node)
        if received is None:
            return None
        names = self.script.index.names_below(*received)
        return [use for use in names if isinstance(use.ctx, ast.Load)]

    def _is_of_optimizers(self, call: ast.Call) -> bool:
        return (self.script.dotted(call.func) or "").startswith("torch.optim.")


def _code(text: str) -> str:
    """Return `text` without comments and strings."""
    return _NO_CODE.compiled.sub("", text)


def _reduces_gradients_in(code: str) -> bool:
    """Return True if a line, or a function, reduces gradients over all processes."""
    return _REDUCED.search(code) is not None or any(
        _READS_GRADIENTS.search(part) and _REDUCES_ALL.search(part) and _CHANGES.search(part)
        for part in _FUNCTION.compiled.split(code)
    )


def _wrappers_in(code: str) -> set[str]:
    return {word for word in set(_WORD.findall(code)) if _WRAPPERS.search(word)}


def _shows_replicas_otherwise(code: str) -> bool:
    """Return True if a runtime reduces gradients, or normalization is synchronised."""
    return _REDUCED_BY_A_RUNTIME.search(code) is not None or any(
        _NORMALIZATIONS.search(word) for word in set(_WORD.findall(code))
    )


def _defines_a_wrapper(text: str) -> bool:
    return bool(_reducing_classes(text))


def _reducing_classes(*texts: str) -> frozenset[str]:
    """Return the names of the program's own classes that reduce gradients, as those for hooks of a model's parameters do."""
    found = (
        match for text in texts if "reduce" in text for match in _CLASS.compiled.finditer(text)
    )
    return frozenset(
        match["name"]
        for match in found
        if _WRAPPERS.search(match["name"])
        and re.search(r"\ball_?reduce\w*\(", match["body"])
        and not any(_WRAPPERS.search(word) for word in _WORD.findall(match["bases"]))
    )


def _shows_a_copy(func: ast.expr) -> bool:
    """Return True for a call that gives a model on every process: a wrapper, or a normalization over processes."""
    return (
        _is_wrapper(func)
        or _NORMALIZATIONS.search(name_of(func)) is not None
        or (isinstance(func, ast.Attribute) and name_of(func.value) == "SyncBatchNorm")
    )


def _is_wrapper(func: ast.expr) -> bool:
    return _WRAPPERS.search(name_of(func)) is not None


def _is_same(owner: ast.expr, wrapped: ast.expr) -> bool:
    """True if `owner` is what is wrapped, or a part of it."""
    one, other = _path(owner), _path(wrapped)
    return one[: len(other)] == other or one == other[-1:] or one[-1:] == other[-1:]


def _path(node: ast.expr) -> list[str]:
    return [p for p in unparsed(node).split(".") if p != "module"]
