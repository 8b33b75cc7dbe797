"""Graphs of scripts that really run under torch_xla, on no device; and what is read from records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from xla_migrate.target.compile import tracing
from xla_migrate.target.compile.child import loaders, reads
from xla_migrate.verify.judge import graph_count

from .traced import traced

SCRIPTS = Path(__file__).parent / "scripts"
SMALL = ["--layers", "1", "--width", "16", "--length", "16"]

EVERYTHING = """
import os
import torch
from torch import nn
from xla_migrate import runtime as xla

device = xla.xla_device()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
data = torch.utils.data.TensorDataset(torch.randn(43, 4), torch.randint(0, 2, (43,)))
best = float("inf")
for epoch in range(50):
    for x, y in xla.MpDeviceLoader(torch.utils.data.DataLoader(data, batch_size=8)):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        assert loss.item() > 0, "READ"
        assert torch.isfinite(loss).all() and not torch.isnan(loss).any()
        loss.backward()
        xla.optimizer_step(optimizer)
    with torch.no_grad():
        rows = torch.zeros(3)
        rows[0] = model(x).sum()  # the read is in C++
        print("nonzero", model(x).nonzero().shape, torch.equal(y, y + 1), repr(model(x))[:6])
        print("labels", int(y.max() + 5 - y.max()))
    if loss.item() < best:
        best = loss.item()
        torch.save(model.state_dict(), "last.tmp")
        os.replace("last.tmp", "last.pt")
        xla.save(optimizer.state_dict(), "optimizer.pt")
        print("loaded", torch.load("last.pt")["0.weight"].shape, os.path.exists("last.pt"))
"""


DEFERRED = """
import torch
from xla_migrate import runtime as xla

model = torch.nn.Linear(4, 2).to(xla.xla_device())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    optimizer.zero_grad()
    loss = model(torch.ones(3, 4).to(xla.xla_device())).square().mean()
    loss.backward()
    xla.optimizer_step(optimizer)
    xla.later(lambda step=step, loss=loss: print(step, loss.item()))
    xla.mark_step()
"""


@pytest.mark.e2e
def test_a_script_with_deferred_output_is_traced_to_its_end(tmp_path: Path) -> None:
    """Recording a graph opens a file, before which the runtime computes what waits: that must not begin again."""
    script = tmp_path / "project" / "train.py"
    script.parent.mkdir()
    script.write_text(DEFERRED)
    found = tracing.trace(script, [], tmp_path / "run", timeout=100)
    assert found.problem == "", found.output
    assert found.steps == 6
    assert found.output.split()[::2] == ["0", "1", "2", "3", "4", "5"]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> tracing.Tracing:
    folder = tmp_path_factory.mktemp("everything")
    script = folder / "project" / "train.py"
    script.parent.mkdir()
    script.write_text(EVERYTHING)
    return traced(script, [], folder / "run", patience=12)


@pytest.mark.e2e
def test_the_script_is_traced_without_running(everything: tracing.Tracing) -> None:
    assert everything.problem == "", everything.output
    kinds = [(graph.phases, graph.why) for graph in everything.graphs]
    assert (["backward", "optimizer step"], "step mark") in kinds  # loss.item() cuts before it
    assert (["forward"], "step mark") in kinds
    assert any("evaluation" in phases for phases, _ in kinds)
    lines = EVERYTHING.splitlines()
    cuts = {lines[int(graph.place.partition(":")[2]) - 1].strip() for graph in everything.graphs}
    assert any(cut.startswith("for x, y in") for cut in cuts)
    assert any("READ" in cut for cut in cuts)


@pytest.mark.e2e
def test_it_is_stopped_when_nothing_is_new(everything: tracing.Tracing) -> None:
    # 50 passes of 6 batches were asked for; each pass gave 4 and the odd one.
    assert everything.stopped
    assert 12 <= everything.steps <= 40
    shapes = {
        shape
        for graph in everything.graphs
        for shape in ("8x4xf32", "3x4xf32")
        if shape in graph.text
    }
    assert shapes == {"8x4xf32", "3x4xf32"}


@pytest.mark.e2e
def test_reads_are_answered_and_told(everything: tracing.Tracing) -> None:
    assert "nonzero torch.Size([6, 2]) " in everything.output
    assert "labels 5" in everything.output  # follows from the batch alone: computed, not made up
    places = {
        EVERYTHING.splitlines()[int(p.partition(":")[2]) - 1].strip() for p in everything.reads
    }
    assert any("READ" in place for place in places)
    assert any("rows[0]" in place for place in places)


@pytest.mark.e2e
def test_no_made_up_weights_reach_a_file(everything: tracing.Tracing) -> None:
    assert "loaded torch.Size([8, 4]) False" in everything.output
    assert len(everything.saves) == 2


@pytest.mark.e2e
def test_arguments_are_handed_over_as_torch_xla_does(tmp_path: Path) -> None:
    found = traced(SCRIPTS / "transformer.py", SMALL, tmp_path / "run")
    assert found.problem == "", found.output
    # torch_xla's own metric InputOutputAliasCount of this script: 15, then 45 (weights and two moments of each).
    assert [graph.donors for graph in found.graphs] == [15, 45]
    assert all(graph.text.count("jax.buffer_donor") == graph.donors for graph in found.graphs)
    assert [graph.times for graph in found.graphs] == [1, 2]


@pytest.mark.e2e
def test_executing_gives_the_same_graphs_and_real_values(tmp_path: Path) -> None:
    script = tmp_path / "project" / "train.py"
    script.parent.mkdir()
    source = (SCRIPTS / "transformer.py").read_text()
    script.write_text(source + "\nassert loss.item() != 1.0 and loss.item() > 2, loss\n")
    found = traced(script, SMALL, tmp_path / "run", execute=True)
    assert found.problem == "", found.output
    assert found.reads == {}
    assert [graph.donors for graph in found.graphs] == [15, 45]


@pytest.mark.e2e
def test_a_script_that_fails_is_told_with_its_line(tmp_path: Path) -> None:
    script = tmp_path / "project" / "train.py"
    script.parent.mkdir()
    script.write_text("import torch\n\nraise ValueError('no data')\n")
    found = traced(script, [], tmp_path / "run")
    assert found.problem == "train.py:3: ValueError: no data"


def test_records_of_several_processes_are_one(tmp_path: Path) -> None:
    (tmp_path / "1.0.mlir").write_text("a")
    (tmp_path / "2.0.mlir").write_text("a")
    (tmp_path / "2.1.mlir").write_text("b")
    common = {"kind": "graph", "why": "read", "steps": 1, "donors": 0, "spmd": False}
    first = {
        **common,
        "number": 0,
        "file": "1.0.mlir",
        "place": "x.py:1",
        "phases": ["forward"],
        "beside": 1,
    }
    other = {**first, "file": "2.0.mlir", "phases": ["backward"], "beside": 9}
    third = {**first, "number": 1, "file": "2.1.mlir", "place": "x.py:2"}
    again = {"kind": "again", "number": 1, "place": "x.py:2"}
    read = {"kind": "read", "place": "x.py:3", "answer": "1.0"}
    end = {"kind": "end", "steps": 7}
    for process, events in (("1", [first]), ("2", [other, third, again, read, end])):
        lines = "".join(json.dumps(event) + "\n" for event in events)
        (tmp_path / f"events.{process}.jsonl").write_text(lines)
    found = tracing.read(tmp_path)
    assert [(g.place, g.times, g.beside) for g in found.graphs] == [
        ("x.py:1", 2, 9),
        ("x.py:2", 2, 1),
    ]
    assert found.graphs[0].phases == ["backward", "forward"]
    assert (found.reads, found.steps, found.stopped) == ({"x.py:3": "1.0"}, 7, False)


@pytest.mark.parametrize(
    ("samples", "size", "drop_last", "odd"),
    [(43, 8, False, 3), (43, 8, True, 0), (40, 8, False, 0)],
)
def test_the_last_batch_is_one_of_its_own_size(
    samples: int, size: int, drop_last: bool, odd: int
) -> None:
    data = TensorDataset(torch.zeros(samples, 1))
    assert loaders.odd_last(DataLoader(data, batch_size=size, drop_last=drop_last)) == odd


def test_a_short_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DataLoader, "__iter__", DataLoader.__iter__)
    loaders.shorten(2)
    loader = DataLoader(TensorDataset(torch.zeros(11, 1)), batch_size=4)
    assert [len(batch[0]) for batch in loader] == [4, 4, 3]
    assert len(loader) == 3
    long = DataLoader(TensorDataset(torch.zeros(43, 1)), batch_size=4)
    assert [len(batch[0]) for batch in long] == [4, 4, 3]
    assert len(long) == 11


def test_made_up_values() -> None:
    loss = torch.tensor(5.0)
    assert 0.5 < reads.made_up(loss, False, 0).item() < 1.0
    assert (
        reads.made_up(loss, False, 3).item() < reads.made_up(loss, False, 0).item()
    )  # better than before: a checkpoint is due
    assert reads.made_up(loss, False, 10_000).item() == 0.5
    assert reads.made_up(loss, True, 0).item() == 0.0  # no gradient overflowed
    assert reads.made_up(torch.tensor(True), False, 0).item() is False
    assert reads.made_up(torch.tensor([7, 8]), False, 0).tolist() == [1, 1]
    assert reads.made_up(torch.zeros(300, 300), False, 0).sum() == 0  # takes no memory


def test_made_up_values_are_on_the_host_with_any_default_device() -> None:
    read = [torch.tensor(5.0), torch.tensor(True), torch.tensor([7, 8])]
    with torch.device("meta"):
        made = [reads.made_up(tensor, False, 0) for tensor in read]
    assert {value.device.type for value in made} == {"cpu"}


ACCUMULATES = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from xla_migrate import runtime as xla

data = TensorDataset(torch.randn(160, 6), torch.randint(0, 3, (160,)))
model = nn.Linear(6, 3).to(xla.xla_device())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(4):
    for step, (x, y) in enumerate(xla.MpDeviceLoader(DataLoader(data, batch_size=8))):
        loss = nn.functional.cross_entropy(model(x), y)
        GROWS
        loss.backward()
        if step % 2 == 0:
            xla.optimizer_step(optimizer)
            optimizer.zero_grad()
"""


def _graphs(source: str, folder: Path) -> tuple[tracing.Tracing, list[graph_count.Group]]:
    script = folder / "project" / "train.py"
    script.parent.mkdir()
    script.write_text(source)
    found = traced(script, [], folder / "run", explain=True)
    assert found.problem == "", found.output
    return found, graph_count.groups(found.causes, found.steps)


@pytest.mark.e2e
def test_graphs_are_counted_by_the_branch_that_makes_them(tmp_path: Path) -> None:
    found, causes = _graphs(ACCUMULATES.replace("GROWS", "pass"), tmp_path)
    assert len(found.causes) == len(found.graphs)
    assert any(group.branch == "if step % 2 == 0 (train.py:15)" for group in causes)
    assert graph_count.predicted(causes, found.left_out) == len(found.graphs)


@pytest.mark.e2e
def test_a_number_that_changes_is_multiplied_by_the_batches_left_out(tmp_path: Path) -> None:
    line = "loss = loss + 0 * torch.ones(epoch * 20 + step + 1, device=x.device).sum()"
    found, causes = _graphs(ACCUMULATES.replace("GROWS", line), tmp_path)
    assert found.left_out == 4 * 16
    growing = [group for group in causes if group.every]
    assert growing, causes
    assert growing[0].where == "train.py:13"
    assert graph_count.predicted(causes, found.left_out) > len(found.graphs) + 20
