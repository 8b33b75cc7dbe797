"""A value that decides something is read where the script reads it."""

from __future__ import annotations

import textwrap

import pytest

from xla_codemods.engine import check

from ....helpers import migrated
from .scripts import SCRIPT, migrated_lines


@pytest.mark.parametrize(
    ("line", "last", "why"),
    [
        ("if loss.item() < best: names.append(step)", "pass", "the result decides what runs next"),
        ("print('{} {:.4f}'.format(loss, step))", "pass", "itself is printed"),
        ("print('{0:.4f} {0}'.format(loss))", "pass", "itself is printed"),
        ("print('{:{}}'.format(loss, step))", "pass", "itself is printed"),
        ("print('%f %s' % (step, loss))", "pass", "itself is printed"),
        ("print('%f %f' % tuple(output.mean(1)))", "pass", "itself is printed"),
        ("other.log({'loss': loss})", "pass", "not known what `other.log` does with it"),
        ("value = loss.item()\nif value > best:\n    best = value\n    torch.save(model, 'best')", "pass", "decides what runs next"),
        ("try:\n    best = math.exp(loss.item())\nexcept OverflowError: pass", "pass", "`math.exp` does with it"),
        ("names.extend(output.detach().cpu().numpy())\nprint(names)", "pass", "the loop reads `names`"),
        ("names.extend(output.detach().cpu().numpy())\nnames.append(step)", "pass", "are added to the same list"),
        ("names.append(output.cpu())", "pass", "gradients flow through it"),
        ("names.extend(output.detach().cpu())\nif step > 3: return", "pass", "the loop may end before"),
        ("scheduler.step(loss.item())", "pass", "`scheduler.step` does with it"),
        ("total += loss.item()\nif total > 3: names.append(step)", "pass", "the result decides what runs next"),
        ("other.update(loss.item())", "pass", "not known what `other.update` does with it"),
        ("meter.update(loss.item()); names.append(str(meter))", "pass", "`meter` is printed or passed on in every step"),
        ("with open('log', 'a') as f: f.write(f'{loss.item()}')", "pass", "not known what `f.write` does with it"),
        ("out.write(f'{loss.item()}')", "pass", "not known what `out.write` does with it"),
        ("csv.writer(out).writerow([step, loss.item()])", "pass", "cannot be deferred"),
        ("print(loss.item(), file=out)", "pass", "`print` does with it"),
        ("print(loss.item(), meter)", "pass", "may change before that"),
        ("kept['a'].append(loss.item())\nmean = np.mean(kept['a'])\nif mean > 3: break", "pass", "decides whether the script continues"),
        ("kept['a'].append(loss.item())\nworst = np.argsort(kept['a'])\nprint(worst)", "pass", "not known what `np.argsort` does with it"),
        ("history.append(loss.item())\nprint(np.percentile(history, 9))", "pass", "an argument of `np.percentile`"),
        ("row = {'a': loss.item()}\nother.log(row)", "pass", "not known what `other.log` does with it"),
        ("row = {'a': loss.item(), 'b': output}\nprint(row)", "pass", "`row` also contains tensors"),
        ("row = {'a': loss.item()}\nprint([f(v) for v in row.values()])", "pass", "an argument of `f`"),
        ("row = {'a': loss.item()}\nfor k, v in row.items():\n    if v > 3: names.append(k)", "pass", "the result decides what runs next"),
        ("a, *b = loss.item(), step\nprint(a)", "pass", "cannot be deferred"),
        ("args.step = step\nprint(loss.item(), args)", "pass", "may change before that"),
        ("print(loss.item(), type(loss.item()).__name__)", "pass", "`type(loss.item()).__name__` is printed with it"),
        ("print(loss)", "pass", "itself is printed"),
        ("print('%s' % loss)", "pass", "itself is printed"),
        ("args.loss = loss.item()", "pass", "it is stored in `args.loss`"),
        ("output[0, 0] += loss.item()", "pass", "is stored in the tensor"),
        ("total += loss.item() * output.mean()", "pass", "computed with a tensor"),
        ("try:\n    print(loss.item(), 1 / (step - 3))\nexcept ZeroDivisionError: pass", "pass", "its exceptions are caught"),
        ("try:\n    print(math.exp(loss.item()))\nexcept (KeyError, OverflowError): pass", "pass", "its exceptions are caught"),
        ("try:\n    print('%d' % loss.item())\nexcept: pass", "pass", "its exceptions are caught"),
        ("with contextlib.suppress(ValueError):\n    print(int(loss.item()))", "pass", "its exceptions are caught"),
        ("try:\n    total = step / loss.item()\nexcept ZeroDivisionError: pass", "print(total)", "exceptions of its arithmetic"),
        ("try:\n    total += loss.item() ** 2\nexcept OverflowError: pass", "print(total)", "exceptions of its arithmetic"),
        ("logger.info('%f', loss.item(), stacklevel=2)", "pass", "`logger.info` does with it"),
        ("logger.error('%f', loss.item(), exc_info=True)", "pass", "`logger.error` does with it"),
    ],
)  # fmt: skip
def test_stays(line: str, last: str, why: str) -> None:
    source = SCRIPT.format(line=line.replace("\n", "\n        "), last=last)
    after = migrated(source)
    for spelled in ("xla.item", "xla.later", "xla.arrived"):
        assert spelled not in after
    said = [f.message for f in check(source.encode()) if f.code == "XLA503"]
    assert any(why in message for message in said), said


SKIPS = """
    import torch
    import torch.nn.functional as F
    from torch.utils.data import DataLoader

    def train(model, batches: DataLoader, optimizer: torch.optim.Optimizer, device):
        total = 0.0
        for x, y in batches:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x.to(device)), y.to(device))
            {skip}
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            {step}
            total += loss.item()
        print(total)
"""


@pytest.mark.parametrize(
    ("skip", "step"),
    [
        ("if torch.isnan(loss): continue", "optimizer.step()"),
        ("pass", "if torch.isfinite(norm): optimizer.step()"),
    ],
)
def test_a_condition_on_a_step_stays_and_the_finding_suggests_where(skip: str, step: str) -> None:
    source = textwrap.dedent(SKIPS).format(skip=skip, step=step)
    after = migrated(source)
    condition = (skip if "if" in skip else step).partition(":")[0]
    assert f"{condition}:" in after
    assert "total += xla.item(loss)" in after
    (message,) = [f.message for f in check(after.encode()) if f.code == "XLA503"]
    assert "the result decides whether the weights change" in message
    assert "xla.optimizer_step(optimizer, where=" in message


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("if torch.isnan(loss): break", "whether the script continues"),
        (
            "if not math.isfinite(loss.item()):\n    print(1)\n    break",
            "whether the script continues",
        ),
        ("if torch.isnan(loss): continue", "whether the weights change"),
    ],
)
def test_what_is_decided_is_said(line: str, said: str) -> None:
    (message,) = [
        f.message for f in check("\n".join(migrated_lines(line)).encode()) if f.code == "XLA503"
    ]
    assert f"the result decides {said}" in message
    assert ("where=" in message) == (said == "whether the weights change")


def test_a_return_outside_of_loops_does_not_end_the_script() -> None:
    source = """
import torch
from torch import nn

class Codes(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("ready", torch.tensor(False))
        self.weight = nn.Parameter(torch.zeros(4))

    def prepare(self, x):
        if self.ready:
            return
        self.ready.fill_(True)

    def forward(self, x):
        self.prepare(x)
        return x * self.weight

def train(optimizer, loader):
    model = Codes().cuda()
    for x in loader:
        model(x.cuda()).sum().backward()
        optimizer.step()
"""
    (message,) = [f.message for f in check(source.encode()) if f.code == "XLA503"]
    assert "the result decides what runs next" in message
