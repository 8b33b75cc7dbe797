"""CUDA graphs have no counterpart on XLA, which compiles whole graphs.

## What it reports

`torch.cuda.CUDAGraph`, `torch.cuda.graph` and `make_graphed_callables`.

## Why it matters on XLA

The calls fail on XLA. XLA compiles a function's graph at the first call, and reuses it as long as
shapes stay the same.

## What to do

Fix: unsafe, or none.

Call the function itself, once per step. `make_graphed_callables` returns callables that compute
the same as its arguments, so it can be removed. That makes CUDA slower, so the fix is unsafe. For
a capture, also remove the static inputs, the warm-up on a side stream and the copies before each
`replay()`, and call the captured code with the batch.

## Example

```diff
 import torch

 def speed_up(model, sample):
-    model = torch.cuda.make_graphed_callables(model, (sample,))
     return model
```

A capture is reported without a fix:

```python
import torch

def capture(model, static_input):
    graph = torch.cuda.CUDAGraph()  # XLA901
    with torch.cuda.graph(graph):  # XLA901
        static_output = model(static_input)
    return graph, static_output
```

Other classes of that name are not reported:

```python
from mylib.graphs import CUDAGraph

graph = CUDAGraph()
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...edits import Replace, remove
from ...finding import HIGH, UNSAFE, Finding
from ...rule import Rule

RULE = Rule("XLA901", "cuda-graph", effort=HIGH, leftovers=HIGH)


@RULE.call("torch.cuda.make_graphed_callables", "torch.cuda.graphs.make_graphed_callables")
def graphed(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = (
        "CUDA graphs fail on XLA, which compiles whole graphs by itself: call the function itself"
    )
    callables = call.args[0] if call.args else None
    if callables is None or isinstance(callables, ast.Starred):
        yield RULE.finding(script, call, message)
        return
    statement = script.parent(call)
    match statement:
        case ast.Assign(targets=[target]) if ast.unparse(target) == ast.unparse(callables):
            yield RULE.finding(script, call, message, remove(statement), safety=UNSAFE)
        case _:
            yield RULE.finding(
                script, call, message, Replace(call, "{0}", (callables,)), safety=UNSAFE
            )
