"""DeepSpeed's engine and kernels are for CUDA.

There is no engine on XLA that `deepspeed.initialize` could return. What to do: train with the model and its optimizer
(`loss.backward()`, `xla.optimizer_step(optimizer)`), in bfloat16 under `xla.autocast()`; take the optimizer, the
schedule and gradient accumulation out of the JSON configuration into the script; and where ZeRO's shards are needed to
fit the model, shard it with FSDPv2 under SPMD (`torch_xla.experimental.spmd_fully_sharded_data_parallel`). A rule that
knows the rest of the script cannot do that: what is in the configuration file is not in the script.

```python
import deepspeed

def build(model, args):
    engine, _, _, _ = deepspeed.initialize(args=args, model=model, model_parameters=model.parameters())  # XLA804
    return engine
```

An import that only annotates stays.

```python
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mylib.engine import DeepSpeedEngine

def train(engine: DeepSpeedEngine, batch):
    return engine(batch)
```
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...fallback import leftovers
from ...finding import HIGH, Finding
from ...rule import Rule, Unhandled

if TYPE_CHECKING:
    from ...analysis.script import Script

RULE = Rule("XLA804", "deepspeed", effort=HIGH)


@RULE.fallback
def deepspeed(script: Script, unhandled: Unhandled) -> Iterator[Finding]:
    yield from leftovers(RULE, script, unhandled, HIGH)
