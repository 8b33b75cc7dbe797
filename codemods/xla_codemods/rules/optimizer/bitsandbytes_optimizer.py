"""bitsandbytes' optimizers are CUDA kernels.

## What it reports

The optimizers of `bitsandbytes.optim`, as calls and as classes that are called later.

## Why it matters on XLA

bitsandbytes fails without CUDA.

## What to do

Fix: safe, unsafe or none.

Use the full-precision optimizer. For 32-bit optimizers the fix is safe. For 8-bit optimizers it
is unsafe: rounding differs, and the state of Adam takes 8 bytes per parameter instead of 2.
Peculiarities of bitsandbytes are kept: its Adam has decoupled weight decay, as AdamW, and ignores
`amsgrad`; its SGD ignores `nesterov` and `dampening`.

## Example

```diff
 import torch
-import bitsandbytes as bnb
+import timm.optim

-optimizer = bnb.optim.AdamW8bit(model.parameters(), lr=2e-5, betas=(0.9, 0.95))
+optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, betas=(0.9, 0.95))
-decaying = bnb.optim.PagedAdam32bit(model.parameters(), lr=2e-5, weight_decay=0.1, optim_bits=32)
+decaying = torch.optim.AdamW(model.parameters(), lr=2e-5, weight_decay=0.1)
-lion = bnb.optim.Lion8bit(model.parameters(), lr=1e-4)
+lion = timm.optim.Lion(model.parameters(), lr=1e-4)
```

Classes that are called later:

```diff
 import torch

 def make(args, params):
     if args.use_8bit_adam:
-        try:
-            import bitsandbytes as bnb
-        except ImportError:
-            raise ImportError("pip install bitsandbytes")
-        optimizer_class = bnb.optim.AdamW8bit
+        optimizer_class = torch.optim.AdamW
     else:
         optimizer_class = torch.optim.AdamW
     return optimizer_class(params, lr=args.lr, weight_decay=args.decay)
```

LAMB, LARS and AdEMAMix have no equivalent. They are reported without a fix:

```python
import torch
import bitsandbytes as bnb

optimizer = bnb.optim.LARS(model.parameters(), lr=0.1, momentum=0.9)  # XLA302
```

Optimizers of the same name from other packages are not reported:

```python
import torch
from mylib.optimizers import AdamW8bit

optimizer = AdamW8bit(model.parameters(), lr=1e-3)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_handed_on, keyword
from ...analysis.training.optimizer_equivalents import (
    ADAGRAD,
    ADAM,
    LION,
    RMSPROP,
    SGD,
    Equivalent,
    NoCounterpart,
    edits,
    stands_in,
    told_of_import,
)
from ...edits import Replace
from ...finding import MEDIUM, SAFE, UNSAFE, Finding
from ...rule import Rule

RULE = Rule("XLA302", "bitsandbytes-optimizer")

# Parameters and defaults: bitsandbytes 0.50 (95f9af3), bitsandbytes/optim/*.py; formulas: csrc/kernels.cu. Versions
# before 0.45 have `percentile_clipping` and `block_wise` too, which do nothing at their defaults.
_HOW = frozenset({"optim_bits", "args", "min_8bit_size", "block_wise", "is_paged"})
_CLIPPING = {"percentile_clipping": 100}

_ADAMW = Equivalent(
    "torch.optim.AdamW",
    (*ADAM, "optim_bits", "args", "min_8bit_size"),
    ADAM,
    dropped=_HOW | {"amsgrad"},
    only=_CLIPPING,
)
_ADAM = _ADAMW._replace(target="torch.optim.Adam")
_EQUIVALENTS = {
    "AdamW": _ADAMW,
    "Adam": _ADAM,
    "Lion": Equivalent(
        "timm.optim.Lion", (*LION, "optim_bits"), LION, dropped=_HOW, only=_CLIPPING
    ),
    "SGD": Equivalent(
        "torch.optim.SGD",
        (*SGD, "optim_bits"),
        SGD,
        dropped=_HOW | {"dampening", "nesterov"},
        only=_CLIPPING,
    ),
    "RMSprop": Equivalent(
        "torch.optim.RMSprop",
        (*RMSPROP, "optim_bits"),
        RMSPROP,
        dropped=_HOW | {"momentum", "centered"},
        only=_CLIPPING,
    ),
    "Adagrad": Equivalent(
        "torch.optim.Adagrad", (*ADAGRAD, "optim_bits"), ADAGRAD, dropped=_HOW, only=_CLIPPING
    ),
}


def _variants(base: str) -> Iterator[str]:
    module = base.lower()
    for paged in ("", "Paged"):
        for bits in ("", "8bit", "32bit"):
            yield f"bitsandbytes.optim.{paged}{base}{bits}"
            yield f"bitsandbytes.optim.{module}.{paged}{base}{bits}"


_BASES = {name: base for base in _EQUIVALENTS for name in _variants(base)}
_WITHOUT = {name: base for base in ("LAMB", "LARS", "AdEMAMix") for name in _variants(base)}
_WITHOUT["bitsandbytes.optim.PytorchLARS"] = "LARS"
_WITHOUT["bitsandbytes.optim.lars.PytorchLARS"] = "LARS"
_MESSAGE = "bitsandbytes fails without CUDA"


@RULE.call(*_BASES)
def called(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    equivalent = _EQUIVALENTS[_BASES[script.dotted(call.func, scope) or ""]]
    if equivalent is _ADAM and _decays(call):
        equivalent = _ADAMW
    try:
        made = edits(script, call, scope, equivalent)
    except NoCounterpart as reason:
        message = f"{_MESSAGE}, and PyTorch has no equivalent of {reason}: use {equivalent.target} without it"
        yield RULE.finding(script, call, message, effort=MEDIUM)
    else:
        message, safety = _told(script, call.func, equivalent, keyword(call, "optim_bits"))
        yield RULE.finding(script, call, message, *made, safety=safety)


def _told(
    script: Script, name: ast.expr, equivalent: Equivalent, bits: ast.expr | None = None
) -> tuple[str, str]:
    """Return the message about the equivalent of `name`, and the safety, by its effect on memory and numbers."""
    message, safety = f"{_MESSAGE}: use {equivalent.target}", SAFE
    small = (script.dotted(name) or "").endswith("8bit")
    if small or (bits is not None and not (isinstance(bits, ast.Constant) and bits.value == 32)):
        message += ", whose state takes four times the memory of one in 8 bits"
        safety = UNSAFE
    return told_of_import(message, equivalent), safety


def _decays(call: ast.Call) -> bool:
    """True if weight decay is given, and not as 0."""
    given = call.args[4] if len(call.args) > 4 else keyword(call, "weight_decay")
    return given is not None and not (isinstance(given, ast.Constant) and given.value == 0)


@RULE.reference(*_BASES)
def referred_to(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`optimizer_class = bnb.optim.AdamW8bit`."""
    if not is_handed_on(node, script.parents):
        return
    base = _BASES[script.dotted(node, scope) or ""]
    equivalent = _EQUIVALENTS[base]
    if base != "Adam" and stands_in(script, node, equivalent):
        edit = Replace(node, script.spell(equivalent.target, scope))
        message, safety = _told(script, node, equivalent)
        yield RULE.finding(script, node, message, edit, safety=safety)
    else:
        target = "torch.optim.AdamW, whose weight decay is" if base == "Adam" else equivalent.target
        suffix = " 0 unless given" if base == "Adam" else ""
        yield RULE.finding(script, node, f"{_MESSAGE}: use {target}{suffix}", effort=MEDIUM)


@RULE.call(*_WITHOUT)
def without(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield _without(script, call, _WITHOUT[script.dotted(call.func, scope) or ""])


@RULE.reference(*_WITHOUT)
def without_call(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    if is_handed_on(node, script.parents):
        yield _without(script, node, _WITHOUT[script.dotted(node, scope) or ""])


def _without(script: Script, node: ast.AST, base: str) -> Finding:
    nearest = {
        "LAMB": "timm.optim.Lamb",
        "LARS": "timm.optim.Lars",
        "AdEMAMix": "torch.optim.AdamW",
    }
    message = f"{_MESSAGE}: use {nearest[base]}, the nearest to its {base}, with other results"
    return RULE.finding(script, node, message, effort=MEDIUM)


@RULE.call("bitsandbytes.optim.GlobalOptimManager.get_instance")
def manager(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = f"{_MESSAGE}: remove it, because PyTorch's optimizers keep their state in 32 bits"
    yield RULE.finding(script, call, message)
