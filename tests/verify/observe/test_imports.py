"""A hidden package is not found, by whatever way it is looked for; everything else is."""

from __future__ import annotations

import subprocess
import sys

CODE = """
from importlib.machinery import PathFinder
from xla_migrate.verify.observe.process import imports
imports.hide("torch_xla")

class Mine(PathFinder):
    pass

for finder in (PathFinder, PathFinder(), Mine, Mine()):
    assert finder.find_spec("json") is not None, finder
    assert finder.find_spec("torch_xla") is None, finder
    assert finder.find_spec("torch_xla.core", ["/nowhere"]) is None, finder
try:
    import torch_xla
except ImportError:
    print("hidden")
"""


def test_objects_of_the_finder_find_as_the_class_does() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.stdout == "hidden\n", done.stderr
