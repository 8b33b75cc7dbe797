"""Programs for CUDA that between them make the rules write every template; each runs by itself once it is migrated."""

from __future__ import annotations

GROUP = """
import os, torch
import torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("PORT", "29511"), RANK="0", WORLD_SIZE="1")
dist.init_process_group("nccl", rank=0, world_size=1)
"""
TRAIN = """
import torch
from torch import nn
model = nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = [torch.randn(3, 4) for _ in range(3)]
"""
PROGRAMS = {
    "a pipeline's device": """
import torch, transformers
number = 0 if torch.cuda.is_available() else -1
transformers.pipeline = lambda task, device: torch.zeros(2, device="cpu" if device == -1 else device)
print(transformers.pipeline("text-classification", device=number).shape)
""",
    "facts of the GPU that are displayed": """
import torch
facts = torch.cuda.get_device_properties(0)
print(facts.name, facts.multi_processor_count)
print(f"{torch.cuda.temperature()} degrees")
major, minor = torch.cuda.get_device_capability(0)
print(f"{major}.{minor}")
""",
    "devices": """
import torch
def f(x, rank=0):
    x = x.cuda().to(rank).to("cuda:0")
    y = torch.ones(2, device="cuda") + torch.ones(2, device=torch.device("cuda", rank))
    z = torch.zeros(2, device=x.get_device())
    d = rank if torch.cuda.is_available() else "cpu"
    name = f"cuda:{rank}"
    return x, y, z.to(d), torch.ones(1).to(name), torch.device("cuda:{}".format(rank))
x, *_ = f(torch.ones(2))
print(torch.cuda.device_count(), torch.cuda.current_device(), torch.cuda.is_available(), not torch.cuda.is_available())
print(torch.cuda.get_device_name(0), list(map(torch.cuda.get_device_name, [0])), torch.cuda.is_bf16_supported())
count, there, bf16 = torch.cuda.device_count, torch.cuda.is_available, torch.cuda.is_bf16_supported
print(count(), there(), bf16(), (lambda: torch.cuda.current_device)()())
if x.is_cuda: print("there")
if not x.is_cuda: print("not there")
if getattr(x, "is_cuda", False): print("there, too")
if x.device.type == "cuda": print("also")
if x.device.type != "cuda": print("also not")
props = torch.cuda.get_device_properties(0)
print(props.name, props.total_memory)
print(torch.get_device_module(x.device).is_available(), torch.get_device_module().device_count())
torch.cuda.set_device(0)
torch.cuda.set_device(x.get_device())
torch.cuda.set_device(x.device)
pick = torch.cuda.set_device
pick(0)
move = torch.Tensor.cuda
print(torch.Tensor.cuda(x).shape, getattr(x, "cuda")().shape, move(x).shape)
from functools import partial
from operator import methodcaller
print(partial(torch.Tensor.cuda, non_blocking=True)(x).shape, methodcaller("cuda")(x).shape)
loss = (x.requires_grad_() * 2).sum(); loss.backward()
""",
    "a field with given texts": """
import dataclasses, torch
from typing import Literal
@dataclasses.dataclass
class Machine:
    device: Literal["cpu", "cuda"] = "cuda"
print(torch.ones(2).to(Machine().device).sum().item())
if torch.cuda.current_device() == 0: print("first")
""",
    "types": """
import torch
use_cuda = True
a = torch.cuda.FloatTensor(2, 3)
b = torch.cuda.FloatTensor([1.0, 2.0])
c = torch.ones(2).type(torch.cuda.FloatTensor)
d = torch.ones(2).type("torch.cuda.HalfTensor")
dtype = torch.cuda.FloatTensor if use_cuda else torch.FloatTensor
e = torch.ones(2).type(dtype)
print(isinstance(c, torch.cuda.FloatTensor), c.type() == "torch.cuda.FloatTensor")
torch.set_default_tensor_type("torch.cuda.FloatTensor")
torch.set_default_tensor_type("torch.FloatTensor")
if use_cuda:
    torch.set_default_tensor_type(torch.cuda.FloatTensor)
torch.set_default_device("cpu")
(torch.ones(2).cuda().requires_grad_() * 2).sum().backward()
""",
    "command line": """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
parser.add_argument("--gpu", type=int, default=0)
args = parser.parse_args([])
x = torch.ones(2).to(args.device)
device = torch.device(args.device)
y = torch.ones(2, device=device) + torch.ones(2).to(args.gpu)
z = torch.ones(2).to("cuda:{}".format(args.gpu))
device = torch.device("cuda:" + str(args.gpu) if torch.cuda.is_available() else "cpu")
(x.requires_grad_() * 2).sum().backward()
""",
    "click": """
import click, torch
@click.command()
@click.option("--device", type=click.Choice(["cuda", "cpu"]), default="cuda")
def main(device):
    (torch.ones(2).to(device).requires_grad_() * 2).sum().backward()
main([], standalone_mode=False)
""",
    "fire": """
import sys, types
sys.modules["fire"] = types.SimpleNamespace(Fire=lambda function, command: function())
import fire, torch
def train(epochs=3, device="cuda"):
    (torch.ones(2).to(device).requires_grad_() * 2).sum().backward()
fire.Fire(train, command=[])
""",
    "services": """
import torch
from torch.cuda import nvtx
torch.manual_seed(1)
torch.cuda.manual_seed(1)
torch.cuda.manual_seed_all(1)
torch.cuda.seed()
seed = torch.cuda.manual_seed
seed(3)
torch.cuda.synchronize()
torch.cuda.synchronize(0)
wait = torch.cuda.synchronize
wait()
torch.cuda.empty_cache()
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
x = torch.ones(2).cuda()
end.record()
torch.cuda.synchronize()
print(start.elapsed_time(end), [e() for e in [torch.cuda.Event]])
print(torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(0), torch.cuda.memory_reserved())
print(torch.cuda.memory_summary(), torch.cuda.mem_get_info(), torch.cuda.memory_stats()["allocated_bytes.all.peak"])
torch.cuda.reset_peak_memory_stats()
nvtx.range_push("step"); nvtx.range_pop()
with torch.cuda.nvtx.range("part"): pass
@nvtx.range("whole")
def f(x): return x
state = torch.cuda.get_rng_state()
torch.cuda.set_rng_state(state)
from torch.utils.checkpoint import get_device_states, set_device_states
places, kept_states = get_device_states(x)
set_device_states(places, kept_states)
with torch.random.fork_rng(devices=[0]): torch.rand(1)
torch.backends.cudnn.benchmark = True
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.allow_tf32 = True
torch.backends.cuda.matmul.allow_tf32 = True
tf32 = bool(x.numel())
torch.backends.cuda.matmul.allow_tf32 = tf32
torch.set_float32_matmul_precision("high")
choose = torch.set_float32_matmul_precision
choose("highest")
g = torch.Generator(device="cuda")
g.manual_seed(0)
gs = [torch.Generator(device="cuda") for _ in range(2)]
print(torch.backends.cudnn.enabled, torch.backends.cudnn.is_available(), f(x))
(x.requires_grad_() * 2).sum().backward()
""",
    "timm's norms": """
import torch
from timm.layers import BatchNormAct2d, convert_sync_batchnorm
model = convert_sync_batchnorm(torch.nn.Sequential(BatchNormAct2d(3)).cuda())
x = torch.randn(2, 3, 4, 4).cuda()
assert (model(x) >= 0).all()
model(x).sum().backward()
""",
    "collectives": GROUP
    + """
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.BatchNorm1d(2)).cuda(), device_ids=[0])
model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)
norm, wrap = torch.nn.SyncBatchNorm(4), torch.nn.parallel.DistributedDataParallel
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.ones(3, 4).cuda()).sum()
loss.backward()
optimizer.step()
x = torch.ones(2).cuda()
dist.all_reduce(x); dist.broadcast(x, 0); dist.reduce(x, 0); dist.barrier(); dist.monitored_barrier()
parts = [torch.zeros(2).cuda()]
dist.all_gather(parts, x)
whole = torch.zeros(2).cuda()
dist.all_gather_into_tensor(whole, x); dist.reduce_scatter_tensor(whole, x)
objects = [None]
dist.all_gather_object(objects, 3); dist.broadcast_object_list([1], 0)
group = dist.new_group([0])
print(dist.get_rank(), dist.get_world_size(), dist.get_backend() == "nccl", dist.is_nccl_available())
if dist.get_rank() == 0:
    torch.save(model.state_dict(), "/dev/null")
dist.destroy_process_group()
""",
    "checkpoints": TRAIN
    + """
import copy, os, tempfile
path = os.path.join(tempfile.mkdtemp(), "x.pt")
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
model.load_state_dict(torch.load(path, map_location="cuda")["model"])
model.load_state_dict(torch.load(path, map_location="cuda:0")["model"])
model.load_state_dict(torch.load(path, map_location=lambda storage, location: storage.cuda(0))["model"])
best = copy.deepcopy(model.state_dict())
best = {k: v for k, v in model.state_dict().items()}
from functools import partial
partial(torch.save, model.state_dict())(path)
partial(torch.load, path)()
for x in data:
    optimizer.zero_grad()
    loss = model(x.cuda()).sum()
    loss.backward()
    optimizer.step()
""",
    "training": TRAIN
    + """
scaler = torch.amp.GradScaler("cuda")
total, history = 0.0, []
loader = torch.utils.data.DataLoader(torch.randn(8, 4), batch_size=2, pin_memory=True)
step = 0
for epoch in range(2):
    for x in loader:
        x = x.cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).float().pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        total += loss.item()
        history.append(loss.item())
        if step % 2 == 0:
            print(epoch, loss.item())
        step += 1
print(total / step, len(history))
""",
    "optimizers": TRAIN
    + """
use_fused = True
a = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
b = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=use_fused and torch.cuda.is_available())
extra = dict(fused=True) if torch.cuda.is_available() else dict()
c = torch.optim.AdamW(model.parameters(), lr=1e-3, **extra)
def closure():
    c.zero_grad()
    loss = model(data[0].cuda()).sum()
    loss.backward()
    return loss
for x in data:
    a.zero_grad()
    model(x.cuda()).sum().backward()
    a.step()
    b.step()
    c.step(closure)
""",
    "autocast": TRAIN
    + """
from torch.cuda.amp import autocast
from functools import partial
with autocast():
    y = model(data[0].cuda())
with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16, enabled=False):
    y = model(data[0].cuda())
make = partial(torch.autocast, "cuda")
with make(): y = model(data[0].cuda())
print(torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype())
torch.set_autocast_enabled(True); torch.set_autocast_gpu_dtype(torch.bfloat16); torch.set_autocast_enabled(False)
class Twice(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")
    def forward(ctx, x): return 2 * x
    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, g): return 2 * g
class Thrice(torch.autograd.Function):
    @staticmethod
    @torch.cuda.amp.custom_fwd
    def forward(ctx, x): return 3 * x
    @staticmethod
    @torch.cuda.amp.custom_bwd
    def backward(ctx, g): return 3 * g
Thrice.apply(Twice.apply(model(data[0].cuda()))).sum().backward()
""",
    "steps": TRAIN
    + """
from torch.utils.checkpoint import checkpoint
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
fast = torch.compile(model)
if hasattr(torch, "compile"):
    model.compile()
net = torch.nn.DataParallel(model)
wrapped = checkpoint_wrapper(nn.Linear(4, 4).cuda())
window = torch.randn(64, 4).cuda()
kept = torch.zeros(8, 4).cuda()
taken = []  # as models of diffusers take it
unet = type("UNet", (nn.Linear,), {"enable_gradient_checkpointing": lambda self, function=None: taken.append(function)})(4, 4)
unet.enable_gradient_checkpointing()
if taken[0] is not None:
    taken[0](model, window).sum().backward()
for k in range(4):
    optimizer.zero_grad()
    x = window[k : k + 8]
    loss = checkpoint(model, x, use_reentrant=False).sum() + net(x).sum() + wrapped(x).sum()
    kept[k] = x.detach().mean(0)
    loss.backward()
    optimizer.step()
@torch.inference_mode()
def evaluate():
    for k in range(2):
        print(model(data[k].cuda()).sum().item())
evaluate()
""",
    "reads": TRAIN
    + """
import math, numpy as np
def train(loader):
    total, best, lowest, history, parts = 0.0, 9.0, 9.0, [], []
    for step, x in enumerate(loader):
        optimizer.zero_grad()
        out = model(x.cuda())
        loss = out.pow(2).mean()
        loss.backward()
        optimizer.step()
        total += math.exp(loss.item()) + float(out.argmax())
        best = min(best, loss.item())
        value = loss.item()
        if value < lowest:
            lowest = value
        history.append(loss.item())
        print(f"{step} {loss.item():.4f}")
        if torch.isnan(loss):
            print("nan", step)
        if torch.isinf(loss):
            print("inf", step)
            raise ValueError(f"step {step}")
        assert not torch.isnan(loss), step
    return total / 2, best, lowest, np.mean(history)
print(train(torch.utils.data.DataLoader(torch.randn(6, 4), batch_size=2)))
@torch.no_grad()
def evaluate(loader):
    correct, predictions, all_ = 0, [], []
    for x in loader:
        pred = model(x.cuda()).argmax(1)
        correct += (pred == 1).sum().item()
        predictions.extend(pred.cpu().numpy())
        all_ += pred.tolist()
    return correct, len(predictions), len(all_)
print(evaluate(torch.utils.data.DataLoader(torch.randn(6, 4), batch_size=2)))
""",
    "states": TRAIN
    + """
import copy
target = nn.Linear(4, 2).cuda()
target.load_state_dict(model.state_dict())
best = copy.deepcopy(model.state_dict())
for x in data:
    optimizer.zero_grad()
    model(x.cuda()).sum().backward()
    optimizer.step()
model.load_state_dict(best)
assert torch.equal(model.weight.cpu(), target.weight.cpu())
""",
    "slices": TRAIN
    + """
source = torch.rand(100, 4).to("cuda")
rewards, length = torch.zeros(8, 4).to("cuda"), 8
for i in range(0, source.size(0) - length, length):
    x = source[i : i + length]
    loss = model(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
for update in range(2):
    for step in range(8):
        with torch.no_grad():
            action = model(source[:4])
        rewards[step] = action[:, 0]
    loss = model(source).mean() * rewards.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(rewards.abs().sum().item() > 0)
""",
    "masks": TRAIN
    + """
for x in data:
    best, distance = torch.ones(3, 2).cuda(), model(x.cuda())
    nearer = distance < best
    best[nearer] = distance[nearer]
    best[~nearer] = 0
    optimizer.zero_grad()
    loss = best.sum() + distance[nearer].mean() + distance.masked_select(nearer).sum()
    loss = loss + torch.nn.functional.huber_loss(distance[nearer], best[nearer].float(), delta=0.5)
    loss = loss + (best[nearer] >= distance[nearer].detach()).sum()
    loss = loss + (best[nearer] > distance[nearer]).float().mean()
    loss.backward()
    optimizer.step()
print(best.shape)
""",
    "parallel in one process": TRAIN
    + """
from torch.nn.parallel import data_parallel
x = torch.randn(4, 4).cuda()
y = data_parallel(model, x) + data_parallel(model, (x,))
y.sum().backward()
optimizer.step()
with torch.cuda.device_of(x):
    print(x.sum().item())
with torch.cuda.device(0):
    print(x.sum().item())
torch.cuda.set_device(x.get_device())
""",
    "given devices": """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--kind")
parser.add_argument("--on", action="store_true")
parser.add_argument("--size", type=int, default=2)
args = parser.parse_args(["--kind", "cuda"])
device = torch.device(args.kind, 0)
torch.set_default_tensor_type(torch.cuda.FloatTensor if args.on else torch.FloatTensor)
values = torch.cuda.LongTensor(*args.shape) if hasattr(args, "shape") else torch.ones(1)
more = torch.cuda.FloatTensor(values)
(torch.ones(2, device=device).requires_grad_() * 2).sum().backward()
""",
    "libraries": """
import torch
from accelerate import Accelerator, InitProcessGroupKwargs
accelerator = Accelerator(dynamo_backend="eager", cpu=True)
group = InitProcessGroupKwargs(backend="gloo")
from transformers import BertConfig, BertModel
model = BertModel(BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, vocab_size=9))
model.gradient_checkpointing_enable()
""",
    "names of devices": """
import os, torch
device = "cuda"
device += f":{os.environ.get('LOCAL_RANK', 0)}"
first_device = "cuda:0"
print(first_device.split(":")[1], torch.ones(2, device=first_device).to(device))
""",
    "float16 of accelerate": """
from accelerate import Accelerator
from accelerate.state import AcceleratorState
AcceleratorState._reset_state(reset_partial_state=True)
print(Accelerator(fp16=True).mixed_precision)
AcceleratorState._reset_state(reset_partial_state=True)
""",
    "timm": TRAIN
    + """
from timm.utils import NativeScaler
scaler, make = NativeScaler(), NativeScaler
for x in data:
    optimizer.zero_grad()
    loss = model(x.cuda()).sum()
    scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
make()
""",
    "fused": TRAIN
    + """
import inspect
fused_available = "fused" in inspect.signature(torch.optim.AdamW).parameters
a = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=torch.cuda.is_available())
b = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=fused_available and "cuda" in str(next(model.parameters()).device))
for x in data:
    model(x.cuda()).sum().backward()
    a.step()
    b.step()
""",
    "lbfgs": TRAIN.replace("SGD", "LBFGS")
    + """
for x in data:
    def closure():
        optimizer.zero_grad()
        loss = model(x.cuda()).square().sum()
        loss.backward()
        return loss
    optimizer.step(closure)
""",
    "texts": TRAIN
    + """
lines = []
for step, x in enumerate(data):
    loss = model(x.cuda()).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    message = f"{step} {loss.item():.4f}"
    lines.append(message)
print("; ".join(lines))
""",
    "lists of an evaluation": TRAIN
    + """
def evaluate(model, batches, device, show=len):
    seen, true = [], []
    with torch.no_grad():
        for batch in batches:
            show(batch)
            x, y = batch
            output = model(x.to(device))
            seen.extend(output.argmax(1).cpu().numpy())
            true.extend(y.numpy())
    print(seen, true)
pairs = [(x, torch.zeros(3)) for x in data]
for x in data:
    model(x.cuda()).sum().backward()
    optimizer.step()
evaluate(model, pairs, torch.device("cuda"))
""",
    "state of an optimizer": TRAIN
    + """
model(data[0].cuda()).sum().backward()
optimizer.step()
for state in optimizer.state.values():
    for k, v in state.items():
        if isinstance(v, torch.Tensor):
            state[k] = v.cuda()
""",
    "elements of an array": TRAIN
    + """
import numpy as np
curve, kept = np.zeros(3), []
for step, x in enumerate(data):
    optimizer.zero_grad()
    loss = model(x.cuda()).pow(2).mean()
    loss.backward()
    optimizer.step()
    curve[step] = loss.item()
    kept += [loss.detach().cpu().numpy()]
print(curve.mean(), len(kept), kept)
""",
    "DeepSpeed's Lamb": """
from deepspeed.ops.lamb import FusedLamb
"""
    + TRAIN
    + """
lamb = FusedLamb(model.parameters(), lr=0.01)
for x in data:
    lamb.zero_grad()
    model(x.cuda()).pow(2).mean().backward()
    lamb.step()
""",
    "sparse": """
import torch
adj = torch.eye(4).to_sparse().cuda()
x = torch.ones(4, 2, device="cuda", requires_grad=True)
torch.spmm(adj, x).sum().backward()
print(x.grad.sum().item())
""",
}
LAUNCHED = """
import torch
import torch.multiprocessing as mp
def main(rank, size):
    torch.cuda.set_device(rank)
    (torch.ones(2).cuda().requires_grad_() * 2).sum().backward()
if __name__ == "__main__":
    mp.spawn(main, args=(1,), nprocs=1)
"""
