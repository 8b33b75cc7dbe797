"""accelerate's loaders on XLA change gradient accumulation and hide errors.

## What it reports

Scripts that create an `Accelerator`, or a `Trainer` of transformers, without
`xla.patch_accelerate()`.

## Why it matters on XLA

accelerate 1.15 passes its loaders to torch_xla, which reads them in a thread. The thread reaches
the end of the loader before the loop does. As a consequence:

- `accumulate` steps after other batches than on CUDA. With 10 batches and a window of 3, it does
  not step after the tenth batch, and the windows of the next epoch are shifted.
- `gather_for_metrics` keeps the samples that pad the last batch.
- An error in the dataset ends the epoch silently.
- A shuffled loader has a different order than on CUDA.
- If `LOCAL_RANK` is not set and the device is not a TPU, `accelerator.print`, loggers and
  progress bars print nothing.

## What to do

Fix: safe.

Call `xla.patch_accelerate()` first. It fixes all of these and does nothing on other devices. The
steps are then the same as on CUDA, even if the last window of an epoch is shorter.

## Example

```diff
 from accelerate import Accelerator
+from xla_migrate import runtime as xla

 def main(model, optimizer, loader):
+    xla.patch_accelerate()
     accelerator = Accelerator(gradient_accumulation_steps=4)
     model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
     for batch in loader:
         with accelerator.accumulate(model):
             accelerator.backward(model(**batch).loss)
             optimizer.step()
             optimizer.zero_grad()
         accelerator.print("a batch is done")
```

The Trainer of transformers counts batches itself, but it reads through accelerate:

```diff
 from transformers import Trainer
+from xla_migrate import runtime as xla

 def main(model, arguments, data):
+    xla.patch_accelerate()
     Trainer(model, arguments, train_dataset=data).train()
```

The call is placed before the arguments are parsed, because they may request FSDP (XLA801):

```diff
 from transformers import HfArgumentParser, Trainer, TrainingArguments
+from xla_migrate import runtime as xla

 def main(model, data):
+    xla.patch_accelerate()
     parser = HfArgumentParser(TrainingArguments)
+    parser.set_defaults(optim="adamw_torch")
     (arguments,) = parser.parse_args_into_dataclasses()
     Trainer(model, arguments, train_dataset=data).train()
```

Before a subclass, the call covers objects that other modules create:

```diff
 from transformers import Trainer
+from xla_migrate import runtime as xla

+xla.patch_accelerate()
+
+
 class MyTrainer(Trainer):
     def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
         return model(**inputs).loss
```

Files that receive an Accelerator, and other classes of that name, are not reported:

```python
from mylib import Accelerator, Trainer

def main(accelerator, model):
    Trainer(Accelerator(), model)
    with accelerator.accumulate(model):
        pass
```

## Limits

Without the runtime, and in one process, `GradientAccumulationPlugin(num_steps=4,
sync_with_dataloader=False)` and `DataLoaderConfiguration(use_seedable_sampler=True)` train alike
on CUDA and XLA. The number of batches must then be a multiple of the window, because a shorter
last window takes no step.

## See also

XLA801, XLA802
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from ...analysis.flow import has_run
from ...analysis.frameworks.arguments import (
    ARGUMENTS,
    PARSERS,
    makes_trainer,
    parses_arguments,
)
from ...analysis.frameworks.sharding import (
    MADE_WITH_ACCELERATE,
    begins_with,
    patched_before,
    trainer_shards,
)
from ...analysis.projects.callees import derives
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...finding import WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA814", "accelerate-loaders")

_STEPS = "on XLA accelerate steps after other batches during gradient accumulation: call `xla.patch_accelerate()` first"
_SHARDS = "the Trainer's FSDP raises an exception on XLA: call `xla.patch_accelerate()` first"
_PRINTS = (
    "on XLA accelerate ends an epoch silently if the dataset raises an exception, and prints nothing without LOCAL_RANK: call "
    "`xla.patch_accelerate()` first"
)


@RULE.call(*MADE_WITH_ACCELERATE)
def made(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from _patched(script, call)


@RULE.call(*PARSERS)
def parsed(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`--fsdp` of the command line needs the patch before the arguments are there."""
    if makes_trainer(script) and parses_arguments(script, call):
        yield from _patched(script, call)


@RULE.subclass(*MADE_WITH_ACCELERATE)
def own_class(script: Script, node: ast.ClassDef, scope: Scope) -> Iterator[Finding]:
    """Calls of a class that derives from one of these; the class itself, where another module makes its objects."""
    calls = [
        call
        for call, inner in script.index.calls_of(node.name)
        if script.value(call.func, inner).definition is node
    ]
    others = (c for c, _ in script.index.of(ast.ClassDef) if c is not node)
    if not calls and not any(_comes_first(script, other, node) for other in others):
        yield from _patched(script, node)
    for call in calls:
        yield from _patched(script, call)


def _comes_first(script: Script, other: ast.ClassDef, node: ast.ClassDef) -> bool:
    """True if `other` is a class that derives from one of these, and is there before `node`."""
    return has_run(other, node, script.parents) and derives(
        script, other, MADE_WITH_ACCELERATE.__contains__
    )


def _patched(script: Script, call: ast.Call | ast.ClassDef) -> Iterator[Finding]:
    made = MADE_WITH_ACCELERATE | PARSERS | ARGUMENTS
    edit = patched_before(script, call, "patch_accelerate", made, _is_left(script))
    if edit is None:
        return
    if trainer_shards(script):
        yield RULE.finding(script, call, _SHARDS, edit)
    elif isinstance(call, ast.Call) and _accumulates(call):
        yield RULE.finding(script, call, _STEPS, edit)
    else:
        yield RULE.finding(script, call, _PRINTS, edit, severity=WARNING)


def _is_left(script: Script) -> Callable[[ast.Call], bool]:
    """Whether a call is one that is not patched: of a parser, or of arguments."""

    def is_left(call: ast.Call) -> bool:
        dotted = script.dotted(call.func)
        if dotted in PARSERS:
            return not (makes_trainer(script) and parses_arguments(script, call))
        return dotted in ARGUMENTS and not begins_with(script, call)

    return is_left


def _accumulates(call: ast.Call) -> bool:
    """Return True if its arguments set a window of several batches, as far as visible."""
    if keyword(call, "gradient_accumulation_plugin") is not None:
        return True
    steps = keyword(call, "gradient_accumulation_steps")
    return steps is not None and not (isinstance(steps, ast.Constant) and steps.value == 1)
