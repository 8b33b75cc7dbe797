"""Sparse tensors that another module of the project makes are found where they are moved, and wrapped there."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Project
from xla_codemods.engine import check

from ...analysis.projects.test_project import after, left, modules

TRAIN = """
import torch
{imports}

def main(model, optimizer, device, x):
    {got}
    {moved}
    model.cuda()
    loss = model(x, adj)
    loss.backward()
    optimizer.step()

if __name__ == "__main__":
    main()
"""
COO = "torch.sparse_coo_tensor(i, v, (n, n))"
FUNCTION = "import torch\n\ndef load(i, v, n):\n    adj = {made}\n    return adj, v\n"
PLAIN = ("from utils import load", "adj, x = load()", "adj = adj.cuda()")


def found(files: dict[str, str], imports: str, got: str, moved: str) -> list[tuple[str, int]]:
    train = TRAIN.format(imports=imports, got=got, moved=moved)
    every = {**files, "train.py": train}
    given = modules(every)
    begin = check(given.files["train.py"], path="train.py", project=Project(given, "train.py"))
    places = [
        (f.code, f.line - train[: train.index(moved)].count("\n"))
        for f in begin
        if f.code == "XLA513"
    ]
    by_hand = [f for f in left(every, "train.py") if f.code == "XLA513"]
    wrapped = after(every)["train.py"].count("xla.sparse(")
    assert (len(by_hand), wrapped) == ((1, 0) if "register_buffer" in moved else (0, len(places)))
    return places


@pytest.mark.parametrize(
    "made",
    [
        COO,
        f"{COO}.coalesce()",
        f"{COO}.float().t()",
        "torch.sparse.FloatTensor(i, v, torch.Size((n, n)))",
        "torch.sparse_csr_tensor(i, i, v)",
        "torch.eye(n).to_sparse()",
        "torch.eye(n).to_sparse_csr()",
        "torch.autograd.Variable(torch.eye(n).to_sparse())",
        "normalized(i).to_sparse() if n else None",
    ],
)
def test_however_it_is_made(made: str) -> None:
    assert len(found({"utils.py": FUNCTION.format(made=made)}, *PLAIN)) == 1


@pytest.mark.parametrize(
    ("moved", "times"),
    [
        (
            "adj = adj.to(torch.device('cuda') if torch.cuda.is_available() else torch.device('cpu'))",
            1,
        ),
        ("adj = adj.to(device=torch.device('cuda'))", 1),
        ("adj = adj.to(torch.device('cpu'))", 0),
        ("adj = adj.to('cpu')", 0),
        ("adj = adj.to(torch.float32)", 0),
    ],
)
def test_where_it_is_moved(moved: str, times: int) -> None:
    """A device that may be the CPU is not the CPU."""
    files = {"utils.py": FUNCTION.format(made=COO)}
    assert len(found(files, *PLAIN[:2], moved)) == times


CONVERTED = """
import numpy as np
import torch

def load(sp, v):
    adj = scipy_to_torch(sp.eye(3))
    return adj, v

def scipy_to_torch(m):
    m = m.tocoo().astype(np.float32)
    indices = torch.from_numpy(np.vstack((m.row, m.col)).astype(np.int64))
    return torch.sparse.FloatTensor(indices, torch.from_numpy(m.data), torch.Size(m.shape))
"""
GRAPH = """
import torch

class Graph:
    def __init__(self, n):
        self.adj = torch.eye(n).to_sparse()

    @property
    def matrix(self):
        return self.adj

    def get(self):
        return {"adj": self.adj, "n": 3}
"""


@pytest.mark.parametrize(
    ("utils", "imports", "got", "moved"),
    [
        (CONVERTED, "import utils", "adj, x = utils.load()", "adj = adj.to(device)"),
        (CONVERTED, "from utils import *", "adj, x = load()", "adj, x = adj.cuda(), x.cuda()"),
        (CONVERTED, "import utils as u", "data = u.load()", "adj = data[0].cuda()"),
        (CONVERTED, "import utils", "adj = utils.load()[0]", "model.register_buffer('adj', adj)"),
        (GRAPH, "from utils import Graph", "g = Graph(3)", "adj = g.adj.cuda()"),
        (GRAPH, "from utils import Graph", "adj = Graph(3).matrix", "adj = adj.cuda()"),
        (GRAPH, "from utils import Graph", "d = Graph(3).get()", "adj = d['adj'].to(device)"),
        (f"import torch\ni = v = n = None\nadj = {COO}\n", "from utils import adj", "a = adj", "model(a.cuda())"),
        (f"import torch\ni = v = n = None\nadj = {COO}\n", "import utils", "a = utils.adj", "model(a.cuda())"),
    ],
)  # fmt: skip
def test_however_it_comes(utils: str, imports: str, got: str, moved: str) -> None:
    assert len(found({"utils.py": utils}, imports, got, moved)) == 1


def test_by_a_module_that_hands_it_on() -> None:
    files = {"lib/io.py": FUNCTION.format(made=COO), "lib/__init__.py": "from .io import load\n"}
    assert len(found(files, "from lib import load", *PLAIN[1:])) == 1


def test_where_another_module_moves_what_it_is_given() -> None:
    step = (
        "import torch\n\ndef step(model, adj, loss):\n    adj = adj.cuda()\n    loss.backward()\n"
    )
    main = "from utils import load\nfrom step import step\n\ndef main(model, loss):\n    adj, _ = load()\n    step(model, adj, loss)\n"
    files = {"utils.py": FUNCTION.format(made=COO), "step.py": step, "main.py": main}
    assert "adj = xla.sparse(adj).to(xla.xla_device())" in after(files)["step.py"]
    files["step.py"] = step.replace("    loss", "    print(adj[0])\n    loss")
    (finding,) = [f for f in left(files, "step.py") if f.code == "XLA513"]
    assert "created in utils.py, line 4" in finding.message
    assert "has no `adj[0]`" in finding.message


MODEL = """
import torch
from torch import nn
import torch.nn.functional as F

class Layer(nn.Module):
    def forward(self, x, adj):
        {use}
        return torch.spmm(adj, x)
"""


@pytest.mark.parametrize(
    ("use", "refused"),
    [
        ("x = torch.mm(adj, x) + adj.t() @ x", False),
        ("n = adj.shape[0]; x = torch.sparse.mm(adj, x) / n", False),
        ("x = x[0] + adj.to_dense()", False),
        ("x = x if adj is None else adj.mm(x)", False),
        ("adj = adj * 0.5", False),
        ("adj = F.dropout(adj)", True),
        ("adj = adj + torch.eye(3)", True),
        ("x = x * adj", True),
        ("adj = torch.sparse.softmax(adj, 1)", True),
        ("adj = adj.sum(1)", True),
        ("adj = adj[0]", True),
        ("adj = adj > 0", True),
    ],
)
def test_what_the_model_of_another_module_does_with_it(use: str, refused: bool) -> None:
    train = (
        "import torch\nfrom utils import load\nfrom model import Layer\n\ndef main(optimizer):\n    adj, x = load()\n"
        "    adj, x = adj.cuda(), x.cuda()\n    model = Layer().cuda()\n    loss = model(x, adj)\n    loss.backward()\n"
        "    optimizer.step()\n\nif __name__ == '__main__':\n    main()\n"
    )
    files = {
        "utils.py": FUNCTION.format(made=COO),
        "model.py": MODEL.format(use=use),
        "train.py": train,
    }
    codes = [f.code for f in left(files, "train.py")]
    assert ("XLA513" in codes) is refused
    assert ("xla.sparse(adj).to(xla.xla_device())" in after(files)["train.py"]) is not refused


@pytest.mark.parametrize(
    ("made", "moved"),
    [
        (f"{COO}.to_dense()", "adj = adj.cuda()"),
        (f"torch.sparse.mm({COO}, v)", "adj = adj.cuda()"),
        (COO, "adj = adj.to_dense().cuda()"),
        (COO, "adj = adj.to('cpu')"),
        (COO, "adj = adj.to(torch.float32)"),
        (COO, "x = x.cuda()"),
        ("torch.eye(n)", "adj = adj.cuda()"),
    ],
)
def test_what_is_dense_or_stays(made: str, moved: str) -> None:
    assert found({"utils.py": FUNCTION.format(made=made)}, *PLAIN[:2], moved) == []
