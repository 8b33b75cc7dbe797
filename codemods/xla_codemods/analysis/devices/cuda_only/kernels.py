"""CUDA-only code, and tests for CUDA that choose it: on XLA, False is their right result."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import takewhile

from ....flow.closure import reach
from ....flow.conditions import after, before
from ....flow.edges import uses
from ....patterns import Pattern
from ...inference.library_types import RUNTIME
from ...nodes import FUNCTIONS, walk
from ...parsed_file import ParsedFile
from ...scopes import Scope, resolve
from ...syntax import name_of
from ..checks.pieces import pieces
from ..non_device_calls import is_of_an_engine
from . import streams
from .chosen_attention import is_chosen_in, is_kept_from_hosts
from .extensions import OF_COPIES, PINS, hands_to_an_extension, is_answer, pins_memory, uses_of
from .wrapped import hands_to_a_package, wrapped_or_derived

# CUDA-only code that no rule can replace: if a test for CUDA chooses it, the other branch is
# the one for XLA.
_KERNELS = Pattern(
    r"triton|flash_?attn|flash_attention|xformers|cpp_extension|CUDAExtension|load_inline|(?<![a-z])cupy|numba|tensorrt|CUDAExecution|onnxruntime-gpu|paddlepaddle|enable_use_gpu"
    r"|torch\.ops\.(?!aten)|_kernels?\b|cuda_(?:ext|kernel|obj)|(?<!is)(?<!to)(?<!use)(?<!init)(?<!require)(?<!requires)(?<!check)(?<!ensure)(?<!assert)(?<!need)(?<!needs)_cuda\w*\("
    r"|\bfrom \w+_cuda\w* import|get_device_capability|get_arch_list|is_current_stream_capturing|sync_debug_mode|CUDAGraph|cuda\.graph\b|make_graphed|nvml"
    r"|cuda\.(?:nccl|comm)\.|memory_snapshot|_record_memory|_dump_snapshot|cuda\.(?:utilization|temperature|power_draw)|peer\("
    r"|(?-i:[a-z]Cuda\()|CudaKernel|(?:CUDA|GPU|XPU) kernels|philox|transformer_engine|mamba_ssm|causal_conv1d|selective_scan|cusolver|\bindex_cpu_to_(?:all_)?gpus?\b|gesvd|\bgels"
    r"|(?<!attr)\(torch\.cuda[,)]|, ?torch\.cuda[,)]|\b(?:Int8Params|FP4Params|Params4bit)\b|\bout_dtype=|\bmulti_tensor_\w+\(|data_ptr\(\) %|extra_cuda_cflags|\.cu[\"']|[\"']gpu_hist[\"']"
    r"|\b(?:BitsAndBytes|GPTQ|Awq|Eetq|Aqlm|Hqq)Config\(|[\"']nsight[\"']|\bn(?:sys|vprof)\b",
    re.IGNORECASE,
)
_OF_GPUS = Pattern(r"gpu|cuda", re.IGNORECASE)
# What of this says only how a function is called, which may be a helper of the project's own.
_NAMED = Pattern(r"_cuda\w*\(", re.IGNORECASE)
_PLAIN = frozenset({"torch", "numpy", *sys.stdlib_module_names})
# Properties of CUDA's hardware that are read after a test for CUDA.
_HARDWARE = Pattern(
    r"propert\w+(?:\([^\n]*\))?\.(?:major|minor|L2_cache_size|multi_processor_count|warp_size|gcnArchName)|SDPAParams"
)
# What stands next to a test for CUDA if it is about CUDA's own features: options, cuDNN, packages
# with kernels (`fused_adam is not None`), and AMD's build, whose devices are called CUDA, too.
_FEATURES = Pattern(
    r"fp8|float8|\b(?:cudnn|matmul)\.allow_tf32|cuda_?graph|\bcudnn\.(?:enabled|is_acceptable|is_available)"
    r"|(?:flash|flex)_?att|triton|xformers|mamba|selective_?scan|causal_?conv|liger|cuda_?(?:ext|kernel)|transformer_?engine|\b(?:has|have|with)_te\b"
    r"|(?:fused|apex|triton|kernel)\w* is not None|(?<!not torch\.)\bversion\.hip\b(?! is None)",
    re.IGNORECASE,
)
# Options of libraries and models that switch CUDA's kernels on: `use_triton=x.is_cuda`.
_SWITCH = Pattern(
    r"triton|capturable|flash_?att|xformers|liger|cueq|cuda_?graph|tensorrt|fp8|float8|_fusion$|kernels$"
    r"|use_\w*kernel|memory_efficient_att|load_in_[48]bit",
    re.IGNORECASE,
)
# How a file gets the kernels that its autograd functions call.
_LOADED = Pattern(
    r"cpp_extension|load_(?:cuda_)?kernels?\b|load_ext\w*\(|get_kernel\(|load_inline|\.cu[\"']"
)
_SERVICES = ("torch.cuda.", f"{RUNTIME}.")
# Kernels that stand in the file itself, or are launched there.
_DEFINED = Pattern(
    r"^\s*@(?:triton|helion|tilelang|cuda|numba\.cuda)\.(?:jit|kernel)\b|^\s*@(?:[\w.]+\.)?triton_op\b|\bwrap_triton\(|\w_kernel\w*\[.+\]\(",
    re.MULTILINE,
)
_BOUND = Pattern(r"^import \w+_cuda$", re.MULTILINE)
# Kernels that are compiled when the program runs, and another library's that are chosen by a name.
_COMPILED = Pattern(r"cpp_extension|load_inline|nvml|extra_cuda_cflags|\.cu[\"']|CUDAExecution")
# Messages that refuse such code: `assert torch.cuda.is_available(), "CUDA required for bitsandbytes"`.
_REFUSED = Pattern(
    r"bitsandbytes|\bbnb\b|\bapex\b|awq|gptq|eetq|marlin|xformers|flash.?att|deepspeed|to quantize|quanti[sz]ation|cuda.?graph|triton"
    r"|activation.offload",
    re.IGNORECASE,
)
# Names that have to do with packages, of other libraries.
_INSTALLS = Pattern(r"requirement|^pip|install", re.IGNORECASE)
# Code that moves to a device: XLA needs it. A device whose properties are read moves nothing, and nor does `.to(x.dtype)`.
_MOVES = Pattern(
    r"\.cuda\(|\.to\((?!torch\.cuda\.|(?:dtype=)?(?:torch\.\w+|(?:\w+\.)*dtype)\))|manual_seed|set_device|(?<!return \()[\"']cuda[:\"']|xla_device"
)


# Captured work fails on XLA, whatever the branch moves for it.
_GRAPHS = Pattern(r"\bCUDAGraph\(|cuda\.graph\(|make_graphed_callables\(")
_PROPERTIES = Pattern(r"get_device_properties\([^\n]*\)")

# A check in one of the files of the program.
_Use = tuple["ParsedFile", ast.expr]


def chooses_kernels(script: ParsedFile, node: ast.expr) -> bool:
    """Return True if `node` checks for CUDA to choose CUDA-only code.

    The result may be passed on by names and functions. Then all their uses must choose such code.
    """
    return script.cached(_chooses, node) or script.cached(_is_used_for_kernels, node)


def _is_used_for_kernels(script: ParsedFile, node: ast.expr) -> bool:
    """Return True if names or functions pass `node` on, and all their uses choose kernels."""
    start: _Use = (script, node)

    def passed_on(use: _Use) -> list[_Use]:
        return [] if use != start and _chooses(*use) else _passed_on(use)

    ends = [use for use in reach([start], passed_on) if use != start and not passed_on(use)]
    return bool(ends) and all(_use_chooses(*use) for use in ends)


def _passed_on(use: _Use) -> list[_Use]:
    """Return the uses of the name that `use` is bound to, or of the function that returns it."""
    script, node = use
    function = is_answer(script, node)
    if function is not None:
        return uses_of(script, function)
    joined = list(takewhile(lambda part: isinstance(part, _JOINS), script.ancestors(node)))
    whole = next((part for part in reversed(joined) if isinstance(part, ast.expr)), node)
    project = script.project
    match script.parent(whole):
        case ast.Assign(targets=[ast.Attribute(attr=attr)]):
            if project.modules.with_word(attr) - {project.path}:
                return []
    named = [use for use in uses(script, whole) if isinstance(use, (ast.Name, ast.Attribute))]
    return [(script, read) for read in named]


_JOINS = (ast.BoolOp, ast.UnaryOp, ast.Compare)


def _use_chooses(script: ParsedFile, use: ast.expr) -> bool:
    """Return True if `use` chooses kernels, or passes the function that it names with one."""
    if any(binding.how == "assign" for binding in script.bindings(use)):
        return _chooses(script, use)
    parent = script.parent(use)
    is_held = isinstance(parent, (ast.Dict, ast.List, ast.Tuple)) or (
        isinstance(parent, (ast.Call, ast.keyword, ast.FunctionDef))
        and not isinstance(use, ast.Call)
    )
    if not is_held:
        return _chooses(script, use)
    holder = parent if isinstance(parent, ast.FunctionDef) else script.statement(use)
    return _are_kernels(script, [holder])


def _chooses(script: ParsedFile, node: ast.expr) -> bool:
    """Return True if what `node` decides in its statement is for CUDA only."""
    for child, around in script.upward(node):
        match around:
            case ast.Call() if _INSTALLS.search(name_of(around.func)):
                return True  # the package of another library: "faiss-gpu" or "faiss-cpu"
            case ast.keyword(arg=str(name)) if OF_COPIES.match(name) or _SWITCH.search(name):
                return True
            case ast.Dict(keys=keys, values=values) if child in values:
                name = str(getattr(keys[values.index(child)], "value", ""))
                if OF_COPIES.match(name) or _SWITCH.search(name):
                    return True
            case ast.BoolOp(op=op, values=values):
                texts = [script.segment(value) for value in values if value is not child]
                later = texts[values.index(child) :]  # type: ignore[arg-type]
                if any(map(PINS.search, texts)):
                    return True
                if isinstance(op, ast.And) and (
                    any(map(_FEATURES.search, texts)) or any(map(_is_kernel_code, later))
                ):
                    return True
            case ast.Assert(msg=ast.expr() as message) if child is around.test:
                return _REFUSED.search(script.segment(message)) is not None
            case ast.IfExp(test=test, body=body, orelse=other) if child is test:
                if _are_kernels(script, [body]) or _hands_on(script, node, [body]):
                    return True
                denied = bool(denials(test))
                if denied and _are_kernels(script, [other]):
                    return True
                if is_kept_from_hosts(script, around, other if denied else body):
                    return True
            case ast.If():
                return _branches(script, node, around)
            case ast.Match(subject=subject) if child is subject:
                return any(_are_kernels(script, case.body) for case in around.cases)
            case ast.Assign(targets=targets, value=value) if not isinstance(value, ast.IfExp):
                return any(_KERNELS.search(ast.unparse(target)) for target in targets)
            case ast.AnnAssign(target=target, value=value) if not isinstance(value, ast.IfExp):
                return _KERNELS.search(ast.unparse(target)) is not None
            case ast.Return(value=value) if not isinstance(value, ast.IfExp):
                return _KERNELS.search(getattr(script.function(around), "name", "")) is not None
            case ast.stmt():
                return False
    return False


def _branches(script: ParsedFile, node: ast.expr, branch: ast.If) -> bool:
    """Return True if a branch, or what follows a branch that leaves, is for CUDA only."""
    rest = after(script, branch)
    text = _text(script, rest)
    denied = denials(branch.test)
    if not branch.orelse and all(map(_adds_an_index, branch.body)):
        return True  # on XLA each process has one device, and its name needs no index
    if answers_no(branch):
        tests = [s.test for s in (*before(script, branch), branch) if isinstance(s, ast.If)]
        names = [getattr(script.function(branch), "name", ""), *map(script.segment, tests)]
        if any(map(_FEATURES.search, names)) or _HARDWARE.search(text) or _KERNELS.search(text):
            return True
        called = _functions(script, [node for statement in rest for node in walk(statement)])
        return any(is_answered_by_the_hardware(s) for function in called for s in function.body)
    match branch.body[-1]:
        case ast.Raise() as refusal if _REFUSED.search(script.segment(refusal)):
            return True
        case ast.Raise() if denied and not branch.orelse and not moves(script, rest):
            calls = [n for s in rest for n in walk(s) if isinstance(n, ast.Call)]
            kernels = (_stands_among_kernels(script, script.dotted(call.func)) for call in calls)
            if _COMPILED.search(text) or any(kernels):
                return True
        case ast.Return() | ast.Continue() if leaves_the_rest(branch):
            if _are_kernels(script, rest) or (_HARDWARE.search(text) and not moves(script, rest)):
                return True
    if denied and _are_kernels(script, branch.orelse):
        return True
    if denied and not branch.orelse and all(".cpu()" in script.segment(s) for s in branch.body):
        return True  # what follows is for CUDA's tensors, and for the host's
    if is_chosen_in(script, branch, bool(denied)):
        return True
    if _has_an_alternative(branch) and _GRAPHS.search(_text(script, branch.body)):
        return not denied
    return _are_kernels(script, branch.body) or _hands_on(script, node, branch.body)


def moves(script: ParsedFile, parts: Sequence[ast.stmt]) -> bool:
    """Return True if `parts` move something to a device, so that XLA needs them."""
    return _MOVES.search(_PROPERTIES.compiled.sub("", _text(script, parts))) is not None


def _hands_on(script: ParsedFile, test: ast.expr, body: Sequence[ast.AST]) -> bool:
    """Return True if `body` passes the tensor whose device is tested to code that nobody knows."""
    return hands_to_an_extension(script, test, body) or hands_to_a_package(script, test, body)


def _has_an_alternative(branch: ast.If) -> bool:
    return bool(branch.orelse) or isinstance(branch.body[-1], (ast.Return, ast.Continue))


def _adds_an_index(statement: ast.stmt) -> bool:
    """Return True for `device += f":{rank}"`."""
    match statement:
        case ast.AugAssign(op=ast.Add(), value=added):
            parts: list[str | ast.expr] = [statement.target, *pieces(added)]
        case ast.Assign(targets=[ast.expr() as target], value=made):
            parts = pieces(made)
            if not isinstance(parts[0], ast.expr) or ast.unparse(parts[0]) != ast.unparse(target):
                return False
        case _:
            return False
    return len(parts) > 1 and str(parts[1]).startswith(":")


def leaves_the_rest(statement: ast.If) -> bool:
    """Return True for `if not torch.cuda.is_available(): return model(x)`."""
    return not statement.orelse and bool(denials(statement.test))


def is_answered_by_the_hardware(statement: ast.stmt) -> bool:
    """Return True for `if torch.cuda.get_device_capability()[0] < 8: return False`."""
    match statement:
        case ast.If(test=test, body=[*_, ast.Return(value=ast.Constant(value=(False | None)))]):
            return "get_device_capability" in ast.unparse(test)
    return False


def _text(script: ParsedFile, parts: Sequence[ast.stmt | ast.expr]) -> str:
    return "\n".join(script.segment(part) for part in parts)


def _are_kernels(script: ParsedFile, parts: Sequence[ast.stmt | ast.expr]) -> bool:
    """Return True if `parts` are CUDA-only code, by their names or what the names mean."""
    nodes = [node for part in parts for node in walk(part)]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    text = moving = _without_helpers(script, parts, calls)
    for refusal in nodes:
        if isinstance(refusal, ast.Raise):  # its message moves nothing
            moving = moving.replace(script.segment(refusal), "raise")
    if _MOVES.search(moving) is None:
        meant = [script.dotted(node) or "" for node in nodes if isinstance(node, ast.Attribute)]
        if _KERNELS.search("\n".join([text, *meant])):
            return True
        if any(is_of_an_engine(script.dotted(call.func)) for call in calls):
            return True
        if any(_stands_among_kernels(script, script.dotted(call.func)) for call in calls):
            return True
    if any(script.dotted(call.func) in _STREAMS for call in calls) and streams.stay(script):
        return True
    return (
        (bool(parts) and all(_orders_streams(script, part) for part in parts))
        or pins_memory(parts)
        or any(
            _holds_kernels(function) or _searches_on_cuda(script, function)
            for function in _functions(script, nodes)
        )
        or any(_holds_kernels(function) for _, function in wrapped_or_derived(script, nodes))
        or ("import " in text and any(_imports_kernels(script, node) for node in nodes))
    )


_STREAMS = streams.STREAMS | streams.CONTEXTS


def _functions(script: ParsedFile, nodes: list[ast.AST]) -> Iterator[ast.FunctionDef]:
    """Yield this file's functions that `nodes` name, called or passed."""
    for node in nodes:
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            found = script.value(node).definition
            if isinstance(found, ast.FunctionDef):
                yield found


def _holds_kernels(function: ast.FunctionDef) -> bool:
    """Return True if the function is a kernel, or imports one."""
    if any(_DEFINED.search(f"@{ast.unparse(each)}") for each in function.decorator_list):
        return True
    imports = (node for node in walk(function) if isinstance(node, (ast.Import, ast.ImportFrom)))
    return any(_is_kernel_code(ast.unparse(node)) for node in imports)


def _searches_on_cuda(script: ParsedFile, function: ast.FunctionDef) -> bool:
    """Return True if the function calls an engine's own code for CUDA: `faiss.index_cpu_to_all_gpus`."""
    called = (script.dotted(node.func) for node in walk(function) if isinstance(node, ast.Call))
    return any(is_of_an_engine(name) and _OF_GPUS.search(name or "") for name in called)


def _stands_among_kernels(script: ParsedFile, dotted: str | None) -> bool:
    """Return True if another module that defines, loads or binds kernels defines what `dotted` names."""
    modules, path = script.project.modules, script.project.path
    found = modules.locate(dotted, path) if dotted else None
    if dotted is None or found is None or found[0] == path:
        return False
    defined = modules.defined(dotted, path)
    text = modules.text(found[0] if defined is None else defined[1])
    return any(pattern.search(text) for pattern in (_LOADED, _DEFINED, _BOUND))


def _orders_streams(script: ParsedFile, part: ast.AST) -> bool:
    """Return True for `torch.cuda.current_stream(device).synchronize()`: XLA has no streams."""
    match part:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Call(func=made)))):
            return script.dotted(made) in {"torch.cuda.current_stream", "torch.cuda.default_stream"}
    return False


def _imports_kernels(script: ParsedFile, node: ast.AST) -> bool:
    """Return True if `node` imports a module of the project that compiles or loads kernels."""
    if not isinstance(node, (ast.Import, ast.ImportFrom)):
        return False
    for alias in node.names:
        home = script.index.scope(node).find(alias.asname or alias.name.partition(".")[0])
        bound = [each.dotted for each in (home[1] if home else ()) if each.node is node]
        if any(_stands_among_kernels(script, dotted) for dotted in bound):
            return True
    return False


def _without_helpers(
    script: ParsedFile, parts: Sequence[ast.stmt | ast.expr], calls: list[ast.Call]
) -> str:
    """Return the text of `parts`, without functions that are no kernels: `clear_cuda_memory()`."""
    text = _text(script, parts)
    for call in calls:
        name = f"{name_of(call.func)}("
        if _NAMED.search(name) and _is_a_helper(script, call):
            text = text.replace(name, "(")
    return text


def _is_a_helper(script: ParsedFile, call: ast.Call) -> bool:
    """Return True if `call` runs a function that calls only torch and Python, and no kernel."""
    function: ast.AST | None = script.value(call.func).definition
    function = function or script.local_method(call.func)
    scope: Scope | None = script.module
    if function is None:
        found = script.project.definition(script.dotted(call.func) or "")
        if found is not None:
            function, scope = found[0], script.project.modules.scope(found[1])
    if function is None or scope is None:
        return False
    home = scope
    return all(_is_plain(each, home) for each in reach([function], lambda f: _called(f, home)))


def _called(function: ast.AST, home: Scope) -> Iterator[ast.AST]:
    """Yield the functions of the module `home` with CUDA in their names that `function` calls."""
    for node in walk(function):
        if isinstance(node, ast.Call) and _NAMED.search(f"{getattr(node.func, 'id', '')}("):
            made = [b.node for b in home.bindings.get(name_of(node.func), ()) if b.how == "def"]
            yield from made if len(made) == 1 else ()


def _is_plain(function: ast.AST, home: Scope) -> bool:
    if not isinstance(function, FUNCTIONS):
        return False
    text = "\n".join(map(ast.unparse, function.body))
    for helper in _called(function, home):
        text = text.replace(f"{getattr(helper, 'name', '')}(", "(")
    calls = [node.func for node in walk(function) if isinstance(node, ast.Call)]
    packages = {(resolve(func, home) or "torch").partition(".")[0] for func in calls}
    # `apply` is that of an autograd function, of an extension
    applies = any(name_of(func) == "apply" for func in calls)
    return not applies and packages <= _PLAIN and not _is_kernel_code(text)


def answers_no(statement: ast.If) -> bool:
    """Return True for `if not torch.cuda.is_available(): return False`, and with None."""
    match statement:
        case ast.If(body=[ast.Return(value=ast.Constant(value=(False | None)))]):
            return bool(denials(statement.test))
    return False


def denials(test: ast.expr) -> list[ast.expr]:
    """Return `not a`, and both of `not a or not b`; nothing of other tests."""
    tests = test.values if isinstance(test, ast.BoolOp) else [test]
    joined = not isinstance(test, ast.BoolOp) or isinstance(test.op, ast.Or)
    return tests if joined and all(map(_is_a_no, tests)) else []


def _is_a_no(test: ast.expr) -> bool:
    match test:
        case ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Compare(ops=[ast.NotEq()], comparators=[ast.Constant(value="cuda")]):
            return True
        case ast.Compare(ops=[ast.NotIn()], comparators=[ast.Tuple() | ast.List() | ast.Set()]):
            return True
    return False


def is_among_kernels(script: ParsedFile, node: ast.expr) -> bool:
    """Return True if `node` is in a function that has to do with kernels: it may choose one."""
    function = script.function(node)
    if function is None or function.name in {"main", "train"} or _only_serves(script, node):
        return False
    text = script.segment(function).replace(script.segment(node), "")
    if _is_kernel_code(text):
        return True
    if _DEFINED.search(script.source.text) and _MOVES.search(text) is None:
        return True
    classes = [a for a in script.ancestors(function) if isinstance(a, ast.ClassDef)]
    if classes and is_answer(script, node) is not None:
        methods = [each for each in classes[0].body if isinstance(each, ast.FunctionDef)]
        if any(map(_holds_kernels, methods)):
            return True
    bases = (script.dotted(base) for each in classes for base in each.bases)
    return "torch.autograd.Function" in bases and bool(_LOADED.search(script.source.text))


def _only_serves(script: ParsedFile, node: ast.expr) -> bool:
    """Return True for `if x.is_cuda: torch.cuda.synchronize()`: only services are decided."""
    match script.statement(node):
        case ast.If(body=body, orelse=[]):
            calls = [
                s.value for s in body if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call)
            ]
            return len(calls) == len(body) and all(
                (script.dotted(call.func) or "").startswith(_SERVICES)
                and not _is_kernel_code(script.segment(call))
                for call in calls
            )
    return False


def _is_kernel_code(text: str) -> bool:
    return _KERNELS.search(text) is not None and _MOVES.search(text) is None
