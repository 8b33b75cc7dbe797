"""Shapes that grow or are padded to each batch's own length."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ...helpers import findings

GENERATE = """import torch

class LM(torch.nn.Module):
    @torch.no_grad()
    def generate(self, ids, n, device):
        scores = []
        for _ in range(n):
            token = self(ids).argmax(-1)
            {body}
        return ids

LM().cuda()
"""


def found(source: str) -> list[int]:
    """Lines of dynamic shapes."""
    return [line for line, code in findings(source) if code == "XLA504"]


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("ids = torch.cat((ids, token), dim=1)", [9]),
        ("ids = torch.cat([ids, token], dim=1)", [9]),
        ("ids = torch.cat([ids[:, 1:], token], dim=1)", []),  # a window keeps its length
        ("both = torch.cat([ids, token], dim=1)", []),
        ("scores = scores + [token]", []),
    ],
)
def test_generation(body: str, lines: list[int]) -> None:
    assert found(GENERATE.replace("{body}", body)) == lines


def test_what_grows_on_the_host_is_no_finding() -> None:
    source = """import torch

def evaluate(model, loader, device):
    kept = torch.zeros(0)
    for x in loader:
        out = model(x.to(device)).cpu()
        kept = torch.cat([kept, out])
    return kept
"""
    assert found(source) == []


COLLATE = """import functools
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
device = torch.device("cuda")

def plain(batch, value=0):
    return pad_sequence(batch, padding_value=value)

def make(value):
    def collate(batch):
        return pad_sequence(batch, padding_value=value)
    return collate

class Collator:
    def __call__(self, batch):
        return pad_sequence(batch)

"""


@pytest.mark.parametrize(
    ("collate", "line"),
    [("plain", 8), ("functools.partial(plain, value=1)", 8), ("make(1)", 12), ("Collator()", 17)],
)
def test_collation(collate: str, line: int) -> None:
    assert found(f"{COLLATE}loader = DataLoader(data, collate_fn={collate})\n") == [line]


MASKED = """import torch
device = torch.device("cuda")
net = torch.nn.Linear(4, 4).to(device)

def learn(batch):
    mask = {mask}
    values = torch.zeros(8, device=device)
    values[mask] = net(batch).max(1).values
    values.sum().backward()

def act():
    return learn([1])

{caller}
"""
CALLED = "for _ in range(9):\n    act()"
TYPED = "torch.tensor([b is None for b in batch], device=device, dtype=torch.bool)"


@pytest.mark.parametrize(
    ("made", "called"),
    [
        ("loss = Loss()", "loss(batch)"),
        ("first, loss = 1, Loss()", "loss(batch)"),
        ("pass", "Loss()(batch)"),
    ],
)
def test_a_mask_in_an_object_that_is_called_in_a_loop(made: str, called: str) -> None:
    program = f"""import torch
device = torch.device("cuda")

class Loss:
    def __call__(self, batch):
        return self.built(batch)

    def built(self, batch):
        return batch[batch[:, 4] > 1]

{made}
for batch in batches:
    batch = batch.to(device)
    {called}.sum().backward()
"""
    assert found(program) == [9]


@pytest.mark.parametrize(
    ("mask", "caller", "lines"),
    [
        (TYPED, CALLED, [8]),
        ("torch.ones(8, device=device).to(torch.bool)", CALLED, [8]),
        (TYPED, "act()", []),  # once
        (TYPED, "for memory in memories:\n    memory.act()", []),  # another `act`
        (TYPED.replace("device=device, ", ""), CALLED, []),  # on the host
        (TYPED.replace("torch.bool", "torch.long"), CALLED, []),  # of a known size
    ],
)
def test_a_mask_in_a_function_that_is_called_in_a_loop(
    mask: str, caller: str, lines: list[int]
) -> None:
    assert found(MASKED.replace("{mask}", mask).replace("{caller}", caller)) == lines


def test_greedy_decoding_grows() -> None:
    source = """import torch
DEVICE = torch.device("cuda")
def greedy(model, memory, start, n):
    ys = torch.ones(1, 1).fill_(start).to(DEVICE)
    for _ in range(n):
        word = model.decode(ys, memory).argmax(-1).item()
        ys = torch.cat([ys, torch.ones(1, 1).type_as(memory).fill_(word)], dim=0)
    return ys

def backward(loss):
    loss.backward()
"""
    assert found(source) == [7]


@pytest.mark.parametrize(
    ("selection", "times"),
    [
        ("y.view(-1)[mask.view(-1) == 1]", 1),
        ("y[labels != -100]", 1),
        ("y.view(-1)[(mask == 1).view(-1)]", 1),
        ("y[((labels > 0) & (mask == 1)).squeeze(1)]", 1),
        ("y[(~(labels > 0)).flatten()]", 1),
        ("[a[b >= 0] for a, b in zip(y, labels)]", 1),
        ("[y[k >= 0] for k in range(3)]", 0),
        ("y.view(-1)[x.argmax(1).view(-1)]", 0),
        ("y[n == 0]", 0),
        ("y[mask is None]", 0),
        ("names[mask.lower() == 'a']", 0),
    ],
)
def test_masks_made_of_what_forward_is_given(selection: str, times: int) -> None:
    source = (
        "import torch\nfrom torch import nn\nclass M(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.l = nn.Linear(2, 2)\n"
        "    def forward(self, x, mask, names, labels=None, n=3):\n        y = self.l(x)\n"
        f"        return {selection}\n"
        "for x in batches:\n    M().cuda()(x.cuda()).sum().backward()\n    optimizer.step()\n"
    )
    assert [code for _, code in findings(source)].count("XLA504") == times


GRAPH = """import torch
net = torch.nn.Linear(4, 4).cuda()

def learn(data, {parameter}):
    out = torch.relu(net(data.x.cuda()))
    loss = {selection}.mean()
    loss.backward()

for _ in range(9):
    learn(graph, chosen)
"""


@pytest.mark.parametrize(
    ("parameter", "selection", "lines"),
    [
        ("mask", "out[mask]", [6]),
        ("_", "out[data.train_mask]", [6]),
        ("_", 'out[data["train_mask"]]', [6]),
        ("index", "out[index]", []),
        ("masks", "out[masks]", []),
        ("mask=None", "out[mask.size(0)]", []),
        ("mask", "names[mask]", []),  # who knows what these are
        ("mask", "torch.zeros(4)[mask]", []),
    ],
)
def test_what_is_called_a_mask_and_chooses_of_a_tensor(
    parameter: str, selection: str, lines: list[int]
) -> None:
    assert found(GRAPH.format(parameter=parameter, selection=selection)) == lines


@pytest.mark.parametrize(
    ("mask", "lines"),
    [
        ("torch.eye(4, dtype=torch.bool).to(x.device)", [7]),
        ("torch.ones(4, 4).triu(1).bool().cuda()", [7]),
        ("(x > 0).to(x.device)", [7]),
        ("torch.eye(4, dtype=torch.long).to(x.device)", []),
        ("torch.eye(4).to(x.device)", []),
    ],
)
def test_masks_that_are_moved(mask: str, lines: list[int]) -> None:
    source = f"""import torch
net = torch.nn.Linear(4, 4).cuda()
for x in batches:
    x = x.cuda()
    mask = {mask}
    y = net(x)
    loss = y[~mask].sum()
    loss.backward()
"""
    assert found(source) == lines


@pytest.mark.parametrize(
    ("returned", "mask", "lines"),
    [
        ('{"image": y, "seen": y > 0}', 'out["seen"]', [9]),
        ("dict(image=y, seen=y.gt(0) & (y < 2))", 'out["seen"]', [9]),
        ('{"image": y, "seen": y.argmax(1)}', 'out["seen"]', []),
        ('{"image": y, "seen": y > 0}', 'out["image"].argmax(1)', []),
    ],
)
def test_a_mask_in_a_dictionary(returned: str, mask: str, lines: list[int]) -> None:
    source = f"""import torch
net = torch.nn.Linear(4, 4).cuda()
def render(x):
    y = net(x)
    return {returned}
for x in batches:
    out = render(x.cuda())
    image, mask = out["image"], {mask}
    loss = image[mask].std()
    loss.backward()
"""
    assert found(source) == lines


@pytest.mark.parametrize(
    ("made", "is_on_device"),
    [
        ("box_iou(net(x), x)", True),
        ("torchvision.ops.boxes.box_area(net(x))", True),
        ("box_iou(x.cpu(), x.cpu())", False),
        ("rearrange(net(x), 'b c -> c b')", True),
        ("net(x)[(net(x).abs() < 1).all(-1) & is_near(net(x))]", True),
        ("rearrange(np.zeros((2, 2)), 'b c -> c b')", False),
    ],
)
def test_masks_of_what_other_libraries_compute_of_tensors(made: str, is_on_device: bool) -> None:
    source = f"""import numpy as np, torch, torchvision
from einops import rearrange
from torchvision.ops import box_iou
def is_near(y):
    return y.sum(-1) < 3
net = torch.nn.Linear(4, 4).cuda()
for x in batches:
    x = x.cuda()
    made = {made}
    y = made[made > 0].std()
    net(x).sum().backward()
"""
    assert bool(found(source)) == is_on_device


def test_a_mask_that_is_computed_from_itself() -> None:
    source = """import torch
net = torch.nn.Linear(4, 4).cuda()
for x in batches:
    done = torch.zeros(4, device="cuda").bool()
    for _ in range(9):
        y = net(x.cuda())
        done = done | (y.argmax(1) == 0)
        y[done] = 0
    y.sum().backward()
"""
    assert found(source) == [8]


PIPELINE = """import torch
from transformers import CLIPTokenizer

tokenizer = CLIPTokenizer.from_pretrained("x")

def encode(prompt, encoder, device):
    ids = tokenizer(prompt, padding="max_length", return_tensors="pt").input_ids
    whole = tokenizer(prompt, padding="longest", return_tensors="pt").input_ids
    {}
    return encoder(ids.to(device))
"""


@pytest.mark.parametrize(
    ("use", "lines"),
    [
        ("assert whole.shape[-1] >= ids.shape[-1] and not torch.equal(ids, whole)", []),
        ("print(tokenizer.batch_decode(whole[:, 76:-1]), len(whole))", []),
        ("assert whole.ndim == 2", []),
        ("return encoder(whole.to(device))", [8]),
        ("print(whole.shape, encoder(whole))", [8]),
        ("return encoder(whole[:, :77])", [8]),
        ("return whole", [8]),
    ],
)
def test_texts_that_are_only_looked_at_may_have_any_length(use: str, lines: list[int]) -> None:
    assert found(PIPELINE.format(use)) == lines


@pytest.mark.parametrize(
    ("use", "found"),
    [
        ("rest = ids[0][3:-2]\n        print(self.tokenizer.decode(rest[4:]))", False),
        ("print(ids.shape[-1], self.tokenizer.batch_decode(ids[:, 3:]))", False),
        ("rest = ids[0][3:-2]\n        self.model(rest.cuda())", True),
        ("self.model(ids.cuda())", True),
    ],
)
def test_what_is_tokenized_to_be_looked_at_has_any_length(use: str, found: bool) -> None:
    source = f"""import torch
import transformers
class Pipe:
    def encode(self, text, loss):
        ids = self.tokenizer(text, padding="longest", return_tensors="pt")["input_ids"]
        {use}
        loss.backward()
"""
    assert ((5, "XLA504") in findings(source)) is found


@pytest.mark.parametrize("caller", ["__init__", "load"])
def test_what_only_constructors_call_copies_on_the_host(caller: str) -> None:
    source = f"""import torch
class Net(torch.nn.Module):
    def {caller}(self):
        self.transfer()
    def transfer(self):
        for (n, p), (m, q) in zip(self.a.named_parameters(), self.b.named_parameters()):
            p.data.copy_(q.data)
Net().cuda()(x).sum().backward()
"""
    assert ((7, "XLA511") in findings(source)) is (caller == "load")


@pytest.mark.parametrize(
    ("imported", "made", "found"),
    [
        ("from torch_geometric.loader import NeighborLoader", "NeighborLoader(data)", True),
        ("from torch_geometric.loader import DataLoader as L", "L(data, batch_size=4)", True),
        ("import torch_geometric.loader as pyg", "pyg.ClusterLoader(data)", True),
        ("from torch_geometric.data import DataLoader", "DataLoader(data)", True),
        ("from dgl.dataloading import GraphDataLoader", "GraphDataLoader(data)", True),
        ("from dgl.dataloading import NeighborSampler", "wrap(NeighborSampler([2]))", False),
        ("from torch_geometric.loader import utils", "utils.to_csc(data)", False),
        ("from torch.utils.data import DataLoader", "DataLoader(data, drop_last=True)", False),
    ],
)
def test_batches_of_graphs_have_other_sizes(imported: str, made: str, found: bool) -> None:
    source = f"""import torch
{imported}
def train(model, data, optimizer):
    loader = {made}
    for batch in loader:
        model(batch.x.cuda()).mean().backward()
        optimizer.step()
"""
    assert ((4, "XLA504") in findings(source)) is found


@pytest.mark.parametrize(("method", "found"), [("forward", False), ("generate", True)])
def test_what_grows_within_a_forward_pass_is_one_graph(method: str, found: bool) -> None:
    source = f"""
import torch
from torch import nn
class Crops(nn.Module):
    def {method}(self, x, sizes):
        out = torch.empty(0).to(x[0].device)
        for end in sizes:
            out = torch.cat((out, self.backbone(x[end])))
        return out
def train(model, x, optimizer):
    model.cuda()
    model(x).mean().backward()
    optimizer.step()
"""
    assert ((8, "XLA504") in findings(source)) is found


JOINED = """import torch

def train(model, optimizer, memory, parts):
    model.cuda()
    for step in range(9):
        batch = memory.sample(8)
        {line}
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("x = torch.cat([s for s in batch.next_state if s is not None])", True),
        ("x = torch.stack([s.x for s in batch if not s.done], dim=0)", True),
        ("x = torch.cat(tuple(batch)) + torch.cat([t for t in memory.transitions if t.alive])", True),
        ("x = torch.cat([s for s in batch.state])", False),
        ("x = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])", False),
        ("x = torch.cat([f for f in (parts.a, parts.b) if f is not None])", False),
        ("x = torch.stack(list(batch))", False),
    ],
)  # fmt: skip
def test_a_number_of_tensors_that_depends_on_data(line: str, is_found: bool) -> None:
    assert found(JOINED.format(line=line)) == ([7] if is_found else [])


@pytest.mark.parametrize(
    ("turns", "inside", "behind", "found"),
    [
        ("for t in range(T):", "", "loss = pred.mean()\n        loss.backward()", False),
        ("for t in times:", "", "pred.mean().backward()", False),
        ("for t in range(T):", "print(im.mean().item())", "pred.mean().backward()", True),
        ("for t in range(T):", "im.mean().backward()", "", True),
        ("while pred.shape[1] < T:", "", "pred.mean().backward()", True),
    ],
)
def test_what_grows_within_a_step_is_one_graph(
    turns: str, inside: str, behind: str, found: bool
) -> None:
    source = (
        "import torch\n"
        "def train(model, loader, optimizer, T, times):\n"
        "    model.cuda()\n"
        "    for x in loader:\n"
        "        x = x.cuda()\n"
        "        pred = model(x)\n"
        f"        {turns}\n"
        "            im = model(x)\n"
        "            pred = torch.cat((pred, im), 1)\n"
        f"            {inside}\n"
        f"        {behind}\n"
        "        optimizer.step()\n"
    )
    assert ("XLA504" in {code for _, code in findings(source)}) is found


@pytest.mark.parametrize(
    ("padding", "lines"),
    [
        ("pad_to_multiple_of=8", []),
        ("pad_to_multiple_of=8 if args.fp16 else None", [4]),
        ("pad_to_multiple_of=None if args.eval else 512", [4]),
        ("padding='max_length', pad_to_multiple_of=8 if args.fp16 else None", []),
        ("padding=True", [4]),
    ],
)
def test_a_collator_that_may_round_nothing_pads_to_any_length(
    padding: str, lines: list[int]
) -> None:
    source = f"""from transformers import DataCollatorWithPadding, Trainer, TrainingArguments

args = TrainingArguments("o", optim="adamw_torch", bf16=True)
collator = DataCollatorWithPadding(tokenizer, {padding})
"""
    assert [line for line, code in findings(source) if code == "XLA504"] == lines


TRAINER = """
from transformers import AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("x")
data = data.map(lambda rows: tokenizer(rows["text"], truncation=True{}))
Trainer(model, TrainingArguments("out", optim="sgd"), train_dataset=data{}).train()
"""
GIVEN = ", processing_class=tokenizer"


@pytest.mark.parametrize(
    ("padding", "given", "expected"),
    [
        ("", GIVEN, True),
        (", padding=False", ", tokenizer=tokenizer, data_collator=None", True),
        (', padding="max_length"', GIVEN, False),
        (", padding=padding", GIVEN, False),
        ("", "", False),
        ("", f"{GIVEN}, data_collator=mine", False),
    ],
)
def test_what_a_trainer_pads_by_itself(padding: str, given: str, expected: bool) -> None:
    found = check(TRAINER.format(padding, given).encode())
    told = [f for f in found if "the Trainer's default collator" in f.message]
    assert bool(told) is expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", True),
        (", packing=False", True),
        (", packing=True", False),
        (", pad_to_multiple_of=512", False),
        (", **more", False),
    ],
)
def test_what_trl_pads_always(given: str, expected: bool) -> None:
    text = (
        f'import trl\n\ntrl.SFTTrainer(model, trl.SFTConfig("out", optim="sgd"{given})).train()\n'
    )
    told = [f for f in check(text.encode()) if "as trl does" in f.message]
    assert bool(told) is expected


@pytest.mark.parametrize(
    "moved",
    [
        "x, mask = [t.cuda() for t in (x, mask)]",
        "x, mask = (t.to('cuda') for t in (x, mask))",
        "x, mask = map(move, (x, mask))",
    ],
)
def test_a_mask_that_is_moved_with_other_tensors(moved: str) -> None:
    program = f"""import torch
net = torch.nn.Linear(4, 4).cuda()
def train(x, mask):
    mask = x.sum(1) > 0
    {moved}
    for _ in range(9):
        out = net(x)
        out[mask].sum().backward()
"""
    assert found(program) == [8]


@pytest.mark.parametrize(("given", "lines"), [("chosen_mask", [7]), ("indices", [])])
def test_a_parameter_called_mask_is_what_calls_pass(given: str, lines: list[int]) -> None:
    program = f"""import torch
net = torch.nn.Linear(4, 4).cuda()

def learn(x, mask):
    for _ in range(9):
        out = net(x)
        out[mask].sum().backward()

def main(x, chosen_mask):
    indices = torch.randperm(9)
    learn(x.cuda(), {given}.cuda())
"""
    assert found(program) == lines


@pytest.mark.parametrize("method", ["compute_loss", "training_step"])
def test_a_mask_in_a_loss_that_a_trainer_computes(method: str) -> None:
    program = f"""import torch.nn.functional as F
from transformers import Trainer

class Own(Trainer):
    def {method}(self, model, inputs, *args):
        labels = inputs.pop("labels")
        logits = model(**inputs).logits
        valid = labels != -100
        return F.cross_entropy(logits[valid], labels[valid])
"""
    assert found(program) == [9]
