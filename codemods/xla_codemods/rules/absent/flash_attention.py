"""flash_attn and xformers are CUDA kernels for attention.

## What it reports

Functions of flash_attn and xformers, and options that select them in transformers and diffusers.

## Why it matters on XLA

The kernels fail without CUDA. `scaled_dot_product_attention` of PyTorch computes the same.

## What to do

Fix: safe, unsafe or none.

Use `scaled_dot_product_attention`, or "sdpa" in transformers. It takes (batch, heads, sequence,
features), but `flash_attn_func` takes (batch, sequence, heads, features). With `causal=True` and
fewer queries than keys, flash_attn aligns the mask at the end and PyTorch at the beginning, so
the fix of a call is unsafe.

## Example

transformers selects attention by name:

```diff
 from transformers import AutoModelForCausalLM

 def build(name):
-    return AutoModelForCausalLM.from_pretrained(name, attn_implementation="flash_attention_2")
+    return AutoModelForCausalLM.from_pretrained(name, attn_implementation="sdpa")
```

A flag for CUDA that also moves the model becomes the accelerator's. The attention is still chosen
only for CUDA:

```diff
 import torch
 from transformers import AutoModelForCausalLM
+from xla_migrate import runtime as xla

 def build(name, attention):
-    use_cuda = torch.cuda.is_available()
+    use_cuda = xla.is_available()
-    chosen = attention if use_cuda else "sdpa"
+    chosen = attention if torch.cuda.is_available() else "sdpa"
     model = AutoModelForCausalLM.from_pretrained(name, attn_implementation=chosen)
-    return model.to("cuda" if use_cuda else "cpu")
+    return model.to(xla.xla_device() if use_cuda else "cpu")
```

A call of `flash_attn_func`:

```diff
 import torch.nn.functional as F
-from flash_attn import flash_attn_func

 def attend(q, k, v):
-    return flash_attn_func(q, k, v, causal=True)
+    return F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True).transpose(1, 2)
```

diffusers' switch for xformers is removed, because PyTorch's function is the default:

```diff
 def build(unet):
-    unet.enable_xformers_memory_efficient_attention()
     return unet
```

A script with a fallback gets a note:

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

PyTorch's function is not reported:

```python
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

def attend(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)

def build(name):
    return AutoModelForCausalLM.from_pretrained(name, attn_implementation="sdpa")
```

## Limits

Functions for packed sequences (`flash_attn_varlen_func`) are reported without a fix. Each new set
of lengths is a new graph on XLA: pad to a fixed length, and pass a mask.

## See also

XLA916
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.checks.flags import is_flag
from ...analysis.devices.cuda_only.chosen_attention import is_chosen_in, is_kept_from_hosts
from ...analysis.devices.guards import is_guarded
from ...analysis.frameworks.attention import chosen_attention
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal
from ...analysis.training.tensors.half_on_xla import for_cuda_only, is_true_on_xla
from ...edits import Edit, Replace, remove
from ...finding import HIGH, INFO, LOW, SAFE, UNSAFE, Finding
from ...rule import Rule

RULE = Rule("XLA904", "flash-attention", leftovers=HIGH, words=("flash", "attn_implementation"))

_CHOSEN = "the script uses this attention on CUDA only, but the rewritten script would also use it on XLA: choose it only for CUDA"
_HOMES = ("flash_attn", "flash_attn.flash_attn_interface", "flash_attn_interface")
_NAMES = frozenset({"flash_attention_2", "flash_attention_3"})

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
            "xformers fails without CUDA: use PyTorch's attention, which is the default",
            severity=INFO,
            effort=LOW,
        )
    elif script.is_statement(call):
        statement = script.statement(call)
        yield RULE.finding(
            script,
            call,
            "xformers fails without CUDA: remove the call, because PyTorch's attention is the default",
            remove(statement),
        )
    else:
        yield RULE.finding(
            script,
            call,
            "xformers fails without CUDA: remove the call, because PyTorch's attention is the default",
        )


@RULE.file
def implementation(script: Script) -> Iterator[Finding]:
    """`attn_implementation="flash_attention_2"`, wherever it is written."""
    for node in chosen_attention(script, _is_flash):
        if not is_guarded(script, node, "flash_attn"):
            text = script.segment(node)
            quote = text[:1]
            edit: Edit = Replace(node, f"{quote}sdpa{quote}")
            yield RULE.finding(
                script,
                node,
                f"`{text.strip(quote)}` fails without CUDA: use `sdpa`",
                edit,
                safety=SAFE,
            )
    for call, _ in script.index.of(ast.Call):
        for argument in call.keywords:
            if argument.arg == "use_flash_attention_2" and is_literal(argument.value, True):
                # The old spelling; torch's own function is what is used without it.
                edit = Replace(argument.value, "False")
                yield RULE.finding(
                    script,
                    argument.value,
                    "flash attention fails without CUDA: use PyTorch's attention (sdpa)",
                    edit,
                )


@RULE.file
def chosen_by_a_flag(script: Script) -> Iterator[Finding]:
    """`args.attn if use_cuda else "sdpa"`, where the rewritten flag is true on XLA, too."""
    choices: list[ast.If | ast.IfExp] = [node for node, _ in script.index.of(ast.IfExp)]
    choices += [node for node, _ in script.index.of(ast.If)]
    for choice in choices:
        denied = isinstance(choice.test, ast.UnaryOp) and isinstance(choice.test.op, ast.Not)
        flag = choice.test.operand if isinstance(choice.test, ast.UnaryOp) else choice.test
        if not is_flag(script, flag) or not _is_for_cuda(script, choice, denied):
            continue
        if is_true_on_xla(script, flag) and (edits := for_cuda_only(script, flag)):
            yield RULE.finding(script, flag, _CHOSEN, *edits)


def _is_for_cuda(script: Script, choice: ast.If | ast.IfExp, denied: bool) -> bool:
    """Return True if `choice` gives a model an attention for CUDA, and another without CUDA."""
    if isinstance(choice, ast.If):
        return is_chosen_in(script, choice, denied)
    with_cuda = choice.orelse if denied else choice.body
    return is_kept_from_hosts(script, choice, with_cuda)


def _is_flash(name: str) -> bool:
    """Also "paged|flash_attention_2", and kernels of the Hub, as "kernels-community/flash-attn3"."""
    return name.rpartition("|")[2] in _NAMES or (
        name.startswith("kernels-community/") and "flash" in name
    )
