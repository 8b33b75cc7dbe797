"""flash_attn and xformers are CUDA kernels of what torch's `scaled_dot_product_attention` computes.

A model of transformers is told by its name which one to use; "sdpa" is torch's own, and the default:

```diff
 from transformers import AutoModelForCausalLM

 def build(name):
-    return AutoModelForCausalLM.from_pretrained(name, attn_implementation="flash_attention_2")
+    return AutoModelForCausalLM.from_pretrained(name, attn_implementation="sdpa")
```

`flash_attn_func` takes (batch, sequence, heads, features), torch's function (batch, heads, sequence, features). Both
compute the same up to rounding, but for one thing: with `causal=True` and queries fewer than keys, flash_attn aligns
the mask at the end, torch at the beginning. So its calls are replaced only when asked for:

```diff
 import torch.nn.functional as F
-from flash_attn import flash_attn_func

 def attend(q, k, v):
-    return flash_attn_func(q, k, v, causal=True)
+    return F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True).transpose(1, 2)
```

diffusers' switch for xformers goes; its default is torch's function:

```diff
 def build(unet):
-    unet.enable_xformers_memory_efficient_attention()
     return unet
```

Functions over packed sequences of varying lengths (`flash_attn_varlen_func`) are left to a person: every new set of
lengths is a new graph on XLA, so pad to a fixed length and give a mask. What is asked for only where it is installed
is worth knowing, and no fault:

```python
try:
    from flash_attn import flash_attn_func
except ImportError:
    flash_attn_func = None

def attend(q, k, v, fallback):
    if flash_attn_func is None:  # XLA904
        return fallback(q, k, v)
    return flash_attn_func(q, k, v, window_size=(128, 0))  # XLA904
```

torch's function stays, and so does a model that is told to use it.

```python
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

def attend(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)

def build(name):
    return AutoModelForCausalLM.from_pretrained(name, attn_implementation="sdpa")
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.devices.guards import is_guarded
from ...edits import Edit, Replace, remove
from ...fallback import leftovers
from ...finding import HIGH, INFO, LOW, SAFE, UNSAFE, Finding
from ...rule import IN_TRAINING, Rule, Unhandled

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA904", "flash-attention")

_HOMES = ("flash_attn", "flash_attn.flash_attn_interface", "flash_attn_interface")
_NAMES = frozenset({"flash_attention_2", "flash_attention_3"})
_KEY = "attn_implementation"

# Parameters that torch's function has too, in flash_attn's order behind the tensors.
_ORDER = ("dropout_p", "softmax_scale", "causal")
_SAME = {"dropout_p": "dropout_p", "softmax_scale": "scale", "causal": "is_causal"}


@RULE.call(*(f"{home}.flash_attn_func" for home in _HOMES))
def attention(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from _function(
        script,
        call,
        scope,
        ("q", "k", "v"),
        "{0}.transpose(1, 2), {1}.transpose(1, 2), {2}.transpose(1, 2)",
    )


@RULE.call(*(f"{home}.flash_attn_qkvpacked_func" for home in _HOMES))
def packed(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from _function(
        script, call, scope, ("qkv",), "*(t.transpose(1, 2) for t in {0}.unbind(2))"
    )


@RULE.call(*(f"{home}.flash_attn_kvpacked_func" for home in _HOMES))
def half_packed(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from _function(
        script,
        call,
        scope,
        ("q", "kv"),
        "{0}.transpose(1, 2), *(t.transpose(1, 2) for t in {1}.unbind(2))",
    )


def _function(
    script: Script, call: ast.Call, scope: Scope, tensors: tuple[str, ...], text: str
) -> Iterator[Finding]:
    message = "flash_attn fails without CUDA: use `scaled_dot_product_attention`"
    severity, effort = (INFO, LOW) if is_guarded(script, call.func, "flash_attn") else (None, None)
    given = _arguments(call, (*tensors, *_ORDER))
    if given is None or severity == INFO:
        yield RULE.finding(script, call, message, severity=severity, effort=effort or HIGH)
        return
    holes = [given[name] for name in tensors]
    for name in _ORDER:
        if name in given:
            text += f", {_SAME[name]}={{{len(holes)}}}"
            holes.append(given[name])
    function = script.spell("torch.nn.functional.scaled_dot_product_attention", scope)
    edit = Replace(call, f"{function}({text}).transpose(1, 2)", tuple(holes))
    yield RULE.finding(script, call, message, edit, safety=UNSAFE)


def _arguments(call: ast.Call, names: tuple[str, ...]) -> dict[str, ast.expr] | None:
    """What is given for the parameters `names`; None where something else is given, or a tensor is not."""
    if len(call.args) > len(names) or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    given = dict(zip(names, call.args))
    for argument in call.keywords:
        if argument.arg == "deterministic":
            continue
        if argument.arg not in names:
            return None
        given[argument.arg] = argument.value
    tensors = [name for name in names if name not in _ORDER]
    return given if all(name in given for name in tensors) else None


@RULE.method(
    "enable_xformers_memory_efficient_attention", "set_use_memory_efficient_attention_xformers"
)
def switch(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """The switch of diffusers: its default is torch's own function."""
    if is_guarded(script, call, "xformers"):
        yield RULE.finding(
            script,
            call,
            "xformers fails without CUDA: use torch's own attention, the default",
            severity=INFO,
            effort=LOW,
        )
    elif script.is_statement(call):
        statement = script.statement(call)
        yield RULE.finding(
            script,
            call,
            "xformers fails without CUDA: remove this, because torch's own attention is the default",
            remove(statement),
        )
    else:
        yield RULE.finding(
            script,
            call,
            "xformers fails without CUDA: remove this, because torch's own attention is the default",
        )


@RULE.file(mentions=IN_TRAINING)
def implementation(script: Script) -> Iterator[Finding]:
    """`attn_implementation="flash_attention_2"`, wherever it is written."""
    if not script.source.mentions("flash_attention"):
        return
    for node, _ in script.index.of(ast.Constant):
        if not (isinstance(node.value, str) and node.value in _NAMES):
            continue
        if _is_chosen(script, node) and not is_guarded(script, node, "flash_attn"):
            quote = script.segment(node)[:1]
            edit: Edit = Replace(node, f"{quote}sdpa{quote}")
            yield RULE.finding(
                script, node, f"`{node.value}` fails without CUDA: use `sdpa`", edit, safety=SAFE
            )
    for call, _ in script.index.of(ast.Call):
        for argument in call.keywords:
            if argument.arg == "use_flash_attention_2" and _is_true(argument.value):
                # The old spelling; torch's own function is what is used without it.
                edit = Replace(argument.value, "False")
                yield RULE.finding(
                    script,
                    argument.value,
                    "flash attention fails without CUDA: use torch's own attention (sdpa)",
                    edit,
                )


def _is_chosen(script: Script, node: ast.Constant) -> bool:
    """True if `node` is given as the implementation: to a parameter, key or variable of that name."""
    child: ast.AST = node
    parent = script.parent(node)
    while isinstance(parent, (ast.IfExp, ast.BoolOp)):
        if isinstance(parent, ast.IfExp) and parent.test is child:
            return False
        child, parent = parent, script.parent(parent)
    match parent:
        case ast.keyword(arg=name):
            call = script.parent(parent)
            return _is_key(name) or (
                name == "default" and isinstance(call, ast.Call) and _is_option(call)
            )
        case ast.Dict():
            keys = [k for k, v in zip(parent.keys, parent.values) if v is child]
            return any(isinstance(k, ast.Constant) and _is_key(k.value) for k in keys)
        case ast.Assign(targets=targets):
            return any(_is_key(_last(target)) for target in targets)
        case ast.AnnAssign(target=target):
            return _is_key(_last(target))
        case ast.arguments():
            return _is_default_of_one(parent, child)
    return False


def _is_key(name: object) -> bool:
    return isinstance(name, str) and name.lower().replace("-", "_").strip("_").endswith(_KEY)


def _is_option(call: ast.Call) -> bool:
    """`add_argument("--attn_implementation", default=...)`."""
    return any(isinstance(a, ast.Constant) and _is_key(a.value) for a in call.args)


def _is_default_of_one(arguments: ast.arguments, default: ast.AST) -> bool:
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults),
        *zip(arguments.kwonlyargs, arguments.kw_defaults),
    ]
    return any(value is default and _is_key(parameter.arg) for parameter, value in pairs)


def _last(target: ast.expr) -> str:
    match target:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return key
    return ""


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


@RULE.fallback
def flash_attention(script: Script, unhandled: Unhandled) -> Iterator[Finding]:
    yield from leftovers(RULE, script, unhandled, HIGH)
