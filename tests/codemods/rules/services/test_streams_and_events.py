"""Waiting, timing, and streams, which go together or not at all."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import check, migrate

from ...helpers import migrated
from ..lines import codes, line


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.cuda.synchronize()", "xla.synchronize()"),
        ("torch.cuda.synchronize(0)", "xla.synchronize()"),
        ("torch.cuda.synchronize(device)", "xla.synchronize(device)"),
        ("torch.cuda.synchronize(device=d)", "xla.synchronize(d)"),
        ("torch.accelerator.synchronize()", "xla.synchronize()"),
        ("torch.cuda.current_stream().synchronize()", "xla.synchronize()"),
        ("sync = torch.cuda.synchronize if c else f", "sync = xla.synchronize if c else f"),
        ("e = torch.cuda.Event()", "e = xla.Event()"),
        ("e = torch.cuda.Event(True, blocking=True)", "e = xla.Event(True, blocking=True)"),
        ("es = [torch.cuda.Event(enable_timing=True) for _ in r]", "es = [xla.Event(enable_timing=True) for _ in r]"),
        ('e = torch.Event(device="cuda", enable_timing=True)', "e = xla.Event(enable_timing=True)"),
        ("from torch.cuda import Event\ne = Event()", "e = xla.Event()"),
        ("make(torch.cuda.Event)", "make(xla.Event)"),
        ("e.record(torch.cuda.current_stream())", "e.record()"),
        ("e.record(stream=torch.cuda.current_stream())", "e.record()"),
    ],
)  # fmt: skip
def test_waiting_and_timing(before: str, after: str) -> None:
    assert line(before) == after


STREAM = "s = torch.cuda.Stream()\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (STREAM + "with torch.cuda.stream(s):\n    f()", "f()"),
        (STREAM + "with torch.cuda.stream(s), torch.no_grad():\n    f()", "with torch.no_grad():\n    f()"),
        (STREAM + "with torch.cuda.StreamContext(s):\n    f()", "f()"),
        (STREAM + "s.wait_stream(torch.cuda.current_stream())\nf()", "f()"),
        (STREAM + "torch.cuda.current_stream().wait_stream(s)\nf()", "f()"),
        (STREAM + "x.record_stream(s)\nf()", "f()"),
        (STREAM + "s.wait_event(e)\nf()", "f()"),
        (STREAM + "torch.cuda.set_stream(s)\nf()", "f()"),
        (STREAM + "s.synchronize()", "xla.synchronize()"),
        (STREAM + "if x is not None:\n    x.record_stream(s)\nf()", "f()"),
        ("self.stream = torch.cuda.Stream(device, priority=-1)\nwith torch.cuda.stream(self.stream):\n    f()", "f()"),
        ("s = torch.cuda.Stream() if cuda else None\nif s is not None:\n    torch.cuda.current_stream().wait_stream(s)\nf()", "f()"),
        ("ss = [torch.cuda.Stream() for _ in r]\nfor s in ss:\n    with torch.cuda.stream(s):\n        f()",
         "ss = [None for _ in r]\nfor s in ss:\n    f()"),
        ("run(stream=torch.cuda.Stream())", "run(stream=None)"),
        ("x.record_stream(torch.cuda.current_stream())\nf()", "f()"),
        ("with torch.cuda.stream(s) if cuda else other():\n    f()",
         "import contextlib\nwith contextlib.nullcontext() if cuda else other():\n    f()"),
    ],
)  # fmt: skip
def test_streams(before: str, after: str) -> None:
    assert line(before) == after


def test_a_context_that_another_branch_leaves_idle() -> None:
    before = "from contextlib import nullcontext\ns = torch.cuda.Stream()\nwith torch.cuda.stream(s) if cuda else nullcontext():\n    f()"
    assert line(before) == "f()"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("c = torch.cuda.stream(s)", "c = contextlib.nullcontext()"),
        ("c = torch.cuda.stream(s) if cuda else contextlib.nullcontext()", "c = contextlib.nullcontext()"),
        ("c = torch.cuda.stream(s) if s is not None else contextlib.nullcontext()", "c = contextlib.nullcontext()"),
        ("stack.enter_context(torch.cuda.stream(s))", "stack.enter_context(contextlib.nullcontext())"),
        ("c = lambda: torch.cuda.stream(s)", "c = lambda: contextlib.nullcontext()"),
        ("c = partial(torch.cuda.stream, s)", "c = contextlib.nullcontext"),
        ("c = partial(torch.cuda.stream, stream=s)", "c = contextlib.nullcontext"),
        ("with torch.cuda.stream(s) if s else contextlib.nullcontext():\n    f()", "f()"),
    ],
)  # fmt: skip
def test_contexts_that_are_kept(before: str, after: str) -> None:
    head = "import contextlib\nfrom functools import partial\nprint(partial, contextlib)\n"
    assert line(f"{head}s = torch.cuda.Stream()\n{before}") == f"{head}{after}"


def test_the_context_that_does_nothing_is_imported() -> None:
    assert line("c = torch.cuda.stream(torch.cuda.Stream())").startswith("import contextlib\n")


@pytest.mark.parametrize(
    "left",
    [
        "context = Overlap(torch.cuda.stream)",
        "handle = s.cuda_stream",
        "if s is not None:\n    x = move(x)",
        "y = make(torch.cuda.stream)",
        "def g(x, stream):\n    x.record_stream(stream)",
    ],
)
def test_where_one_use_cannot_go_none_goes(left: str) -> None:
    """Work that stays on a stream needs what orders it: else it is silently wrong on CUDA."""
    source = f"{STREAM}{left}\nwith torch.cuda.stream(s):\n    f()\ntorch.cuda.current_stream().wait_stream(s)"
    assert line(source) == source
    assert "XLA123" in codes(source)


@pytest.mark.parametrize(
    "source",
    [
        "event = threading.Event()\nevent.wait(3)",
        "stream = open(p)\nstream.read()",
        "class Disk:\n    def wait_stream(self, s): pass\nDisk().wait_stream(1)",
        "def f(s: torch.cuda.Stream, e: torch.cuda.Event) -> torch.cuda.Stream: pass",
        "recorder.record(track)",
        "disk.synchronize()",
    ],
)
def test_other_streams_and_events_stay(source: str) -> None:
    assert line(source) == source
    assert codes(source) == []


def test_asking_whether_something_is_a_stream_is_worth_knowing_only() -> None:
    source = b"import torch\nprint(isinstance(x, torch.cuda.StreamContext))\n"
    assert [(f.code, f.severity) for f in check(source)] == [("XLA123", "info")]


def test_a_stream_that_goes_with_its_context_is_found_once() -> None:
    assert codes("with torch.cuda.stream(torch.cuda.Stream()):\n    x = 1") == ["XLA123"]
    assert codes("with torch.cuda.stream(torch.cuda.Stream()), f() as g:\n    x = 1") == ["XLA123"]


@pytest.mark.parametrize(
    "default",
    [
        "if stream is None:\n        stream = torch.cuda.current_stream()",
        "if stream == None: stream = torch.cuda.Stream()",
        "if not stream:\n        stream = torch.cuda.default_stream()",
        "stream = stream or torch.cuda.current_stream()",
    ],
)
def test_a_stream_where_none_is_given(default: str) -> None:
    source = (
        f"import torch\ndef f(x, stream=None):\n    {default}\n    return g(x.cuda(), stream)\n"
    )
    assert migrated(source).endswith(
        "def f(x, stream=None):\n    return g(x.to(xla.xla_device()), stream)\n"
    )


def test_of_a_choice_what_was_given_is_left() -> None:
    source = "import torch\ndef f(stream=None):\n    return stream or torch.cuda.Stream()\n"
    assert migrated(source).endswith("    return stream\n")


def test_a_stream_asked_for_by_another_test_is_left_to_a_person() -> None:
    source = "import torch\ndef f(x, stream=None):\n    if stream is None:\n        stream = torch.cuda.Stream()\n        x = x + 1\n    return g(x, stream)\n"
    assert "stream = torch.cuda.Stream()" in migrated(source)


def test_a_stream_that_nobody_uses_goes() -> None:
    source = "import torch\ndef f(x):\n    unused = torch.cuda.Stream()\n    return x.cuda()\n"
    assert "unused" not in migrated(source)


MAKE = "import functools\nimport torch\ns = torch.cuda.Stream() if torch.cuda.is_available() else None\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if s is not None:\n    with torch.cuda.stream(s):\n        x = f(x)\n    torch.cuda.current_stream().wait_stream(s)\nelse:\n    x = f(x)", "x = f(x)"),
        ("if s is None:\n    x = f(x)\nelse:\n    with torch.cuda.stream(s):\n        x = f(x)\n    s.synchronize()", "x = f(x)"),
        ("if s:\n    with torch.cuda.stream(s):\n        x = x.to(d, non_blocking=True)\n    s.synchronize()\nelse:\n    x = x.to(d)", "x = x.to(d)"),
        ("if s is not None:\n    c = functools.partial(torch.cuda.stream, stream=s)\nelse:\n    import contextlib\n    c = contextlib.nullcontext\nwith c():\n    x = f(x)", "import contextlib\nc = contextlib.nullcontext\nwith c():\n    x = f(x)"),
        ("if not s:\n    x = x.to(d)\nelse:\n    with torch.cuda.stream(s):\n        x = x.to(d, non_blocking=True)", "x = x.to(d)"),
        ("if s is not None:\n    with torch.cuda.stream(s):\n        y = f(x)\n    for t in y:\n        t.record_stream(torch.cuda.current_stream())\n    r = y\nelse:\n    r = f(x)", "r = f(x)"),
    ],
)  # fmt: skip
def test_two_ways_that_are_one_without_streams(before: str, after: str) -> None:
    result = migrated(f"{MAKE}{before}\n")
    assert result.rstrip().endswith(after)
    assert "stream" not in result.lower()


@pytest.mark.parametrize(
    "before",
    [
        "if s is not None:\n    with torch.cuda.stream(s):\n        x = f(x).to(d)\nelse:\n    x = f(x)",
        "if s is None:\n    x = g(x)\nelse:\n    with torch.cuda.stream(s):\n        x = f(x)",
        "if s is not None:\n    with torch.cuda.stream(s):\n        x = f(x)\n    x = x / 2\nelse:\n    x = f(x)",
    ],
)
def test_two_ways_that_differ_are_a_persons(before: str) -> None:
    result = migrated(f"{MAKE}{before}\n")
    assert "torch.cuda.stream(s)" in result
    assert "XLA123" in codes(result)


def test_what_is_left_imports_nothing() -> None:
    left = "if s is not None:\n    x = f(x).to(d)\nc = functools.partial(torch.cuda.stream, s)\n"
    assert "contextlib" not in migrated(MAKE + left)


_HELPERS = b"""import torch
@torch.compiler.disable
def wait(this, other=None):
    this.wait_stream(other)
def keep(x, stream=None):
    return x
"""


@pytest.mark.parametrize(
    ("body", "goes"),
    [
        ("wait(torch.cuda.Stream())", False),
        ("wait(other=None, this=torch.cuda.Stream())", False),
        ("side = torch.cuda.Stream()\nwait(side, torch.cuda.current_stream())", False),
        ("keep(x, torch.cuda.current_stream())", True),
        ("side = torch.cuda.Stream()\nkeep(x, stream=side)", True),
    ],
)
def test_a_function_of_another_module_that_needs_its_stream(body: str, goes: bool) -> None:
    source = f"import torch\nfrom streams import keep, wait\nx = torch.ones(2).cuda()\n{body}\n"
    files = {"train.py": source.encode(), "streams.py": _HELPERS}
    result = migrate(
        files["train.py"], path="train.py", project=Project(Modules(files), "train.py")
    )
    assert ("torch.cuda" not in result.data.decode()) is goes


@pytest.mark.parametrize(
    "line",
    [
        "make = torch.cuda.Event, torch.cuda.synchronize",
        "def make():\n    return torch.cuda.Event, torch.cuda.synchronize",
        "table = {'event': torch.cuda.Event}",
        "kinds = [torch.cuda.Event]",
    ],
)
def test_the_class_of_events_in_a_collection(line: str) -> None:
    assert "xla.Event" in migrated(f"import torch\n{line}\n")


def test_a_stream_that_a_cuda_graph_is_captured_on_stays() -> None:
    source = """import torch

def capture(model, x):
    stream = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        model(x)
        with torch.cuda.graph(graph):
            y = model(x)
    return graph, y
"""
    done = migrate(source.encode())
    assert done.data.decode() == source
    assert {"XLA123", "XLA901"} <= {f.code for f in done.left}
