"""Code in a text is not migrated.

## What it reports

Calls that run code from a text which trains, or which uses CUDA: `get_ipython().run_cell_magic` of
exported notebooks, `exec` and `timeit`.

## Why it matters on XLA

xla-migrate rewrites the code of a file, but no code inside texts. Such code fails on an XLA host, or
runs without step marks.

## What to do

Fix: none.

Write the code itself in place of the call, and run xla-migrate again. In an exported notebook,
`%%time` and `%%capture` become such calls. Remove these magics before you export the notebook, or
migrate the notebook instead.

## Example

```python
import timeit
import torch

model = torch.nn.Linear(2, 2)
get_ipython().run_cell_magic("time", "", "train(model.cuda())")  # XLA919
get_ipython().run_line_magic("timeit", "model(x); torch.cuda.synchronize()")  # XLA919
timeit.timeit("model(x.cuda())", globals=globals())  # XLA919
exec("loss.backward()")  # XLA919
```

Texts with other code are not reported:

```python
import torch

x = torch.zeros(2)
get_ipython().run_cell_magic("time", "", "print(x.mean())")
get_ipython().run_line_magic("matplotlib", "inline")
get_ipython().system("echo cuda")
exec("limit = 3")
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import name_of, text_of
from ...finding import LOW, WARNING, Finding
from ...patterns import Pattern
from ...rule import Rule

RULE = Rule("XLA919", "code-in-text", effort=LOW, severity=WARNING)

_RUNNERS = ("exec", "run_cell_magic", "run_line_magic", "timeit")
_TO_MIGRATE = Pattern(
    r"\bcuda\b|\.backward\(|\bopt(?:im(?:izer)?)?\w*\.step\(|\btorch\.(?:load|save)\(|DataLoader\("
)


@RULE.node(ast.Call, named=_RUNNERS)
def code_in_text(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    given = [*call.args, *(argument.value for argument in call.keywords)]
    texts = [text for node in given if (text := text_of(node)) is not None]
    if any(_TO_MIGRATE.search(text) for text in texts):
        name = name_of(call.func)
        message = f"code in a text is not migrated: write the code itself in place of `{name}`, and run xla-migrate again"
        yield RULE.finding(script, call, message)
