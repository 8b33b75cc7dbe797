"""Which functions calls run, as the files of one project see them."""

from __future__ import annotations

import ast

from xla_codemods.analysis.projects.callees import callees_of
from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.analysis.script import Script
from xla_codemods.source import Source

FILES = {
    "steps.py": b"import losses\n\ndef step(x):\n    return losses.loss(x)\n",
    "losses.py": b"import steps\n\ndef loss(x):\n    return x.mean()\n",
    "train.py": b"import steps\n\nsteps.step(1)\n",
    "other.py": b"import steps\n\nsteps.step(2)\n",
}


def test_files_share_what_calls_in_other_modules_run_but_not_the_file_at_hand() -> None:
    modules = Modules(FILES)
    for path in (*FILES, *FILES):
        source = modules.source(path, FILES[path])
        script = Script(source, path, project=Project(modules, path))
        callees = callees_of(script)
        home = callees.module("steps.py")
        assert home is not None
        (call,) = [call for call, _ in home.index.calls_of("loss")]
        target = callees.called(home.index, call.func)
        assert target is not None
        assert target.function.name == "loss"
        assert (target.home is script.index) == (path == "losses.py")


def test_calls_of_a_file_itself_say_nothing_of_its_project() -> None:
    """A verdict that depends on no other module is kept when one changes."""
    path, text = "alone.py", b"import torch\n\ndef f(x):\n    return x\n\nf(1).cuda()\n"
    project = Project(Modules({**FILES, path: text}), path)
    script = Script(Source(text), path, project=project)
    for call, _ in script.index.of(ast.Call):
        project.depends_on_modules = False
        callees_of(script).called(script.index, call.func)
        assert not project.depends_on_modules
