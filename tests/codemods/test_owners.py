"""What CUDA's methods are called on, in whatever way a program gets hold of it: each use is rewritten or named."""

from __future__ import annotations

import re

import pytest

from xla_codemods.engine import migrate

PROGRAM = """\
import collections, contextlib, copy, dataclasses, functools
from typing import Any, NamedTuple, Optional
import torch
from torch import nn
from elsewhere import Base, make

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

class Foreign(Base): ...

class Holder:
    net = Net()
    def __init__(self, x=None):
        self.m, self.f, self.x = Net(), Foreign(), x
        self.parts = [Net()]
        self.d = {"m": Net()}
    @property
    def p(self): return self.m
    def get(self): return self.m
    @functools.cached_property
    def c(self): return Foreign()
    @staticmethod
    def s(): return Net()
    @classmethod
    def k(cls): return cls()

@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    y: "torch.Tensor"
    z: Any = None
    w: Optional[torch.Tensor] = None

class Pair(NamedTuple):
    x: torch.Tensor
    y: Any

P = collections.namedtuple("P", "x y")
def fn(): return Net()
def gen():
    yield torch.ones(2)
@contextlib.contextmanager
def ctx():
    yield Net()

def run(a, b: torch.Tensor, c: Net, d: "Batch", e: Pair, f: Foreign, h: Holder, *args, batch, **kw):
    for q in a: pass
    for i, (r, t) in enumerate(zip(a, args)): pass
    first, *rest = a
    u = v = torch.ones(2)
    with ctx() as n: pass
    lam = lambda: Net()
    cond = Net() if a else Foreign()
    either = a or torch.ones(1)
    opt = None
    if a: opt = torch.ones(3)
    try:
        tr = torch.load("x")
    except OSError:
        tr = None
    match a:
        case [mm, *mr]: pass
        case {"k": mm}: mr = []
    w1 = [o for o in a]
    def inner():
        nonlocal u
        return u
    pr, pp, bt = Pair(u, v), P(u, v), Batch(u, v)
    par = functools.partial(Net)
    # uses
"""
# Of a parameter, a field, an attribute, a call, an element ...
OWNERS = """
a  b  c  d.x  d.y  d.z  d.w  e.x  e.y  e[0]  f  q  r  t  first  rest[0]  u  v  n  opt  tr  mm  mr[0]  w1[0]  cond  either
h.m  h.f  h.x  h.parts[0]  h.d["m"]  h.p  h.get()  h.c  Holder.s()  Holder.k().m  Holder.net  fn()  next(gen())  lam()
inner()  pr.x  pr.y  pr[1]  pp.x  bt.x  bt.w  par()  make()  make().net  args[0]  batch  batch["x"]  batch.x  kw["x"]
kw.get("x")  Net()  Foreign()  (yy := a)  [*a][0]  {**kw}["x"]  getattr(h, "m")  vars(h)["m"]  torch.stack([b])  (b + 1)
(-b)  b.T  b[0]  b.grad  b.data  c.fc  c.fc.weight  nn.Sequential(c)  copy.deepcopy(c)  type(c)()  globals()["G"]
list(a)[0]  max(a)  a.b.c  a().b  a[0](1)  functools.reduce(f, a)  (lambda z: z)(a)
"""
USES = (
    "print({}.cuda())",
    "{}.cuda(0)",
    "moved = {}.cuda(non_blocking=True)",
    'moved = {}.to("cuda")',
    'moved = {}.to("cuda:0", torch.float32)',
    "pinned = {}.pin_memory()",
    'if {}.device.type == "cuda": pass',
    "typed = {}.type(torch.cuda.FloatTensor)",
    'made = {}.new_zeros(2, device="cuda")',
)
ASKED = "if {}.is_cuda: pass"
NOT_TENSORS = {"c", "cond"}  # a module has no `is_cuda`: the program gives it one
PINNED = re.compile(r"\.pin_memory\(\) if torch\.cuda\.is_available\(\)")
CUDA = re.compile(r'\.cuda\(|is_cuda|"cuda|pin_memory|torch\.cuda')


ALL = re.split(r"\s{2,}|\n", OWNERS.strip())
# A use shows what its owner is, and what the owner's parts are. So a group has unrelated owners: each use has
# the same outcome as alone in the program.
GROUPS = [ALL[start::9] for start in range(9)]


@pytest.mark.parametrize("use", [*USES, ASKED])
def test_every_use_is_rewritten_or_named(use: str) -> None:
    unnoticed = []
    for group in GROUPS:
        owners = [owner for owner in group if use != ASKED or owner not in NOT_TENSORS]
        uses = "".join(f"    {use.format(owner)}\n" for owner in owners)
        result = migrate(f"{PROGRAM}{uses}".encode())
        before, _, after = result.data.decode().rpartition("# uses\n")
        named = {finding.line - before.count("\n") - 2 for finding in result.left}
        lines = after.splitlines()
        assert len(lines) == len(owners)
        unnoticed += [
            owners[n]
            for n, line in enumerate(lines)
            if CUDA.search(PINNED.sub("", line)) and n not in named
        ]
    assert unnoticed == []
