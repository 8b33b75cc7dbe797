"""A Python program starts a launcher that needs GPUs.

## What it reports

Commands that Python starts: `torchrun --nproc_per_node=gpu`, `accelerate launch`, DeepSpeed's
launcher and horovodrun. The rule follows variables, `append`, `+=`, `split`, functions of the
file, tasks of invoke, fabric and nox (`ctx.run("...")`), and IPython's shell.

## Why it matters on XLA

`torchrun --nproc_per_node=gpu` fails without CUDA. accelerate's launcher starts one process on
XLA, whatever `--num_processes` says. `--multi_gpu`, DeepSpeed's launcher and horovodrun need
GPUs.

## What to do

Fix: safe, or none.

Start one process per XLA device with torchrun. On a TPU, start a script that uses accelerate with
`accelerate launch --tpu`. float16 becomes bfloat16, as in [launch files](../launch-files.md).

## Example

```diff
 import subprocess

-subprocess.run(["accelerate", "launch", "--mixed_precision", "fp16", "train.py"], check=True)
+subprocess.run(["accelerate", "launch", "--mixed_precision", "bf16", "train.py"], check=True)
```

Arguments that depend on the machine are reported without a fix:

```python
import os
import subprocess
import sys

os.system("accelerate launch --multi_gpu --num_processes 8 train.py")  # XLA616
subprocess.run(["torchrun", "--nproc_per_node=gpu", "train.py"])  # XLA616
command = [sys.executable, "-m", "torch.distributed.run", "train.py"]
command += ["--nproc_per_node", "auto"]  # XLA616
subprocess.check_call(command)
```

Other commands, and numbers of processes that XLA can start, are not reported:

```python
import subprocess

subprocess.run(["torchrun", "--nproc_per_node=4", "train.py"])
print("start it with accelerate launch --multi_gpu train.py")
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.commands.in_python import (
    METHODS,
    RUNNERS,
    RUNNERS_OF_WORDS,
    PythonCommand,
    commands_of,
    commands_of_method,
)
from ...analysis.commands.launchers import Said, behind_opening, in_launcher, program
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...edits import Replace
from ...finding import Finding
from ...rule import Rule

RULE = Rule("XLA616", "started-launcher", shows_accelerator=False)


@RULE.call(*RUNNERS_OF_WORDS)
@RULE.call(*RUNNERS)
def started(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from _launchers(script, commands_of(script, call))


@RULE.method(*METHODS)
def ran(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`ctx.run("torchrun ...")` in a task of invoke, `get_ipython().system("torchrun ...")`."""
    yield from _launchers(script, commands_of_method(script, call))


def _launchers(script: Script, commands: Iterator[PythonCommand]) -> Iterator[Finding]:
    messages = script.cached(_told)
    for command in commands:
        words = behind_opening(command.words)
        if not words:
            continue
        name, words = program(words)
        for launcher in in_launcher(name, words):
            node = command.piece(launcher.start).node
            if (key := (node.lineno, node.col_offset, launcher.message)) not in messages:
                messages.add(key)
                yield _finding(script, command, launcher)


def _told(script: Script) -> set[tuple[int, int, str]]:
    return set()  # a command may be run at several places


def _finding(script: Script, command: PythonCommand, launcher: Said) -> Finding:
    start, node, written = command.piece(launcher.start)
    edits = []
    if launcher.instead is not None and written:
        text = script.segment(node)
        first, last = launcher.start - start + 1, launcher.end - start + 1  # behind the quote
        edits.append(Replace(node, text[:first] + launcher.instead + text[last:]))
    return RULE.finding(
        script, node, launcher.message, *edits, severity=launcher.severity, effort=launcher.effort
    )
