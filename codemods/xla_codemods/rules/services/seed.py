"""`torch.manual_seed` and seeds for CUDA do not seed XLA.

## What it reports

`torch.manual_seed`, `torch.cuda.manual_seed`, `manual_seed_all`, and functions of libraries that
seed PyTorch.

## Why it matters on XLA

Nothing fails. Dropout and initialisation on the device draw from a generator with a different
seed (fact 1.30). torch_xla seeds each process with 101 (fact 1.31).

## What to do

Fix: safe.

Use `xla.manual_seed`, which seeds the CPU and the device. It replaces a group of seeding calls.

## Example

```diff
 import random
 import torch
+from xla_migrate import runtime as xla

 def seed_everything(seed):
     random.seed(seed)
-    torch.manual_seed(seed)
+    xla.manual_seed(seed)
-    torch.cuda.manual_seed(seed)
-    if torch.cuda.is_available():
-        torch.cuda.manual_seed_all(seed)
```

A seed only for CUDA stays a seed for the device:

```diff
 import torch
+from xla_migrate import runtime as xla

-torch.cuda.manual_seed_all(1234)
+xla.manual_seed(1234, device_only=True)
```

`xla.manual_seed` returns the CPU's generator, as `torch.manual_seed` does:

```diff
 import torch
+from xla_migrate import runtime as xla

 def noise(n, seed=None):
-    generator = torch.manual_seed(seed) if seed is not None else None
+    generator = xla.manual_seed(seed) if seed is not None else None
-    return torch.rand(n, generator=generator).cuda()
+    return torch.rand(n, generator=generator).to(xla.xla_device())
```

Functions of libraries that seed PyTorch:

```diff
 import torch
 from timm.utils import random_seed
 from transformers import set_seed
+from xla_migrate import runtime as xla

 def begin(args, model):
     set_seed(args.seed)
+    xla.manual_seed(args.seed, device_only=True)
     random_seed(args.seed, args.rank)
+    xla.manual_seed(args.seed + args.rank, device_only=True)
-    model.cuda()
+    model.to(xla.xla_device())
```

Functions that a loop calls with one seed:

```diff
 import random
 import torch
 from torch import nn
+from xla_migrate import runtime as xla

 def train(seed):
-    for seed_with in (torch.manual_seed, torch.cuda.manual_seed_all, random.seed):
+    for seed_with in (xla.manual_seed, random.seed):
         seed_with(seed)
-    model = nn.Linear(4, 2).cuda()
+    model = nn.Linear(4, 2).to(xla.xla_device())
```

A seed before `xla.use_spmd()` is not reported, because that call must come before the first use
of the device. The device then uses PyTorch's seed:

```python
import torch
from xla_migrate import runtime as xla

torch.manual_seed(0)
xla.use_spmd()
model = torch.nn.Linear(4, 2).to(xla.xla_device())
```

Seeds of other generators, and seeds in loader processes, which must not use the device, are not
reported:

```python
import torch
from torch.utils.data import DataLoader

def seed_worker(worker_id):
    torch.manual_seed(torch.initial_seed() % 2**32)

def make(dataset):
    generator = torch.Generator().manual_seed(0)
    return DataLoader(dataset, worker_init_fn=seed_worker, generator=generator)
```

## See also

XLA130
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...analysis.frameworks.arguments import has_a_trainer
from ...analysis.inference.library_types import RUNTIME
from ...analysis.nodes import walk
from ...analysis.scopes import FunctionNode, Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword, name_of
from ...edits import DropElement, InsertAfter, Replace, remove
from ...finding import WARNING, Finding
from ...patterns import Pattern
from ...rule import Rule
from ...symptoms import LIKELY

RULE = Rule(
    "XLA124",
    "seed",
    severity=WARNING,
    shows_accelerator=False,
    behind={"initial weights": LIKELY, "same data": LIKELY},
)

_ALL = ("torch.manual_seed", "torch.random.manual_seed")
_DEVICE = (
    "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all",
    "torch.cuda.random.manual_seed",
    "torch.cuda.random.manual_seed_all",
)
_NEW = (
    "torch.cuda.seed",
    "torch.cuda.seed_all",
    "torch.cuda.random.seed",
    "torch.cuda.random.seed_all",
)
_LIBRARIES = (
    "transformers.set_seed",
    "transformers.trainer_utils.set_seed",
    "transformers.enable_full_determinism",
    "transformers.trainer_utils.enable_full_determinism",
    "timm.utils.random_seed",
    "timm.utils.random.random_seed",
)
_XLAS_OWN = frozenset({"torch_xla.manual_seed", "torch_xla.core.xla_model.set_rng_state"})
_MESSAGE = "the call does not seed XLA: use `xla.manual_seed`"


@RULE.call(*_ALL)
def everywhere(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    seed = _seed(call)
    if seed is None or not (script.trains or script.runs_accelerated) or _in_worker(script, call):
        return
    if _reaches_xla(script, call) or _comes_before_spmd(script, call):
        return
    if script.is_statement(call) or not _device_follows(script, call, seed):
        yield RULE.finding(script, call, _MESSAGE, Replace(call.func, f"{script.xla}.manual_seed"))


@RULE.call(*_DEVICE)
def of_device(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    seed = _seed(call)
    if _reaches_xla(script, call):
        script.settled.add(call.func)
    if seed is None or _reaches_xla(script, call):
        return
    if not script.is_statement(call):
        edit = Replace(call, f"{script.xla}.manual_seed({{0}}, device_only=True)", (seed,))
        yield RULE.finding(script, call, _MESSAGE, edit)
    elif _in_worker(script, call) or _is_seeded_beside(script, call, seed):
        yield RULE.finding(script, call, _MESSAGE, remove(script.statement(call)))
    else:
        edit = Replace(call, f"{script.xla}.manual_seed({{0}}, device_only=True)", (seed,))
        yield RULE.finding(script, call, _MESSAGE, edit)


@RULE.reference(*_ALL)
def listed(script: Script, name: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`for seed_with in (torch.manual_seed, random.seed): seed_with(3)`."""
    if not isinstance(script.parent(name), (ast.Tuple, ast.List)) or _in_worker(script, name):
        return
    if script.trains or script.runs_accelerated:
        yield RULE.finding(script, name, _MESSAGE, Replace(name, f"{script.xla}.manual_seed"))


@RULE.reference(*_DEVICE)
def listed_for_device(script: Script, name: ast.expr, scope: Scope) -> Iterator[Finding]:
    """Next to `torch.manual_seed`, which seeds the device as well. Without it the user decides (XLA906)."""
    parent = script.parent(name)
    if isinstance(parent, (ast.Tuple, ast.List)) and not _in_worker(script, name):
        if any(script.dotted(element, scope) in _ALL for element in parent.elts):
            yield RULE.finding(script, name, _MESSAGE, DropElement(parent, name))


@RULE.call(*_NEW)
def new_seed(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """A random seed: drawn by a separate generator, so that the CPU's stream does not change."""
    torch = script.spell("torch", scope)
    edit = Replace(call, f"{script.xla}.manual_seed({torch}.Generator().seed(), device_only=True)")
    yield RULE.finding(script, call, _MESSAGE, edit)


@RULE.call(*_LIBRARIES)
def of_library(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`set_seed(seed)` of transformers, `random_seed(seed, rank)` of timm."""
    seed = call.args[0] if call.args else keyword(call, "seed")
    if seed is None or not _is_trained_somewhere(script) or _in_worker(script, call):
        return
    text = script.segment(seed)
    name = (script.dotted(call.func, scope) or "").rpartition(".")[2]
    rank = call.args[1] if len(call.args) > 1 else keyword(call, "rank")
    if name == "random_seed" and rank is not None:
        text = f"{text} + {script.segment(rank)}"
    if _reaches_xla(script, call) or _device_follows(
        script, call, ast.parse(text, mode="eval").body
    ):
        return
    statement = script.statement(call)
    if script.is_statement(call) and all(map(_is_repeatable, filter(None, (seed, rank)))):
        edit = InsertAfter(statement, f"{script.xla}.manual_seed({text}, device_only=True)")
        yield RULE.finding(script, call, _MESSAGE, edit)
    else:
        yield RULE.finding(
            script,
            call,
            "the call does not seed XLA: add `xla.manual_seed(seed, device_only=True)`",
        )


def _is_trained_somewhere(script: Script) -> bool:
    return script.trains or script.runs_accelerated or has_a_trainer(script)


@RULE.call("torch.cuda.initial_seed", "torch.cuda.random.initial_seed")
def initial_seed(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = "the call returns CUDA's seed, and XLA has no such query: use `torch.initial_seed()`, which `xla.manual_seed` sets"
    yield RULE.finding(script, call, message)


def _seed(call: ast.Call) -> ast.expr | None:
    return call.args[0] if len(call.args) == 1 else keyword(call, "seed")


def _reaches_xla(script: Script, call: ast.Call) -> bool:
    """True if the same function seeds the XLA device by itself."""
    if not script.source.mentions("torch_xla", "device_only"):
        return False
    home = script.function(call)
    return any(
        script.function(other) is home and _seeds_xla(script.dotted(other.func, scope), other)
        for name in ("manual_seed", "set_rng_state")
        for other, scope in script.index.calls_of(name)
    )


def _comes_before_spmd(script: Script, call: ast.Call) -> bool:
    """True if SPMD is turned on behind `call`: that has to come before the device is used, which then takes the seed that
    torch was given.
    """
    if not script.source.mentions("use_spmd"):
        return False
    own = script.function(call)
    starts = [(c, script.function(c)) for c in _with_callers(script, call)]
    for spmd in walk(script.tree):
        if not isinstance(spmd, ast.Call) or name_of(spmd.func) != "use_spmd":
            continue
        if own is None and script.function(spmd) is not None:
            return True
        for later in _with_callers(script, spmd):
            home = script.function(later)
            if any(place.lineno < later.lineno for place, around in starts if around is home):
                return True
    return False


def _with_callers(script: Script, call: ast.Call) -> list[ast.Call]:
    """`call`, and the calls of the function that it stands in."""
    home = script.function(call)
    return [call, *([c for c, _ in script.index.calls_of(home.name)] if home is not None else [])]


def _seeds_xla(dotted: str | None, call: ast.Call) -> bool:
    if dotted == f"{RUNTIME}.manual_seed":
        return keyword(call, "device_only") is not None
    return dotted in _XLAS_OWN


def _is_repeatable(seed: ast.expr) -> bool:
    return isinstance(seed, (ast.Constant, ast.Name, ast.Attribute))


def _in_worker(script: Script, call: ast.expr) -> bool:
    """True if `call` runs in a loader's worker process; `main_worker` of `mp.spawn` trains."""
    function = script.function(call)
    while function is not None:
        if _SEEDS_A_WORKER.search(function.name) or _starts_workers(script, function):
            return True
        if "worker" in function.name and _is_a_process_beside(script, function):
            return True
        function = script.function(function)
    return False


_SEEDS_A_WORKER = Pattern(
    r"(?:seed|init|reset|fix|setup|set)_?(?:data)?(?:loader)?_?worker|worker_?(?:init|seed|fn|rng)|loader_?worker",
    re.IGNORECASE,
)
_OF_WORKERS = frozenset({"worker_id", "worker_idx", "worker_index", "wid"})


def _starts_workers(script: Script, function: FunctionNode) -> bool:
    """`worker_init_fn=init`, `worker_init_fn=partial(init, seed=3)`, and functions that receive the worker's number."""
    if any(argument.arg in _OF_WORKERS for argument in function.args.args):
        return True
    for argument, _ in script.index.of(ast.keyword):
        if argument.arg == "worker_init_fn":
            given = argument.value
            if isinstance(given, ast.Call) and given.args:
                given = given.args[0]
            if isinstance(given, ast.Name) and given.id == function.name:
                return True
    return False


def _is_a_process_beside(script: Script, function: FunctionNode) -> bool:
    """`Process(target=worker)`, of a function that joins no group and trains nothing."""
    started = any(
        isinstance(target := keyword(call, "target"), ast.Name) and target.id == function.name
        for call, _ in script.index.calls_of("Process")
    )
    called = {name_of(node.func) for node in walk(function) if isinstance(node, ast.Call)}
    return started and called.isdisjoint({"init_process_group", "backward", "cuda", "set_device"})


def _is_seeded_beside(script: Script, call: ast.Call, seed: ast.expr) -> bool:
    """True if `torch.manual_seed` (or the runtime's) takes the same seed on every way through `call`."""
    around = [call, *(a for a in script.ancestors(call) if isinstance(a, ast.stmt))]
    beside = {s for a in around for s in script.block(script.statement(a))}
    home = script.function(call)
    text = ast.unparse(seed)
    for other, scope in script.index.calls_of("manual_seed"):
        if script.dotted(other.func, scope) not in {*_ALL, f"{RUNTIME}.manual_seed"}:
            continue
        given = _seed(other)
        if given is None or ast.unparse(given) != text:
            continue
        statement = script.statement(other)
        is_sure = getattr(statement, "value", None) is other  # also `generator = ...`
        if is_sure and script.function(other) is home and statement in beside:
            return True
    return False


def _device_follows(script: Script, call: ast.Call, seed: ast.expr) -> bool:
    """True if the device is given the same seed right behind `call`, or any behind it on its line."""
    statement = script.statement(call)
    for other in walk(statement):
        if isinstance(other, ast.Call) and other.lineno == call.lineno:
            if other.col_offset > call.col_offset and _seeds_the_device(script, other):
                return True
    block = script.block(statement)
    after = block[block.index(statement) + 1 :][:1] if statement in block else []
    for node in after:
        match node:
            case ast.Expr(value=ast.Call(func=func, args=[given, *_])):
                return script.dotted(func) == f"{RUNTIME}.manual_seed" and ast.unparse(
                    given
                ) == ast.unparse(seed)
    return False


def _seeds_the_device(script: Script, call: ast.Call) -> bool:
    return script.dotted(call.func) in {*_DEVICE, f"{RUNTIME}.manual_seed"}
