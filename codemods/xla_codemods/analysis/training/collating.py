"""What makes batches of samples: whether all of a batch is moved there, and where its samples decide how long it is."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from ...flow.closure import all_ends, reach
from ...patterns import Pattern
from ..nodes import walk
from ..parsed_file import ParsedFile
from ..scopes import FunctionNode
from ..syntax import is_literal, is_size, is_static, name_of, walk_body

_NAME = Pattern(r"(?:^|_)collat(?:e|or)|Collat(?:e|or)")
_PARTIAL = "functools.partial"
_JOINING = frozenset(
    {f"torch.{name}" for name in ("cat", "concat", "concatenate", "hstack", "vstack")}
    | {f"numpy.{name}" for name in ("concat", "concatenate", "hstack", "vstack")}
)

# What gives sizes in another container, or in another order.
_OF_SIZES = frozenset(
    "tensor as_tensor LongTensor IntTensor Tensor array asarray from_numpy sort flip".split()
)
# Parts of samples that differ in size, if they are not joined.
_OF_TARGETS = Pattern(r"annot|box|target|keypoint|polygon", re.IGNORECASE)
_LONGEST = "XLA compiles once for every length of the longest sample"
# Models of speech make a few frames at once: a length that is a multiple of these is still one of many.
_FEW_FRAMES = Pattern(r"frames_per_step|outputs_per_step|reduction_factor|^r$", re.IGNORECASE)
_LENGTH = Pattern(r"(?:^|_)(?:lens?|lengths?|(?:n|num)_(?:frames|tokens))$")
PADDED = "XLA compiles once for every length that batches are padded to: pad to one length (`torch.nn.functional.pad`)"
# What gives samples or batches.
LoadingNode = ast.FunctionDef | ast.Lambda


def collating(script: ParsedFile) -> Iterator[FunctionNode]:
    """Local functions that are given as `collate_fn`, as they are, made by a function, or as a callable object; where
    none is, those that are called so, for other modules to give.
    """
    yield from dict.fromkeys(_given(script)) or _called_so(script)


def _given(script: ParsedFile) -> Iterator[FunctionNode]:
    for argument, _ in script.index.of(ast.keyword):
        if argument.arg == "collate_fn":
            value = argument.value
            if isinstance(value, ast.Call) and script.dotted(value.func) == _PARTIAL:
                value = next(iter(value.args), value)
            if isinstance(value, ast.Lambda) and isinstance(value.body, ast.Call):
                value = value.body.func  # `lambda batch: collate(batch, "train")`
            function = script.function_of(value)
            yield from [function] if function is not None else []


def _called_so(script: ParsedFile) -> Iterator[FunctionNode]:
    for function, _ in script.index.of(ast.FunctionDef):
        owner = script.parent(function)
        inside = isinstance(owner, ast.ClassDef)
        name = owner.name if isinstance(owner, ast.ClassDef) else function.name
        if function.name in {"collate", "collate_fn"} or (
            _NAME.search(name) and (not inside or function.name == "__call__")
        ):
            required = len(function.args.args) - len(function.args.defaults)
            if required == 1 + inside - is_static(function):
                yield function


def moves_all(
    script: ParsedFile, function: LoadingNode, is_move: Callable[[ast.Call], bool]
) -> bool:
    """Return True if each part of what `function` gives is moved: `return x.to(device), lengths` leaves one on the host."""

    def moves(node: ast.expr) -> bool:
        return any(isinstance(part, ast.Call) and is_move(part) for part in walk(node))

    def parts(node: ast.expr) -> list[ast.expr]:
        if not isinstance(node, ast.Name):
            return _elements(node) or []
        values = list(_bound_to(script, node))
        return list(filter(moves, values)) or values

    def is_moved(node: ast.expr) -> bool:
        return _elements(node) == [] or moves(node)

    given = [function.body] if isinstance(function, ast.Lambda) else list(_given_by(function))
    elements = reach(given, lambda node: _elements(node) or [])
    return bool(given) and all(
        all_ends([node], parts, is_moved) for node in elements if not _elements(node)
    )


def _elements(node: ast.expr) -> list[ast.expr] | None:
    """Return the elements of a display; None for other expressions."""
    match node:
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Dict(values=elements):
            return elements
        case ast.Call(func=ast.Name(id="dict" | "tuple" | "list"), args=args, keywords=named):
            return [*args, *(k.value for k in named)]
    return None


def _given_by(function: ast.FunctionDef) -> Iterator[ast.expr]:
    """Yield what `function` returns and yields."""
    for node in walk_body(function.body):
        if isinstance(node, (ast.Return, ast.Yield)) and node.value is not None:
            yield node.value


def _bound_to(script: ParsedFile, name: ast.Name) -> Iterator[ast.expr]:
    """What `name`, or each entry of it (`batch[key] = ...` for each key), is bound to."""
    yield from (v for b in script.reaching(name) if (v := b.part or b.value) is not None)
    for use in script.index.same(name):
        around = script.parent(use)
        match around, script.parent(around) if around is not None else None:
            case ast.Attribute(attr="append"), ast.Call(args=[added]):
                yield added
            case ast.Subscript(ctx=ast.Store(), slice=index), ast.Assign(value=value):
                if not isinstance(index, ast.Constant):
                    yield value


def batch_lengths(script: ParsedFile, function: FunctionNode) -> Iterator[tuple[ast.expr, str]]:
    """Where in the collating `function` the longest sample, or all of them together, decide on a size."""
    nodes = list(walk_body(function.body))
    for call in nodes:
        if isinstance(call, (ast.Call, ast.Subscript)) and _is_longest(script, call):
            if not _rounds(nodes):
                yield call, f"{_LONGEST}: pad to one length"
            continue
        if not isinstance(call, ast.Call):
            continue
        dotted = script.dotted(call.func)
        if dotted == "torch.nn.utils.rnn.pad_sequence":
            if _fills_up(script, nodes):
                continue
            yield call, PADDED
        elif dotted in _JOINING and _joins_samples(call) and _has_rows_of_its_own(nodes, call):
            message = (
                "the number of rows depends on the samples, and XLA compiles once for each number"
            )
            yield call, f"{message}: pad to one number"


def unjoined(script: ParsedFile) -> Iterator[ast.expr]:
    """Yield the lists of tensors that collating functions return: `tuple(zip(*batch))`, `boxes` of `return x, boxes`."""
    keywords = (argument for argument, _ in script.index.of(ast.keyword))
    given = [
        k.value.body for k in keywords if k.arg == "collate_fn" and isinstance(k.value, ast.Lambda)
    ]
    for function in collating(script):
        given += _given_by(function) if isinstance(function, ast.FunctionDef) else ()
    yield from filter(_are_samples, given)
    for part in reach(given, lambda node: [] if _are_samples(node) else _elements(node) or []):
        if isinstance(part, ast.Name) and _OF_TARGETS.search(part.id):
            bound = script.reaching(part)
            if bound and all(_are_samples(b.value) or _are_tensors(script, b.whole) for b in bound):
                yield part


def _are_samples(node: ast.expr | None) -> bool:
    """Return True for `zip(*batch)`, also in `tuple(zip(*batch))`."""
    match node:
        case ast.Call(func=ast.Name(id="list" | "tuple"), args=[inner]):
            return _are_samples(inner)
        case ast.Call(func=ast.Name(id="zip"), args=[ast.Starred()]):
            return True
    return False


def _are_tensors(script: ParsedFile, node: ast.expr | None) -> bool:
    """Return True for `[torch.as_tensor(b[1]) for b in batch]`."""
    match node:
        case ast.ListComp(elt=ast.Call(func=func)):
            return (script.dotted(func) or "").startswith("torch.")
    return False


def _fills_up(script: ParsedFile, nodes: list[ast.AST]) -> bool:
    """True if what is missing to one length is padded, too: `F.pad(x, (0, 128 - x.size(1)))`."""
    pads = any(
        isinstance(node, ast.Call) and script.dotted(node.func) == "torch.nn.functional.pad"
        for node in nodes
    )
    return pads and any(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Sub)
        and is_size(node.right)
        and not _is_of_the_batch(node.left, nodes)
        for node in nodes
    )


def _is_of_the_batch(node: ast.expr, nodes: list[ast.AST]) -> bool:
    """True if `node` is a size of the batch itself: one of its sizes, or a name for their maximum."""
    if isinstance(node, ast.Name):
        return any(
            isinstance(other, ast.Assign)
            and any(isinstance(t, ast.Name) and t.id == node.id for t in other.targets)
            and not isinstance(other.value, (ast.Constant, ast.Attribute))
            for other in nodes
        )
    return not isinstance(node, (ast.Constant, ast.Attribute)) or is_size(node)


def _is_longest(script: ParsedFile, node: ast.expr) -> bool:
    """`max(len(x) for x in batch)`, `max(lengths)`, `lengths.max()`, and the first or last of sorted lengths."""
    match node:
        case ast.Call(func=ast.Name(id="max"), args=[sizes]):
            return _are_sizes(script, sizes)
        case ast.Call(func=ast.Attribute(attr="max" | "amax", value=owner), args=args):
            is_method = script.dotted(node.func) is None
            return _are_sizes(script, owner if is_method else next(iter(args), owner))
        case ast.Subscript(
            value=sizes,
            slice=ast.Constant(value=0) | ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1)),
        ):
            return _are_sizes(script, sizes) and _are_sorted(script, sizes)
    return False


def _are_sizes(script: ParsedFile, node: ast.expr) -> bool:
    """True if `node` holds a size of each sample: a list, or a tensor or an array that is made of one."""
    for each in reach([node], lambda inner: _made_of(script, inner)):
        match each:
            case ast.ListComp(elt=size) | ast.GeneratorExp(elt=size) if _is_length(size):
                return True
            case ast.Call(func=ast.Name(id="map"), args=[ast.Name(id="len"), _]):
                return True
            case _ if _is_length(each):  # `lengths.append(len(x))`
                return True
    return False


def _is_length(node: ast.expr) -> bool:
    """Return True for `len(x)`, and for what is called a length: `sample["length"]`, `sample.num_frames`."""
    is_key = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)
    name = str(node.slice.value) if is_key else name_of(node)  # type: ignore[attr-defined]
    return is_size(node) or (_LENGTH.search(name) is not None and not isinstance(node, ast.Call))


def _are_sorted(script: ParsedFile, sizes: ast.expr) -> bool:
    """`sorted(lengths)`, `torch.sort(lengths)`, and sizes of a batch that `batch.sort(key=...)` has sorted."""
    function = script.function(sizes)
    calls = [c for c, _ in script.index.calls_of("sort") if script.function(c) is function]
    batches = {name_of(c.func.value) for c in calls if isinstance(c.func, ast.Attribute)}
    for each in reach([sizes], lambda inner: _made_of(script, inner)):
        match each:
            case ast.Name(id=name) if name in batches:
                return True
            case ast.Call(func=func) if name_of(func) in {"sort", "sorted"}:
                return True
    return False


def _made_of(script: ParsedFile, node: ast.expr) -> list[ast.expr]:
    """What the sizes in `node` come from: `lengths` of `torch.sort(torch.tensor(lengths), descending=True)[0]`."""
    match node:
        case ast.Name():
            return list(_bound_to(script, node))
        case ast.ListComp(generators=[ast.comprehension(iter=inner)]) | ast.Starred(value=inner):
            return [inner]
        case ast.Call(func=ast.Name(id="list" | "tuple" | "sorted" | "zip"), args=[inner, *_]):
            return [inner]
        case ast.Call(func=ast.Attribute(attr=name), args=[inner, *_]) if name in _OF_SIZES:
            return [inner]
        case ast.Call(func=ast.Attribute(value=inner)) | ast.Subscript(value=inner):
            return [inner]
    return []


def _rounds(nodes: list[ast.AST]) -> bool:
    """Return True if lengths are rounded up, which keeps the number of graphs small."""
    return any(
        (isinstance(node, ast.BinOp) and _is_division(node))
        or (isinstance(node, ast.Attribute) and node.attr == "ceil")
        for node in nodes
    )


def _is_division(node: ast.BinOp) -> bool:
    is_one = isinstance(node.op, (ast.FloorDiv, ast.Mod))
    return is_one and _FEW_FRAMES.search(name_of(node.right)) is None


def _has_rows_of_its_own(nodes: list[ast.AST], joining: ast.Call) -> bool:
    """Return True if samples have numbers of rows: each is marked with its place in the batch, or its rows are counted.

    That is `rows[:, 0] = i`, `np.full(len(x), i)`, and `[len(x) for x in batch]` of the samples that are joined.
    """
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Subscript(slice=ast.Tuple(elts=[ast.Slice(), *_]))]):
                return True
            case ast.Call(func=ast.Attribute(attr="full"), args=[size, ast.Name(), *_]) if any(
                is_size(part) for part in walk(size) if isinstance(part, ast.expr)
            ):
                return True
            case ast.Call(func=ast.Attribute(attr="full_like"), args=[_, ast.Name(), *_]):
                return True
    counted = {text for node in nodes for size in _counts(node) for text in _texts(nodes, size)}
    return not counted.isdisjoint(_texts(nodes, joining.args[0]))


def _counts(node: ast.AST) -> list[ast.expr]:
    """Return the sample whose rows `node` counts: `[len(x) for x in batch]`, `sizes.append(len(x))`, `n += len(x)`."""
    match node:
        case ast.ListComp(elt=size) | ast.GeneratorExp(elt=size) if is_size(size):
            return [_with(node, _sized(size))]
        case ast.Call(func=ast.Attribute(attr="append"), args=[size]) | ast.AugAssign(value=size):
            return [_sized(size)] if is_size(size) else []
    return []


def _sized(size: ast.expr) -> ast.expr:
    """Return `x` of `len(x)`, `x.size(0)` and `x.shape[0]`."""
    match size:
        case ast.Call(func=ast.Name(), args=[sized]):
            return sized
        case ast.Call(func=ast.Attribute(value=sized)):
            return sized
        case ast.Subscript(value=ast.Attribute(value=sized)):
            return sized
    return size


def _with(node: ast.ListComp | ast.GeneratorExp, element: ast.expr) -> ast.ListComp:
    """Return `[element for ...]` with the loops of `node`: of all samples, if all except the last are counted."""
    loops = node.generators
    match loops:
        case [ast.comprehension(iter=ast.Subscript(value=whole, slice=ast.Slice())) as loop]:
            loops = [ast.comprehension(loop.target, whole, loop.ifs, loop.is_async)]
    return ast.ListComp(elt=element, generators=loops)


def _texts(nodes: list[ast.AST], joined: ast.expr) -> set[str]:
    """Return texts that the samples in `joined` have, whatever the variables of its loops are called.

    For a name these are the values that are appended to it as well.
    """
    if isinstance(joined, ast.ListComp):
        return {_without_variables(joined)}
    text = ast.unparse(joined)
    variables = {node.id for node in walk(joined) if isinstance(node, ast.Name)}
    found = {text}
    for node in nodes:
        if isinstance(node, ast.For) and variables & set(_names(node.target)):
            loop = ast.comprehension(node.target, node.iter, [], 0)
            found.add(_without_variables(ast.ListComp(joined, [loop])))
        match node:
            case ast.Call(func=ast.Attribute(attr="append", value=owner), args=[added]) if (
                ast.unparse(owner) == text
            ):
                found.add(ast.unparse(added))
            case ast.Assign(targets=[target], value=ast.ListComp() as value) if (
                ast.unparse(target) == text
            ):
                found.add(_without_variables(value))
    return found


def _without_variables(node: ast.ListComp) -> str:
    """Return `node` as text, with its variables called by their order; `[x for x in batch]` is `batch`."""
    match node:
        case ast.ListComp(
            elt=ast.Name(id=name), generators=[ast.comprehension(target, walked)]
        ) if isinstance(target, ast.Name) and target.id == name:
            return ast.unparse(walked)
    text = ast.unparse(node)
    names = dict.fromkeys(name for g in node.generators for name in _names(g.target))
    for number, name in enumerate(names):
        text = re.sub(rf"\b{re.escape(name)}\b", f"_{number}", text)
    return text


def _names(target: ast.expr) -> list[str]:
    return [node.id for node in walk(target) if isinstance(node, ast.Name)]


def _joins_samples(call: ast.Call) -> bool:
    """Not one row of each: `torch.cat([x.unsqueeze(0) for x in batch])`."""
    if not call.args or not isinstance(call.args[0], (ast.Name, ast.ListComp, ast.Attribute)):
        return False
    return not any(
        (isinstance(node, ast.Attribute) and node.attr == "unsqueeze") or is_literal(node, None)
        for node in walk(call.args[0])
    )
