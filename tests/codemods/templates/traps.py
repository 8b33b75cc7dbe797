"""Programs that try to lead the rewriting astray: shadowed and bound names, classes of one's own, odd places. Each runs once it is migrated."""

from __future__ import annotations

TRAPS = {
    "shadow cuda": """
import torch
def f(cuda):
    class torch:
        class cuda:
            @staticmethod
            def is_available(): return 7
    return torch.cuda.is_available()
assert f(1) == 7
""",
    "rebinding": """
import torch
x = torch.ones(2)
cuda = torch.cuda
print(cuda.is_available())
cuda = {"is_available": 3}
print(cuda["is_available"])
""",
    "conditional import": """
try:
    import torch.cuda.amp as amp
except ImportError:
    amp = None
import torch
if amp is not None:
    with amp.autocast(enabled=False):
        y = torch.ones(2, device="cuda") * 2
""",
    "subclass module": """
import torch
class Net(torch.nn.Linear):
    def cuda(self, device=None):
        self.moved = True
        return super().cuda(device)
n = Net(2, 2)
n = n.cuda()
n(torch.ones(1, 2).cuda()).sum().backward()
""",
    "decorator": """
import torch
def on(device):
    def deco(f):
        def g(*a): return f(*[t.to(device) for t in a])
        return g
    return deco
@on("cuda")
def add(a, b): return a + b
print(add(torch.ones(2), torch.ones(2)))
""",
    "getattr dyn": """
import torch
name = "cuda"
mod = getattr(torch, name)
print(mod.is_available())
print(getattr(torch.cuda, "is_" + "available")())
""",
    "star": """
from torch import *
from torch.cuda import *
x = ones(2).cuda()
print(is_available(), device_count(), x.shape)
""",
    "walrus": """
import torch
if (d := torch.device("cuda" if torch.cuda.is_available() else "cpu")).type == "cuda":
    print("gpu", d)
x = torch.ones(2, device=d)
if (n := torch.cuda.device_count()) > 1:
    print(n)
""",
    "match": """
import torch
def pick(kind):
    match kind:
        case "cuda":
            return torch.device("cuda")
        case "cpu":
            return torch.device("cpu")
        case _:
            raise ValueError(kind)
x = torch.ones(2, device=pick("cuda"))
match x.device.type:
    case "cuda":
        print("on gpu")
    case other:
        print("on", other)
""",
    "lambda default": """
import torch
move = lambda x, device="cuda": x.to(device)
moves = [lambda x, d=torch.device("cuda"): x.to(d), lambda x: x.cuda()]
x = move(torch.ones(2))
for m in moves: x = m(x)
print(x.shape)
""",
    "nested nonlocal": """
import torch
def outer():
    device = "cpu"
    def inner():
        nonlocal device
        device = "cuda"
        def deepest(x): return x.to(device)
        return deepest
    return inner()(torch.ones(2))
print(outer().shape)
""",
    "async": """
import asyncio, torch
async def step(model, opt, q):
    while not q.empty():
        x = await q.get()
        opt.zero_grad()
        loss = model(x.cuda()).sum()
        loss.backward()
        opt.step()
async def main():
    q = asyncio.Queue()
    for _ in range(3): await q.put(torch.ones(1, 2))
    m = torch.nn.Linear(2, 2).cuda()
    await step(m, torch.optim.SGD(m.parameters(), lr=0.1), q)
asyncio.run(main())
""",
    "class attr": """
import torch
class Config:
    device = "cuda"
    devices = ["cuda:0"]
    use_cuda = torch.cuda.is_available()
    dev = torch.device(device)
    n = torch.cuda.device_count() if use_cuda else 0
print(torch.ones(2, device=Config.dev), torch.ones(1).to(Config.devices[0]), Config.n)
""",
    "dataclass": """
from dataclasses import dataclass, field
import torch
@dataclass
class A:
    device: str = field(default="cuda")
    dev: torch.device = field(default_factory=lambda: torch.device("cuda"))
    scaler: object = field(default_factory=torch.cuda.amp.GradScaler)
    ids: list = field(default_factory=lambda: list(range(torch.cuda.device_count())))
a = A()
print(torch.ones(2).to(a.device), torch.ones(2, device=a.dev))
""",
    "partial": """
from functools import partial
import torch
zeros = partial(torch.zeros, device="cuda")
ac = partial(torch.autocast, device_type="cuda", dtype=torch.float16)
sync = partial(torch.cuda.synchronize)
x = zeros(3)
with ac(): y = x * 2
sync()
print(x.shape)
""",
    "type comment": """
import torch
def f(x, dev="cuda"):
    # type: (torch.cuda.FloatTensor, str) -> torch.cuda.FloatTensor
    y = x.to(dev)  # type: torch.Tensor
    return y
print(f(torch.ones(2)).shape)
""",
    "future annot": """
from __future__ import annotations
import torch
def f(x: torch.cuda.FloatTensor, s: torch.cuda.Stream | None = None) -> "torch.cuda.FloatTensor":
    return x
print(f(torch.ones(2).cuda()).shape)
""",
    "global": """
import torch
device = None
def setup():
    global device
    device = torch.device("cuda", 0)
def use(): return torch.ones(2, device=device)
setup(); print(use().shape)
""",
    "own torch module": """
import types
torch = types.SimpleNamespace(cuda=types.SimpleNamespace(is_available=lambda: "mine", synchronize=lambda: None))
assert torch.cuda.is_available() == "mine"
torch.cuda.synchronize()
""",
    "param shadow": """
import torch
def run(torch, x):
    return torch.cuda(x)
class Fake:
    def cuda(self, x): return x + 1
assert run(Fake(), 1) == 2
""",
    "comp shadow": """
import torch
names = [cuda for cuda in ["cuda", "cpu"]]
d = {torch: 1 for torch in range(3)}
print(names, d, torch.cuda.is_available())
""",
    "del": """
import torch
x = torch.ones(2).cuda()
s = torch.cuda.Stream()
with torch.cuda.stream(s):
    y = x + 1
del s
torch.cuda.empty_cache()
print(y.sum().item())
""",
    "try finally": """
import torch
try:
    torch.cuda.synchronize()
finally:
    torch.cuda.empty_cache()
try:
    torch.cuda.empty_cache()
except RuntimeError:
    pass
else:
    print("emptied")
for _ in range(2):
    torch.cuda.empty_cache()
while False:
    torch.cuda.empty_cache()
with open("/dev/null") as f:
    torch.cuda.empty_cache()
if True: torch.cuda.empty_cache()
def g(): torch.cuda.empty_cache()
class C:
    def h(self):
        '''doc'''
        torch.cuda.empty_cache()
g(); C().h(); print("ok")
""",
    "one liner": """
import torch; x = torch.ones(2).cuda(); torch.cuda.empty_cache(); print(x.shape)
if torch.cuda.is_available(): torch.cuda.empty_cache()
else: print("none")
lam = lambda: torch.cuda.empty_cache()
lam()
y = torch.cuda.empty_cache() or 3
assert y == 3
z = [torch.cuda.empty_cache(), torch.cuda.synchronize()]
assert z == [None, None]
""",
    "elif": """
import torch
k = 0
if k == 1: print(1)
elif torch.cuda.is_available(): torch.cuda.empty_cache()
elif k == 2: print(2)
else: print("no")
""",
    "dict dispatch": """
import torch
TABLE = {"cuda": torch.cuda.synchronize, "cpu": lambda: None}
TABLE["cuda"]()
D = {"device": "cuda", "fn": torch.cuda.is_available}
print(torch.ones(2).to(D["device"]), D["fn"]())
""",
    "unpack": """
import torch
opts = {"device": "cuda", "dtype": torch.float32}
x = torch.zeros(2, **opts)
args = ("cuda",)
y = x.to(*args)
a, (b, *c) = torch.cuda.is_available(), (torch.cuda.device_count(), torch.ones(1).cuda())
print(y, a, b, c)
""",
    "fstring": """
import torch
i = 0
print(f"{torch.cuda.is_available()=} {torch.ones(2).cuda().sum().item():.2f} cuda:{i}")
x = torch.ones(2).to(f"cuda:{i}")
y = torch.ones(2).to("cuda:%d" % i)
z = torch.ones(2).to("cuda:" + str(i))
w = torch.ones(2).to("cuda:{}".format(i))
print(x, y, z, w)
""",
    "property": """
import torch
class M(torch.nn.Module):
    @property
    def device(self): return "cuda"
    @classmethod
    def make(cls): return cls().to("cuda")
    @staticmethod
    def dev(): return torch.device("cuda")
    def forward(self, x): return x.to(self.device) + torch.ones(2, device=self.dev())
print(M.make()(torch.ones(2)))
""",
    "enum": """
import enum, torch
class Dev(str, enum.Enum):
    CUDA = "cuda"
    CPU = "cpu"
x = torch.ones(2).to(Dev.CUDA.value)
print(x.shape)
""",
    "yield": """
import torch
def batches(device="cuda"):
    for i in range(3): yield torch.ones(1, 2, device=device)
m = torch.nn.Linear(2, 2).to("cuda")
o = torch.optim.SGD(m.parameters(), lr=.1)
it = iter(batches())
while True:
    try: x = next(it)
    except StopIteration: break
    o.zero_grad(); m(x).sum().backward(); o.step()
""",
    "ctx class": """
import torch, contextlib
@contextlib.contextmanager
def amp(enabled):
    with torch.cuda.amp.autocast(enabled=enabled):
        yield
stack = contextlib.ExitStack()
stack.enter_context(torch.cuda.amp.autocast())
with amp(True), torch.no_grad(), contextlib.suppress(ValueError):
    y = torch.ones(2, device="cuda") * 2
stack.close()
print(y)
""",
    "chained compare": """
import torch
x = torch.ones(2).cuda()
assert 0 <= torch.cuda.device_count() <= 16
if not x.is_cuda == False: print("gpu")
if x.is_cuda is True and x.device == torch.device("cuda", 0): print("zero")
if x.device != torch.device("cpu"): print("not cpu")
if str(x.device).startswith("cuda"): print("starts")
if "cuda" in str(x.device): print("in")
""",
    "scaler cond": """
import torch
def train(use_amp):
    m = torch.nn.Linear(2, 2).cuda(); o = torch.optim.SGD(m.parameters(), lr=.1)
    scaler = torch.cuda.amp.GradScaler() if use_amp else None
    for _ in range(2):
        o.zero_grad()
        with torch.cuda.amp.autocast(enabled=use_amp):
            loss = m(torch.ones(1, 2).cuda()).sum()
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.unscale_(o)
            torch.nn.utils.clip_grad_norm_(m.parameters(), 1.)
            scaler.step(o)
            scaler.update()
        else:
            loss.backward()
            o.step()
train(True); train(False)
""",
}
