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
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        static_output = model(static_input)
    return graph, static_output
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...edits import Replace, remove
from ...findings import HIGH, UNSAFE, Finding
from ...rule import Rest, Rule
from .leftovers import leftovers

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA901", "cuda-graph", effort=HIGH)


@RULE.call("torch.cuda.make_graphed_callables", "torch.cuda.graphs.make_graphed_callables")
def graphed(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = "XLA compiles and replays whole graphs anyway: use the callable itself"
    callables = call.args[0] if call.args else None
    if callables is None or isinstance(callables, ast.Starred):
        yield RULE.at(script, call, message)
        return
    statement = script.parent(call)
    match statement:
        case ast.Assign(targets=[target]) if ast.unparse(target) == ast.unparse(callables):
            yield RULE.at(script, call, message, remove(statement), safety=UNSAFE)
        case _:
            yield RULE.at(script, call, message, Replace(call, "{0}", (callables,)), safety=UNSAFE)


@RULE.rest
def cuda_graph(script: Script, rest: Rest) -> Iterator[Finding]:
    yield from leftovers(RULE, script, rest, HIGH)
