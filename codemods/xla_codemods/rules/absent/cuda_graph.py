"""CUDA graphs have no counterpart, and need none: XLA compiles and replays whole graphs.

What is captured once and replayed is, on XLA, the function itself, called once per step: its graph is compiled at
the first call and reused as long as shapes stay the same. `make_graphed_callables` returns callables that compute
what its arguments do, so these take its place. That is not done unless asked for, since it makes CUDA slower:

```diff
 import torch

 def speed_up(model, sample):
-    model = torch.cuda.make_graphed_callables(model, (sample,))
     return model
```

A capture that is written out is left to a person: the static inputs, the warm-up on a side stream, the capture and
the copies before each `replay()` all go, and what stood in the capture is called with the batch.

```python
import torch

def capture(model, static_input):
    graph = torch.cuda.CUDAGraph()  # XLA901
    with torch.cuda.graph(graph):  # XLA901
        static_output = model(static_input)
    return graph, static_output
```

A class of that name from elsewhere stays.

```python
from mylib.graphs import CUDAGraph

graph = CUDAGraph()
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...edits import Replace, remove
from ...fallback import leftovers
from ...finding import HIGH, UNSAFE, Finding
from ...rule import Rule, Unhandled

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA901", "cuda-graph", effort=HIGH)


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


@RULE.fallback
def cuda_graph(script: Script, unhandled: Unhandled) -> Iterator[Finding]:
    yield from leftovers(RULE, script, unhandled, HIGH)
