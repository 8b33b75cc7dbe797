"""Cells of a notebook: each shows what it has printed, in its order."""

from __future__ import annotations

import os
import subprocess

from ... import warm

CELLS = """
import sys
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
for cell in (
    '''
import torch
from xla_migrate import runtime as xla
w = torch.ones((), device=xla.xla_device())
xla.later(lambda w=w: print("printed", w.item()))
"result"
''',
    '''
xla.later(lambda w=w: print("printed", w.item()))
raise ValueError("raised")
''',
    '''
seen = []
xla.later(lambda w=w: seen.append(w.item()))
''',
):
    shell.run_cell(cell)
    print("-- end of cell")
print(list(shell.user_ns["seen"]))
"""


def test_what_a_cell_prints_stands_in_the_cell() -> None:
    environment = {**os.environ, "PJRT_DEVICE": "CPU", "XLA_MIGRATE_BACKEND": "torch_xla"}
    command = [warm.for_side("target"), "-c", CELLS]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240)
    assert done.returncode == 0, done.stderr
    shown, raised, kept, behind = done.stdout.split("-- end of cell\n")
    assert shown.index("printed 1.0") < shown.index("'result'")
    assert raised.index("printed 1.0") < raised.index("ValueError")
    assert (kept.strip(), behind) == ("", "[1.0]\n")
