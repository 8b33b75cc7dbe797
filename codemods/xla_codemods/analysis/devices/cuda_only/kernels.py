"""Code of CUDA's own, and questions for CUDA that choose it: where they fail, the code for XLA is chosen."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ....patterns import Pattern
from ...inference.library_types import RUNTIME
from ...nodes import walk
from ...scopes import resolve
from ...syntax import name_of
from ..non_device_calls import is_of_an_engine
from . import streams
from .answers import all_uses, is_answer
from .extensions import hands_to_an_extension

if TYPE_CHECKING:
    from ...parsed_file import ParsedFile
    from ...projects.attribute_uses import AttributeUse
    from ...scopes import Scope

# CUDA-only code that no rule can replace: if a test for CUDA chooses it, the other branch is
# the one for XLA.
_KERNELS = Pattern(
    r"triton|flash_?attn|flash_attention|xformers|cpp_extension|CUDAExtension|load_inline|(?<![a-z])cupy|numba|tensorrt|CUDAExecution|onnxruntime-gpu|paddlepaddle|enable_use_gpu"
    r"|torch\.ops\.(?!aten)|_kernels?\b|cuda_(?:ext|kernel|obj)|(?<!is)(?<!to)(?<!use)(?<!init)(?<!require)(?<!requires)(?<!check)(?<!ensure)(?<!assert)(?<!need)(?<!needs)_cuda\w*\("
    r"|get_device_capability|get_arch_list|is_current_stream_capturing|sync_debug_mode|CUDAGraph|cuda\.graph\b|make_graphed|nvml"
    r"|cuda\.(?:nccl|comm)\.|memory_snapshot|_record_memory|_dump_snapshot|cuda\.(?:utilization|temperature|power_draw)|peer\("
    r"|(?-i:[a-z]Cuda\()|CudaKernel|(?:CUDA|GPU|XPU) kernels|philox|transformer_engine|mamba_ssm|causal_conv1d|selective_scan|cusolver|gesvd|\bgels"
    r"|(?<!attr)\(torch\.cuda[,)]|, ?torch\.cuda[,)]|\b(?:Int8Params|FP4Params|Params4bit)\b|\bout_dtype=|\bmulti_tensor_\w+\(|data_ptr\(\) %|extra_cuda_cflags|\.cu[\"']|[\"']gpu_hist[\"']",
    re.IGNORECASE,
)
# What of this says only how a function is called, which may be a helper of the project's own.
_NAMED = Pattern(r"_cuda\w*\(", re.IGNORECASE)
_PLAIN = frozenset({"torch", "numpy", *sys.stdlib_module_names})
_MOST_CALLS = 4
# Properties of CUDA's hardware that are read after a test for CUDA.
_HARDWARE = Pattern(
    r"propert\w+(?:\([^\n]*\))?\.(?:major|minor|L2_cache_size|multi_processor_count|warp_size|gcnArchName)|SDPAParams"
)
# The device that such a question names moves nothing.
_ASKED_OF_A_DEVICE = Pattern(r"get_device_properties\([^\n]*\)")
# Beside a question for CUDA: whether an operation of cuDNN's may be called.
_CUDNN = Pattern(r"\bcudnn\.(?:enabled|is_acceptable|is_available)")
# Features that only CUDA has, by the names of the options that enable them.
_FEATURES = Pattern(r"fp8|float8|cuda_?graph", re.IGNORECASE)
# Or whether a package with kernels was found: `fused_adam is not None and torch.cuda.is_available()`.
_FOUND = Pattern(r"(?:fused|apex|triton|kernel)\w* is not None", re.IGNORECASE)
# How a file gets the kernels that its autograd functions call.
_LOADED = Pattern(r"cpp_extension|load_(?:cuda_)?kernels?\b|get_kernel\(|load_inline")
_SERVICES = ("torch.cuda.", f"{RUNTIME}.")
# Kernels that stand in the file itself, or are launched there.
_DEFINED = Pattern(
    r"^\s*@(?:triton|helion|tilelang|cuda|numba\.cuda)\.(?:jit|kernel)\b|^\s*@(?:[\w.]+\.)?triton_op\b|\bwrap_triton\(|\w_kernel\w*\[.+\]\(",
    re.MULTILINE,
)
# Kernels that are compiled when the program runs, and another library's that are chosen by a name.
_COMPILED = Pattern(r"cpp_extension|load_inline|extra_cuda_cflags|\.cu[\"']|CUDAExecution")
# Messages that refuse such code: `assert torch.cuda.is_available(), "CUDA required for bitsandbytes"`.
_REFUSED = Pattern(
    r"bitsandbytes|\bbnb\b|\bapex\b|awq|gptq|eetq|marlin|xformers|flash.?att|deepspeed|to quantize|quanti[sz]ation",
    re.IGNORECASE,
)
# How copies are made, by the names of arguments.
_OF_COPIES = Pattern(r"_*(?:pin(?:_|$)|pinned|non_?blocking)")
# Names that have to do with packages, of other libraries.
_INSTALLS = Pattern(r"requirement|^pip|install", re.IGNORECASE)
_MOVES = Pattern(
    r"\.cuda\(|\.to\((?!torch\.cuda\.)|manual_seed|set_device|(?<!return \()[\"']cuda[:\"']|xla_device"
)


def chooses_kernels(script: ParsedFile, node: ast.expr) -> bool:
    """True if `node` checks for CUDA to choose code that only CUDA runs: where the check fails, the right code is chosen."""
    if _chooses_a_package(script, node) or _chooses_how_to_copy(script, node):
        return True
    if _is_used_for_kernels(script, node):
        return True
    child: ast.AST = node
    for ancestor in script.ancestors(node):
        if isinstance(ancestor, ast.BoolOp) and isinstance(ancestor.op, ast.And):
            if _CUDNN.search(script.segment(ancestor)):
                return True
            beside = [script.segment(value) for value in ancestor.values if value is not child]
            if any(_FEATURES.search(text) or _FOUND.search(text) for text in beside):
                return True
            asked = ancestor.values[ancestor.values.index(child) + 1 :]  # type: ignore[arg-type]
            if any(_is_kernel_code(script.segment(value)) for value in asked):
                return True
            if any(_asks_for_rocm(script, value) for value in asked):
                return True
        if isinstance(ancestor, ast.Assert) and ancestor.msg is not None:
            return (
                child is ancestor.test and _REFUSED.search(script.segment(ancestor.msg)) is not None
            )
        if isinstance(ancestor, ast.If) and child is ancestor.test and answers_no(ancestor):
            function = script.function(ancestor)
            if function is not None and _FEATURES.search(function.name):
                return True
            block = script.block(ancestor)
            place = block.index(ancestor)
            before = [s.test for s in block[: place + 1] if isinstance(s, ast.If)]
            if any(_CUDNN.search(script.segment(test)) for test in before):
                return True
            rest = block[place + 1 :]
            text = "\n".join(script.segment(statement) for statement in rest)
            if _HARDWARE.search(text) or _KERNELS.search(text):
                return True
            return any(_calls_what_asks_the_hardware(script, statement) for statement in rest)
        if isinstance(ancestor, ast.If) and isinstance(ancestor.body[-1], ast.Raise):
            if child is ancestor.test and _REFUSED.search(script.segment(ancestor.body[-1])):
                return True
            if child is ancestor.test and denials(ancestor.test) and not ancestor.orelse:
                block = script.block(ancestor)
                rest = block[block.index(ancestor) + 1 :]
                text = "\n".join(script.segment(statement) for statement in rest)
                if _COMPILED.search(text) and _MOVES.search(text) is None:
                    return True
        if isinstance(ancestor, ast.If) and child is ancestor.test and leaves_the_rest(ancestor):
            block = script.block(ancestor)
            rest = block[block.index(ancestor) + 1 :]
            if _are_kernels(script, rest) or _asks_the_hardware(script, rest):
                return True
        if isinstance(ancestor, (ast.If, ast.IfExp)) and child is ancestor.test:
            body = ancestor.body if isinstance(ancestor.body, list) else [ancestor.body]
            if denials(ancestor.test) and _is_for_kernels(script, ancestor.orelse):
                return True
            return _are_kernels(script, body) or hands_to_an_extension(script, node, body)
        if isinstance(ancestor, (ast.Assign, ast.AnnAssign)):
            targets = ancestor.targets if isinstance(ancestor, ast.Assign) else [ancestor.target]
            if any(_KERNELS.search(ast.unparse(target)) for target in targets):
                return True
            return len(targets) == 1 and _decides_kernels(script, targets[0])
        if isinstance(ancestor, ast.Return):
            function = script.function(ancestor)
            return function is not None and _KERNELS.search(function.name) is not None
        if isinstance(ancestor, ast.stmt):
            return False
        child = ancestor
    return False


def _is_used_for_kernels(script: ParsedFile, test: ast.expr) -> bool:
    """Return True if `test` decides what a function returns, and every use of the function chooses kernels."""
    function = is_answer(script, test)
    if function is None:
        return False
    decided: dict[ast.AST, bool] = script.cached(_decided)
    if function not in decided:
        decided[function] = False  # a function that calls itself
        decided[function] = all_uses(
            script, function, lambda use: _chooses(script, use), _chooses_elsewhere
        )
    return decided[function]


def _decided(script: ParsedFile) -> dict[ast.AST, bool]:
    """Functions that test for CUDA, and whether all their uses choose kernels."""
    return {}


def _chooses(script: ParsedFile, use: ast.expr) -> bool:
    """Return True if a use of a function that tests for CUDA chooses kernels."""
    parent = script.parent(use)
    if isinstance(use, ast.Call) or not isinstance(
        parent, (ast.Call, ast.keyword, ast.FunctionDef)
    ):
        if not isinstance(parent, (ast.Dict, ast.List, ast.Tuple)):
            return chooses_kernels(script, use)
    holder = parent if isinstance(parent, ast.FunctionDef) else script.statement(use)
    return holder is not None and _are_kernels(script, [holder])


def _chooses_elsewhere(use: AttributeUse) -> bool:
    """`_chooses` for a use in another module."""
    parents = use.home.parents
    child: ast.AST = use.node
    parent = parents.get(child)
    while parent is not None:
        if isinstance(parent, (ast.If, ast.IfExp)) and child is parent.test:
            body = parent.body if isinstance(parent.body, list) else [parent.body]
            return any(_is_kernel_part(part, use.scope) for part in body)
        if isinstance(parent, ast.stmt):
            return _is_kernel_code(ast.unparse(parent))
        child, parent = parent, parents.get(parent)
    return False


def _is_kernel_part(part: ast.AST, scope: Scope) -> bool:
    """Return True if `part` is kernel code, or calls a function of its module that is."""
    if _is_kernel_code(ast.unparse(part)):
        return True
    names = (node for node in walk(part) if isinstance(node, ast.Name))
    for name in names:
        found = scope.find(name.id)
        for binding in found[1] if found is not None else ():
            if isinstance(binding.node, ast.FunctionDef) and _holds_kernels(binding.node):
                return True
    return False


def _is_for_kernels(script: ParsedFile, other: ast.expr | list[ast.stmt]) -> bool:
    """`_are_kernels` of what stands behind `else`: `if not torch.cuda.is_available(): ... else: graph = torch.cuda.CUDAGraph()`."""
    return _are_kernels(script, other if isinstance(other, list) else [other])


def _chooses_a_package(script: ParsedFile, node: ast.expr) -> bool:
    """True in `check_requirements(f"tensorflow{'' if torch.cuda.is_available() else '-cpu'}")`."""
    for ancestor in script.ancestors(node):
        if isinstance(ancestor, ast.Call) and _INSTALLS.search(_called(ancestor)):
            return True
        if isinstance(ancestor, ast.stmt):
            break
    return False


def _chooses_how_to_copy(script: ParsedFile, node: ast.expr) -> bool:
    """True in `x.to(device, non_blocking=device.type == "cuda")` and `pin_memory = x.is_cuda`: it is CUDA that pins, and XLA
    copies as it does.
    """
    child: ast.AST = node
    for ancestor in script.ancestors(node):
        match ancestor:
            case ast.BoolOp() | ast.UnaryOp() | ast.Compare() | ast.IfExp():
                child = ancestor
            case ast.keyword(arg=str(name)):
                return _OF_COPIES.match(name) is not None
            case ast.Assign(targets=[ast.Name(id=name)]):
                return _OF_COPIES.match(name) is not None and _says_how_to_copy(script, name)
            case ast.Dict(keys=keys, values=values):
                key = next((k for k, value in zip(keys, values) if value is child), None)
                return (
                    isinstance(key, ast.Constant) and _OF_COPIES.match(str(key.value)) is not None
                )
            case _:
                return False
    return False


def _says_how_to_copy(script: ParsedFile, name: str) -> bool:
    """True if all that is done with `name` is to hand it on: `to(device, non_blocking=non_blocking)`."""
    uses = [
        script.parent(node)
        for node, _ in script.index.names(name)
        if isinstance(node.ctx, ast.Load)
    ]
    return bool(uses) and all(
        isinstance(use, ast.keyword) and _OF_COPIES.match(use.arg or "") for use in uses
    )


def leaves_the_rest(statement: ast.If) -> bool:
    """`if not torch.cuda.is_available(): return model(x)`: what stands below is for CUDA."""
    if statement.orelse or not isinstance(statement.body[-1], (ast.Return, ast.Continue)):
        return False
    noes = denials(statement.test)
    return bool(noes) and all(isinstance(no, ast.UnaryOp) for no in noes)


def _asks_the_hardware(script: ParsedFile, rest: Sequence[ast.stmt]) -> bool:
    """True if `rest` goes by what CUDA's hardware is, and moves nothing there."""
    text = "\n".join(script.segment(part) for part in rest)
    return (
        _HARDWARE.search(text) is not None
        and _MOVES.search(_ASKED_OF_A_DEVICE.compiled.sub("", text)) is None
    )


def _calls_what_asks_the_hardware(script: ParsedFile, part: ast.AST) -> bool:
    """True if `part` calls a function of this file that CUDA's hardware answers: `return grouped_mm_supported(index)`."""
    for call in (node for node in walk(part) if isinstance(node, ast.Call)):
        function = script.value(call.func).definition
        if isinstance(function, ast.FunctionDef):
            if any(is_answered_by_the_hardware(s) for s in function.body):
                return True
    return False


def is_answered_by_the_hardware(statement: ast.stmt) -> bool:
    """`if torch.cuda.get_device_capability()[0] < 8: return False`: what stands below runs on CUDA alone."""
    match statement:
        case ast.If(test=test, body=[*_, ast.Return(value=ast.Constant(value=(False | None)))]):
            return "get_device_capability" in ast.unparse(test)
    return False


def _decides_kernels(script: ParsedFile, target: ast.expr) -> bool:
    """True if all that hangs on this name is CUDA's own: `graphs = graphs and torch.cuda.is_available()`, `if graphs:`."""
    if not isinstance(target, ast.Name):
        return False
    found = script.index.scope(target).find(target.id)
    reads = script.index.reads_of(found[0], target.id) if found is not None else []
    uses = [node for node in reads if not _takes_part_in(script, node, target)]
    return bool(uses) and all(_is_test_of_kernels(script, node) for node in uses)


def _takes_part_in(script: ParsedFile, node: ast.AST, target: ast.Name) -> bool:
    return script.statement(node) is script.statement(target)


def _is_test_of_kernels(script: ParsedFile, node: ast.expr) -> bool:
    child: ast.AST = node
    around = script.parent(node)
    if isinstance(around, ast.BoolOp) and isinstance(around.op, ast.And):
        child, around = around, script.parent(around)
    if not isinstance(around, (ast.If, ast.IfExp)) or child is not around.test:
        return False
    return _are_kernels(script, around.body if isinstance(around, ast.If) else [around.body])


def _are_kernels(script: ParsedFile, parts: Sequence[ast.stmt | ast.expr]) -> bool:
    """True if `parts` hold code of CUDA's own, by the names that they are written with or that these stand for."""
    text = _without_helpers(script, parts)
    said = text  # messages of a refusal move nothing
    for refused in (n for part in parts for n in walk(part) if isinstance(n, ast.Raise)):
        said = said.replace(script.segment(refused), "raise")
    if _KERNELS.search(text) is not None and _MOVES.search(said) is None:
        return True
    if parts and all(_orders_streams(script, part) for part in parts):
        return True
    calls = (n for part in parts for n in walk(part) if isinstance(n, ast.Call))
    if _MOVES.search(said) is None and any(is_of_an_engine(script.dotted(c.func)) for c in calls):
        return True
    if _uses_streams(script, parts) or any(map(_holds_kernels, _functions(script, parts))):
        return True
    if "import " in text and any(_imports_kernels(script, part) for part in parts):
        return True
    names = (n for part in parts for n in walk(part) if isinstance(n, ast.Attribute))
    meant = "\n".join(script.dotted(name) or "" for name in names)
    return _KERNELS.search(meant) is not None and _MOVES.search(said) is None


def _uses_streams(script: ParsedFile, parts: Sequence[ast.stmt | ast.expr]) -> bool:
    """Return True if `parts` make or enter a CUDA stream, and the file's streams cannot be removed."""
    names = streams.STREAMS | streams.CONTEXTS
    calls = (n for part in parts for n in walk(part) if isinstance(n, ast.Call))
    return any(script.dotted(call.func) in names for call in calls) and streams.stay(script)


def _functions(
    script: ParsedFile, parts: Sequence[ast.stmt | ast.expr]
) -> Iterator[ast.FunctionDef]:
    """Yield this file's functions that `parts` name, called or passed."""
    for node in (n for part in parts for n in walk(part)):
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


def _orders_streams(script: ParsedFile, part: ast.AST) -> bool:
    """`torch.cuda.current_stream(device).synchronize()`: between streams of CUDA's, which XLA has not."""
    match part:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Call(func=made)))):
            return script.dotted(made) in {"torch.cuda.current_stream", "torch.cuda.default_stream"}
    return False


def _imports_kernels(script: ParsedFile, part: ast.AST) -> bool:
    """True if `part` imports from a module of the project that compiles or loads kernels: `from .ops.spmm import spmm`."""
    if script.project is None or not isinstance(part, (ast.stmt, ast.expr)):
        return False
    modules, path = script.project.modules, script.project.path
    for node in walk(part):
        for alias in node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else ():
            home = script.index.scope(node).find(alias.asname or alias.name.partition(".")[0])
            for binding in home[1] if home is not None else ():
                found = modules.locate(binding.dotted, path) if binding.node is node else None
                if found is not None and found[0] != path:
                    script.project.asked = True
                    text = modules.text(found[0])
                    if _LOADED.search(text) or _DEFINED.search(text):
                        return True
    return False


def _without_helpers(script: ParsedFile, parts: Sequence[ast.stmt | ast.expr]) -> str:
    """Return the text of `parts`, without the project's functions that are not kernels: `clear_cuda_memory()`."""
    text = "\n".join(script.segment(part) for part in parts)
    if not _NAMED.search(text):
        return text
    for call in (n for part in parts for n in walk(part) if isinstance(n, ast.Call)):
        if not _NAMED.search(f"{_called(call)}("):
            continue
        function: ast.AST | None = script.value(call.func).definition
        function = function or script.local_method(call.func)
        scope: Scope | None = script.module
        if function is None and script.project is not None:
            found = script.project.definition(script.dotted(call.func) or "")
            if found is not None:
                function, scope = found[0], script.project.modules.scope(found[1])
        if scope is not None and _is_a_helper(function, scope, _MOST_CALLS):
            text = text.replace(f"{_called(call)}(", "(")
    return text


def _is_a_helper(function: ast.AST | None, scope: Scope, depth: int) -> bool:
    """True if `function`, in the module of `scope`, calls nothing but torch, Python and others like it, and no kernel."""
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or not depth:
        return False
    text = "\n".join(ast.unparse(statement) for statement in function.body)
    for call in (node for node in walk(function) if isinstance(node, ast.Call)):
        name = _called(call)
        package = (resolve(call.func, scope) or "torch").partition(".")[0]
        if name == "apply" or package not in _PLAIN:
            return False  # of an autograd function, of an extension
        if _NAMED.search(f"{name}(") and isinstance(call.func, ast.Name):
            made = [b.node for b in scope.bindings.get(name, ()) if b.how == "def"]
            if len(made) == 1 and _is_a_helper(made[0], scope, depth - 1):
                text = text.replace(f"{name}(", "(")
    return not _is_kernel_code(text)


def _called(call: ast.Call) -> str:
    return name_of(call.func)


def _asks_for_rocm(script: ParsedFile, test: ast.expr) -> bool:
    """`torch.version.hip`, `torch.version.hip is not None`: whose devices are called CUDA's, too."""
    match test:
        case ast.Compare(left=left, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            test = left
    return script.dotted(test) == "torch.version.hip"


def answers_no(statement: ast.If) -> bool:
    """`if not torch.cuda.is_available(): return False`, `if device.type != "cuda" or not FAST: return None`."""
    match statement:
        case ast.If(body=[ast.Return(value=ast.Constant(value=(False | None)))]):
            return bool(denials(statement.test))
    return False


def denials(test: ast.expr) -> list[ast.expr]:
    """`not a`, and both of `not a or not b`: below such a test both hold. None of any other."""
    asked = test.values if isinstance(test, ast.BoolOp) else [test]
    joined = not isinstance(test, ast.BoolOp) or isinstance(test.op, ast.Or)
    return asked if joined and all(map(_is_a_no, asked)) else []


def _is_a_no(test: ast.expr) -> bool:
    match test:
        case ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Compare(ops=[ast.NotEq()], comparators=[ast.Constant(value="cuda")]):
            return True
    return False


def is_among_kernels(script: ParsedFile, node: ast.expr) -> bool:
    """True if `node` stands in a function that has to do with kernels: what it chooses then may be one of them."""
    function = script.function(node)
    if function is None or function.name in {"main", "train"} or _only_serves(script, node):
        return False
    text = script.segment(function).replace(script.segment(node), "")
    if _is_kernel_code(text):
        return True
    if _DEFINED.search(script.source.text) and _MOVES.search(text) is None:
        return True
    return _LOADED.search(script.source.text) is not None and any(
        isinstance(around, ast.ClassDef)
        and any(script.dotted(base) == "torch.autograd.Function" for base in around.bases)
        for around in script.ancestors(function)
    )


def _only_serves(script: ParsedFile, node: ast.expr) -> bool:
    """True if all that hangs on `node` are calls of torch.cuda's services: `if x.is_cuda: torch.cuda.synchronize()`."""
    child: ast.AST = node
    for ancestor in script.ancestors(node):
        if isinstance(ancestor, ast.If):
            return (
                child is ancestor.test
                and not ancestor.orelse
                and all(
                    isinstance(statement, ast.Expr)
                    and isinstance(statement.value, ast.Call)
                    and (script.dotted(statement.value.func) or "").startswith(_SERVICES)
                    and not _is_kernel_code(script.segment(statement))
                    for statement in ancestor.body
                )
            )
        if isinstance(ancestor, ast.stmt):
            return False
        child = ancestor
    return False


def _is_kernel_code(text: str) -> bool:
    return _KERNELS.search(text) is not None and _MOVES.search(text) is None
