"""A hidden package is not found, by whatever way it is looked for; everything else is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


FIRST = """
import runpy, sys
from importlib.util import spec_from_loader
from importlib.machinery import BuiltinImporter
from xla_migrate.verify.observe.process import imports, where

class Stub:
    def find_spec(self, name, path=None, target=None):
        return spec_from_loader(name, Loader()) if name == "made_up" else None

class Loader:
    create_module = lambda self, spec: None
    exec_module = lambda self, module: None

where.set_project(sys.argv[1])
imports.after({"colorsys": lambda module: sys.meta_path.insert(0, Stub())})
sys.meta_path.insert(0, imports.ImportFirst("colorsys", ("made_up",)))
runpy.run_path(sys.argv[1] + "/train.py", run_name="__main__")
"""
TRAIN = """
import importlib.util, sys
assert importlib.util.find_spec("made_up") is None
assert "colorsys" not in sys.modules
import made_up
print(made_up.__name__, "colorsys" in sys.modules)
"""


def test_a_module_is_imported_before_others_that_need_it(tmp_path: Path) -> None:
    """`import apex` above `import torch`: the stand-in is there once torch is."""
    (tmp_path / "train.py").write_text(TRAIN)
    command = [sys.executable, "-c", FIRST, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "made_up True\n", done.stderr
