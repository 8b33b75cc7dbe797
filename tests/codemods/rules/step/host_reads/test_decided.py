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
        ("if loss.item() < best: names.append(step)", "pass", "the script decides on it"),
        ("print('{} {:.4f}'.format(loss, step))", "pass", "a tensor is shown as it is"),
        ("print('{0:.4f} {0}'.format(loss))", "pass", "a tensor is shown as it is"),
        ("print('{:{}}'.format(loss, step))", "pass", "a tensor is shown as it is"),
        ("print('%f %s' % (step, loss))", "pass", "a tensor is shown as it is"),
        ("print('%f %f' % tuple(output.mean(1)))", "pass", "a tensor is shown as it is"),
        ("other.log({'loss': loss})", "pass", "what `other.log` does with it is not known"),
        ("value = loss.item()\nif value > best:\n    best = value\n    torch.save(model, 'best')", "pass", "decides on it"),
        ("try:\n    best = math.exp(loss.item())\nexcept OverflowError: pass", "pass", "`math.exp` does with it"),
        ("names.extend(output.detach().cpu().numpy())\nprint(names)", "pass", "`names` is looked at in the loop"),
        ("names.extend(output.detach().cpu().numpy())\nnames.append(step)", "pass", "is added to the same list at once"),
        ("names.append(output.cpu())", "pass", "gradients go through it"),
        ("names.extend(output.detach().cpu())\nif step > 3: return", "pass", "the loop may end before"),
        ("scheduler.step(loss.item())", "pass", "`scheduler.step` does with it"),
        ("total += loss.item()\nif total > 3: names.append(step)", "pass", "the script decides on it"),
        ("other.update(loss.item())", "pass", "what `other.update` does with it is not known"),
        ("meter.update(loss.item()); names.append(str(meter))", "pass", "`meter` is shown or passed on in every step"),
        ("with open('log', 'a') as f: f.write(f'{loss.item()}')", "pass", "what `f.write` does with it is not known"),
        ("out.write(f'{loss.item()}')", "pass", "what `out.write` does with it is not known"),
        ("csv.writer(out).writerow([step, loss.item()])", "pass", "cannot be deferred"),
        ("print(loss.item(), file=out)", "pass", "`print` does with it"),
        ("print(loss.item(), meter)", "pass", "may change until then"),
        ("kept['a'].append(loss.item())\nmean = np.mean(kept['a'])\nif mean > 3: break", "pass", "the script decides on it"),
        ("kept['a'].append(loss.item())\nworst = np.argsort(kept['a'])\nprint(worst)", "pass", "what `np.argsort` does with it is not known"),
        ("history.append(loss.item())\nprint(np.percentile(history, 9))", "pass", "`np.percentile` is called with it"),
        ("row = {'a': loss.item()}\nother.log(row)", "pass", "what `other.log` does with it is not known"),
        ("row = {'a': loss.item(), 'b': output}\nprint(row)", "pass", "`row` holds tensors, too"),
        ("row = {'a': loss.item()}\nprint([f(v) for v in row.values()])", "pass", "`f` is called with it"),
        ("row = {'a': loss.item()}\nfor k, v in row.items():\n    if v > 3: names.append(k)", "pass", "the script decides on it"),
        ("a, *b = loss.item(), step\nprint(a)", "pass", "cannot be deferred"),
        ("args.step = step\nprint(loss.item(), args)", "pass", "may change until then"),
        ("print(loss.item(), type(loss.item()).__name__)", "pass", "`type(loss.item()).__name__` is shown with it"),
        ("print(loss)", "pass", "a tensor is shown as it is"),
        ("print('%s' % loss)", "pass", "a tensor is shown as it is"),
        ("args.loss = loss.item()", "pass", "it is kept in `args.loss`"),
        ("output[0, 0] += loss.item()", "pass", "goes into the tensor"),
        ("total += loss.item() * output.mean()", "pass", "computed with a tensor"),
        ("try:\n    print(loss.item(), 1 / (step - 3))\nexcept ZeroDivisionError: pass", "pass", "what it raises is caught"),
        ("try:\n    print(math.exp(loss.item()))\nexcept (KeyError, OverflowError): pass", "pass", "what it raises is caught"),
        ("try:\n    print('%d' % loss.item())\nexcept: pass", "pass", "what it raises is caught"),
        ("with contextlib.suppress(ValueError):\n    print(int(loss.item()))", "pass", "what it raises is caught"),
        ("try:\n    total = step / loss.item()\nexcept ZeroDivisionError: pass", "print(total)", "what its arithmetic raises"),
        ("try:\n    total += loss.item() ** 2\nexcept OverflowError: pass", "print(total)", "what its arithmetic raises"),
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
    assert "decides on it whether the weights change" in message
    assert "xla.optimizer_step(optimizer, where=" in message


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("if torch.isnan(loss): break", "whether it goes on"),
        ("if not math.isfinite(loss.item()):\n    print(1)\n    break", "whether it goes on"),
        ("if torch.isnan(loss): continue", "whether the weights change"),
    ],
)
def test_what_is_decided_is_said(line: str, said: str) -> None:
    (message,) = [
        f.message for f in check("\n".join(migrated_lines(line)).encode()) if f.code == "XLA503"
    ]
    assert f"the script decides on it {said}" in message
    assert ("where=" in message) == (said == "whether the weights change")
