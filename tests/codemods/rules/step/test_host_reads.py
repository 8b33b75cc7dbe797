"""Which reads are made later, spelling by spelling, and which must stay where they are."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ...helpers import migrated

SCRIPT = """import csv, json, logging, math, sys, time
import numpy as np
import torch
import torch.nn.functional as F
import wandb
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm
from metrics import Elsewhere

device = torch.device("cuda")
logger = logging.getLogger(__name__)


class AverageMeter:
    def __init__(self):
        self.val = self.sum = self.count = self.avg = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        return "{{val:.4f}} ({{avg:.4f}})".format(**self.__dict__)


def accuracy(output, target, topk=(1,)):
    _, pred = output.topk(max(topk), 1, True, True)
    correct = pred.t().eq(target.view(1, -1))
    res = []
    for k in topk:
        res.append(correct[:k].reshape(-1).float().sum(0, keepdim=True).mul_(100.0))
    return res


class Worst:
    def __init__(self):
        self.worst = 0

    def update(self, val):
        if val > self.worst:
            self.worst = val


def train(model, batches: DataLoader, optimizer, scheduler, args, out):
    writer = SummaryWriter()
    meter, worst, other = AverageMeter(), Worst(), Elsewhere()
    total, best, names, history, stats = 0.0, 1.0, [], [], {{}}
    kept = {{"a": [], "b": []}}
    bar = tqdm(batches)
    for step, (x, y) in enumerate(bar):
        x, y = x.to(device), y.to(device)
        output = model(x)
        loss = F.cross_entropy(output, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {line}
    {last}
"""


def _after(line: str, last: str = "pass") -> list[str]:
    source = SCRIPT.format(line=line.replace("\n", "\n        "), last=last)
    return [text.strip() for text in migrated(source).splitlines()]


BOTH = "step=step, loss=loss"


@pytest.mark.parametrize(
    ("line", "bound"),
    [
        ("print(step, loss.item())", BOTH),
        ("print('loss', loss.item(), sep=': ', flush=True)", "loss=loss"),
        ("print(f'{step} {loss.item():.4f}')", BOTH),
        ("print(f'{step} {loss:.4f}')", BOTH),
        ("print('{} {:.4f}'.format(step, loss.item()))", BOTH),
        ("print('%d %.4f' % (step, loss.item()))", BOTH),
        ("print('%.4f' % loss)", "loss=loss"),
        ("print('%s %.4f %%' % (step, loss))", BOTH),
        ("print('%(at)s %(loss).4f' % {'at': step, 'loss': loss})", BOTH),
        ("print('{} {:.4f}'.format(step, loss))", BOTH),
        ("print('{1:.4f} {0} {k!r}'.format(step, loss, k=step))", BOTH),
        ("print('{loss:.4f} {}'.format(step, loss=loss))", BOTH),
        ("logger.info('%s %.4f', step, loss)", BOTH),
        ("print(loss.item(), file=sys.stderr)", "loss=loss"),
        ("print(loss.detach().cpu().item())", "loss=loss"),
        ("print(float(loss))", "loss=loss"),
        ("print(round(loss.item(), 3), math.exp(loss.item()))", "loss=loss"),
        ("logging.info('%d %.4f', step, loss.item())", BOTH),
        ("logger.info(f'{loss.item()}')", "loss=loss"),
        ("logger.warning('%.4f', loss)", "loss=loss"),
        ("bar.set_postfix(loss=loss.item())", "loss=loss"),
        ("bar.set_postfix({'loss': loss.item()})", "loss=loss"),
        ("bar.set_description(f'{loss.item():.4f}')", "loss=loss"),
        ("tqdm.write(f'{loss.item():.4f}')", "loss=loss"),
        ("sys.stdout.write('\\r[%d] loss %f' % (step, loss.item()))", BOTH),
        ("sys.stderr.write('loss {:.3f}'.format(loss.item()))", "loss=loss"),
        ("print(loss.item(), args.name, len(batches))", "loss=loss"),
    ],
)
def test_shown_later(line: str, bound: str) -> None:
    assert f"xla.later(lambda {bound}: {line})" in _after(line)


@pytest.mark.parametrize(
    ("line", "after"),
    [
        (
            "print(loss.item(), time.time() - start)",
            "xla.later(lambda loss=loss, start=start, time=time.time(): print(loss.item(), time - start))",
        ),
        (
            "print(loss.item(), scheduler.get_last_lr()[0])",
            "xla.later(lambda loss=loss, last_lr=scheduler.get_last_lr()[0]: print(loss.item(), last_lr))",
        ),
        (
            "print(loss.item(), next(out), next(out), len(x), len(x))",
            "xla.later(lambda loss=loss, next_out=next(out), next_out_2=next(out), len_x=len(x): "
            "print(loss.item(), next_out, next_out_2, len_x, len_x))",
        ),
        (
            "print(output.mean().item())",
            "xla.later(lambda mean=output.mean(): print(mean.item()))",
        ),
    ],
)
def test_what_is_of_now_is_computed_now(line: str, after: str) -> None:
    start = "start = time.time()\n" if "start" in line else ""
    assert after in _after(start + line)


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("total += loss.item()", "total += xla.item(loss)"),
        ("total = total + loss.item() * len(x)", "total = total + xla.item(loss) * len(x)"),
        ("total = 0.9 * total + 0.1 * loss.item()", "total = 0.9 * total + 0.1 * xla.item(loss)"),
        ("total += 1 / loss.item()", "total += 1 / xla.item(loss)"),
        ("total += float(loss)", "total += xla.item(loss)"),
        ("total += loss.detach().cpu().item()", "total += xla.item(loss)"),
        ("total += loss.cpu().detach().numpy().item()", "total += xla.item(loss)"),
        ("total += float(loss.detach().cpu().numpy())", "total += xla.item(loss)"),
        ("total += float(loss.data)", "total += xla.item(loss.data)"),
        ("total += float(loss.mean())", "total += xla.item(loss.mean())"),
        ("loss = loss.item()\ntotal += loss", "loss = xla.item(loss)"),
        ("total += accuracy(output, y)[0].item()", "total += xla.item(accuracy(output, y)[0])"),
        ("a, b = accuracy(output, y, (1, 2))\nmeter.update(b.item(), 3)", "meter.update(xla.item(b), 3)"),
        ("a, b = accuracy(output, y, (1, 2))\nmeter.update(b[0].item(), 3)", "meter.update(xla.item(b[0]), 3)"),
        ("a, = accuracy(output, y)\na = other.get()\ntotal += a.item()", "total += a.item()"),
        ("value = loss.item() if step else None\nif value is not None: total += value", "value = xla.item(loss) if step else None"),
        ("total += output.argmax(1).eq(y).sum().item()", "total += xla.item(output.argmax(1).eq(y).sum())"),
        ("value = loss.item()\ntotal += value", "value = xla.item(loss)"),
        ("history.append(loss.item())", "history.append(xla.item(loss))"),
        ("stats['loss'] = loss.item()", "stats['loss'] = xla.item(loss)"),
        ("meter.update(loss.item(), x.size(0))", "meter.update(xla.item(loss), x.size(0))"),
    ],
)  # fmt: skip
def test_summed_later(line: str, after: str) -> None:
    assert after in _after(line)


@pytest.mark.parametrize(
    ("made", "line", "after"),
    [
        ("torch.zeros(2).to(device)", "sums[0] += loss.item()", "sums[0] += loss.detach()"),
        ("torch.zeros(2, device=device)", "sums[0] += loss.item()", "sums[0] += loss.detach()"),
        ("torch.zeros(2).cuda()", "sums[1] += loss.cpu().item()", "sums[1] += loss.detach()"),
        ("torch.zeros(2).to(args.local_rank)", "sums[0] += loss.item()", "sums[0] += loss.detach()"),
        # On the host, rounded otherwise, multiplied in double precision, or no tensor of the device.
        ("torch.zeros(2)", "sums[0] += loss.item()", "sums[0] += loss.item()"),
        ("torch.zeros(2, device='cpu')", "sums[0] += loss.item()", "sums[0] += loss.item()"),
        ("torch.zeros(2, dtype=torch.float16).cuda()", "sums[0] += loss.item()", "sums[0] += loss.item()"),
        ("torch.zeros(2).to(device)", "sums[0] += loss.item() * 0.1", "sums[0] += loss.item() * 0.1"),
        ("torch.zeros(2).to(device)", "sums[0] += out.item()", "sums[0] += out.item()"),
    ],
)  # fmt: skip
def test_sums_that_are_tensors_of_the_device(made: str, line: str, after: str) -> None:
    source = SCRIPT.replace("    bar = tqdm", f"    sums = {made}\n    bar = tqdm")
    text = migrated(source.format(line=line, last="return sums"))
    assert after in [text.strip() for text in text.splitlines()]


@pytest.mark.parametrize(
    ("line", "last", "after"),
    [
        ("total += loss.item()", "print(f'{total / 2:.4f}')", "print(f'{total / 2:.4f}')"),
        ("total += loss.item()", "print('mean', total / 2)", "print('mean', total / 2)"),
        ("total += loss.item()", "return total / 2", "return xla.arrived(total) / 2"),
        ("total += loss.item()", "return {'loss': total}", "return {'loss': xla.arrived(total)}"),
        ("total += loss.item()", "print(json.dumps(total))", "print(json.dumps(xla.arrived(total)))"),
        ("total += loss.item()", "wandb.log({'loss': total})", "wandb.log({'loss': xla.arrived(total)})"),
        ("total += loss.item()", "best = total / 2; return best", "best = total / 2; return xla.arrived(best)"),
        ("history.append(loss.item())", "return sum(history)", "return sum(xla.arrived(history))"),
        ("history += [loss.item()]", "return sum(history)", "return sum(xla.arrived(history))"),
        ("history.extend([loss.item(), 2])", "return history", "return xla.arrived(history)"),
        ("history.append(loss.item())", "return np.mean(history)", "return np.mean(xla.arrived(history))"),
        ("history.append(loss.item())", "return history", "return xla.arrived(history)"),
        ("history.append(loss.item())", "torch.save({'a': history}, 'f')", "xla.save({'a': xla.arrived(history)}, 'f')"),
        ("history.append(loss.item())", "return 3, {'a': history}", "return 3, {'a': xla.arrived(history)}"),
        ("history.append(loss.item())", "for v in history: names.append(v)", "for v in xla.arrived(history): names.append(v)"),
        ("history.append(loss.item())", "return [round(v, 3) for v in history]", "return [round(v, 3) for v in xla.arrived(history)]"),
        ("kept['a'].append(loss.item())", "return np.mean(kept['a'])", "return np.mean(xla.arrived(kept['a']))"),
        ("kept['a'].append(loss.item())", "return kept", "return xla.arrived(kept)"),
        ("kept['a'].append(loss.item())", "print(kept['a'][-1])", "print(kept['a'][-1])"),
        ("kept['a'].append(loss.item())", "print(sum(kept['a'][-3:]))", "print(sum(xla.arrived(kept['a'])[-3:]))"),
        ("kept['a'].append(loss.item())", "print({k: max(v) for k, v in kept.items()})", "print({k: max(v) for k, v in xla.arrived(kept).items()})"),
        ("history.append(loss.item())", "print(len(history))", "print(len(history))"),
        ("stats['loss'] = loss.item()", "print(stats['loss'])", "print(stats['loss'])"),
        ("stats['loss'] = loss.item()", "json.dump(stats, out)", "json.dump(xla.arrived(stats), out)"),
        ("meter.update(loss.item(), x.size(0))", "print(meter)", "print(meter)"),
        ("meter.update(loss.item(), x.size(0))", "return meter.avg", "return xla.arrived(meter.avg)"),
    ],
)  # fmt: skip
def test_others_get_pythons_own_numbers(line: str, last: str, after: str) -> None:
    assert after in _after(line, last)


def test_what_is_caught_after_the_loop_is_computed_with_pythons_own_number() -> None:
    last = "try:\n        mean = total / step\n    except ZeroDivisionError:\n        mean = 0.0\n    print(mean)"
    assert "mean = xla.arrived(total) / step" in _after("total += loss.item()", last)


@pytest.mark.parametrize(
    "line",
    [
        "try:\n    print(loss.item())\nexcept ValueError: pass",
        "try:\n    print(loss.item() / 2)\nexcept KeyboardInterrupt: pass",
        "try:\n    print(loss.item() / 2)\nfinally: names.append(step)",
        "try:\n    names.append(1 / step)\nexcept ZeroDivisionError:\n    pass\nelse:\n    print(loss.item() / 2)",
    ],
)
def test_what_nothing_catches_is_shown_later(line: str) -> None:
    assert any("xla.later(" in after for after in _after(line))


ROW = "row = {'step': step, 'loss': loss.item()}"


@pytest.mark.parametrize(
    ("line", "after"),
    [
        (f"{ROW}\nbar.set_postfix(**row)", "xla.later(lambda row=row: bar.set_postfix(**row))"),
        (f"{ROW}\nprint(row)", "xla.later(lambda row=row: print(row))"),
        (f"{ROW}\nlogger.info('%s', row)", "xla.later(lambda row=row: logger.info('%s', row))"),
        (f"{ROW}\nprint(row['loss'])", "xla.later(lambda loss=row['loss']: print(loss))"),
        (f"{ROW}\nrow['sum'] = 2 * row['loss']\nprint(row)", "xla.later(lambda row=row: print(row))"),
        (f"{ROW}\nrow.update(a=1)\nprint(row)", "xla.later(lambda row=row: print(row))"),
        (f"{ROW}\nnames.append(row['loss'])", "names.append(row['loss'])"),
        (f"{ROW}\nfor k, v in row.items(): print(k, v)", "for k, v in row.items(): xla.later(lambda k=k, v=v: print(k, v))"),
        (f"{ROW}\nfor v in row.values(): total += v", "for v in row.values(): total += v"),
        (f"{ROW}\nprint({{k: round(v, 3) for k, v in row.items()}})", "xla.later(lambda row=row: print({k: round(v, 3) for k, v in row.items()}))"),
        (f"{ROW}\nprint(' '.join(f'{{k}} {{v:.3f}}' for k, v in sorted(row.items())))", "xla.later(lambda row=row: print(' '.join(f'{k} {v:.3f}' for k, v in sorted(row.items()))))"),
        (f"{ROW}\nprint(' '.join(f'{{k}} {{step}}' for k in row if k in names))", "xla.later(lambda row=row, names=names, step=step: print(' '.join(f'{k} {step}' for k in row if k in names)))"),
        ("history.append(loss.item())\nprint(np.mean(history))", "xla.later(lambda history=history: print(np.mean(history)))"),
        ("history.append(loss.item())\nprint(sum(history[-9:]))", "xla.later(lambda history=history[-9:]: print(sum(history)))"),
        ("history.append((step, loss.item()))\nprint(history[-1])", "xla.later(lambda history=history[-1]: print(history))"),
        ("history.append({'loss': loss.item()})\nif step % 9 == 0: print(history)", "if step % 9 == 0: print(xla.arrived(history))"),
        ("recent = deque(maxlen=9)\nrecent.append(loss.item())\nprint(np.mean(recent))", "xla.later(lambda recent=recent: print(np.mean(recent)))"),
        ("row = {k: v.item() for k, v in {'a': loss, 'b': output.mean()}.items()}\nprint(row)", "xla.later(lambda row=row: print(row))"),
        ("row = [v.item() for v in accuracy(output, y)]\nprint(row)", "xla.later(lambda row=row: print(row))"),
        ("a, b = loss.item(), output.mean().item()\nprint(a, b)", "xla.later(lambda a=a, b=b: print(a, b))"),
        ("kept['a'].append(loss.item())\nprint(np.mean(kept['a']))", "xla.later(lambda a=kept['a']: print(np.mean(a)))"),
    ],
)  # fmt: skip
def test_what_holds_numbers_is_shown_later(line: str, after: str) -> None:
    assert after in _after(line)


def test_sums_that_are_shown_in_every_step_are_shown_later() -> None:
    after = _after("total += loss.item()\nbar.set_postfix(loss=total / (step + 1))")
    assert "total += xla.item(loss)" in after
    assert (
        "xla.later(lambda total=total, step=step: bar.set_postfix(loss=total / (step + 1)))"
        in after
    )


def test_trackers_are_waited_for_by_the_loader() -> None:
    source = SCRIPT.replace("enumerate(bar)", "enumerate(batches)").format(
        line="writer.add_scalar('loss', loss.item(), step)", last="writer.close()"
    )
    assert "xla.later(lambda loss=loss, step=step: writer.add_scalar(" in migrated(source)
    for leaves in ("break", "return"):
        other = source.replace(
            "        writer.add", f"        if step > 3: {leaves}\n        writer.add"
        )
        assert "xla.later" not in migrated(other)


@pytest.mark.parametrize(
    ("line", "last", "why"),
    [
        ("if loss.item() < best: names.append(step)", "pass", "the script decides on it"),
        ("print('{} {:.4f}'.format(loss, step))", "pass", "a tensor is shown as it is"),
        ("print('{0:.4f} {0}'.format(loss))", "pass", "a tensor is shown as it is"),
        ("print('{:{}}'.format(loss, step))", "pass", "a tensor is shown as it is"),
        ("print('%f %s' % (step, loss))", "pass", "a tensor is shown as it is"),
        ("other.log({'loss': loss})", "pass", "what `other.log` does with it is not known"),
        ("history += [loss.item()]\nhistory += args.more", "pass", "is not known to be a list or dict of its own"),
        ("value = loss.item()\nif not math.isfinite(value): sys.exit(1)", "pass", "decides on it whether it goes on"),
        ("best = min(best, loss.item())\nif best < 0.1: sys.exit()", "pass", "the script decides on it"),
        ("value = loss.item()\nif value > best:\n    best = value\n    torch.save(model, 'best')", "pass", "decides on it"),
        ("try:\n    best = math.exp(loss.item())\nexcept OverflowError: pass", "pass", "`math.exp` does with it"),
        ("names.extend(output.detach().cpu().numpy())\nprint(names)", "pass", "`names` is looked at in the loop"),
        ("names.extend(output.detach().cpu().numpy())\nnames.append(step)", "pass", "is added to the same list at once"),
        ("names.append(output.cpu())", "pass", "gradients go through it"),
        ("names.extend(output.detach().cpu())\nif step > 3: break", "pass", "the loop may end before"),
        ("scheduler.step(loss.item())", "pass", "`scheduler.step` does with it"),
        ("total += loss.item()\nif total > 3: names.append(step)", "pass", "the script decides on it"),
        ("worst.update(loss.item())", "pass", "the script decides on it"),
        ("other.update(loss.item())", "pass", "not known here"),
        ("meter.update(loss.item()); names.append(str(meter))", "pass", "shown or handed on in every step"),
        ("out.write(f'{loss.item()}')", "pass", "what `out.write` does with it is not known"),
        ("csv.writer(out).writerow([step, loss.item()])", "pass", "not read later here"),
        ("print(loss.item(), file=out)", "pass", "`print` does with it"),
        ("print(loss.item(), meter)", "pass", "may change until then"),
        ("kept['a'].append(loss.item())\nmean = np.mean(kept['a'])\nprint(mean)", "pass", "`kept['a']` is asked for in every step"),
        ("history.append(loss.item())\nprint(np.percentile(history, 9))", "pass", "`np.percentile` is called with it"),
        ("row = {'a': loss.item()}\nother.log(row)", "pass", "`row` is asked for in every step"),
        ("row = {'a': loss.item(), 'b': output}\nprint(row)", "pass", "`row` holds tensors, too"),
        ("row = {'a': loss.item()}\nprint([f(v) for v in row.values()])", "pass", "`f` is called with it"),
        ("row = {'a': loss.item()}\nfor k, v in row.items():\n    if v > 3: names.append(k)", "pass", "the script decides on it"),
        ("row = {'a': loss.item()}\nrow = get()\nprint(row)", "pass", "`row` is not known to be a list or dict"),
        ("a, *b = loss.item(), step\nprint(a)", "pass", "not read later here"),
        ("kept['b'] = names\nkept['a'].append(loss.item())", "pass", "`kept` is not known to hold lists"),
        ("kept['a'].append(loss.item())", "lists = kept['a']; return lists", "`kept['a']` is kept elsewhere"),
        ("kept['a'].append(loss.item())", "return lambda: kept['a']", "is kept elsewhere"),
        ("args.step = step\nprint(loss.item(), args)", "pass", "may change until then"),
        ("print(loss.item(), type(loss.item()).__name__)", "pass", "`type(loss.item()).__name__` is shown with it"),
        ("print(loss)", "pass", "a tensor is shown as it is"),
        ("print('%s' % loss)", "pass", "a tensor is shown as it is"),
        ("history.append(loss.item())", "args.history = history", "kept elsewhere"),
        ("names = history; history.append(loss.item())", "return names", "asked for in every step"),
        ("args.loss = loss.item()", "pass", "it is kept in `args.loss`"),
        ("output[0, 0] += loss.item()", "pass", "goes into the tensor"),
        ("total += loss.item() * output.mean()", "pass", "computed with a tensor"),
        ("wandb.log({'loss': loss.item()})\nwandb.log({'step': step})", "pass", "`wandb.log({'loss'"),
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


def test_a_step_that_returns_its_loss() -> None:
    source = """
    import torch

    def step(model, optimizer, x):
        loss = model(x.cuda()).mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    def train(model, batches, optimizer):
        for k, x in enumerate(batches):
            value = step(model, optimizer, x)
            if k % 10 == 0:
                print(f"{value:.4f}")
    """
    assert "return xla.item(loss)" in migrated(source)
    decided = source.replace("k % 10 == 0", "value > 3").replace('print(f"{value:.4f}")', "break")
    assert "return loss.item()" in migrated(decided)
    handed_on = source + "\n    run(step)\n"
    assert "return loss.item()" in migrated(handed_on)


RETURNED = """
    import torch

    def evaluate(model, x, y):
        output = model(x)
        loss = torch.nn.functional.cross_entropy(output, y)
        return {returned}

    def train(model, optimizer, x, y):
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        {line}

    def main(model, optimizer):
        model = model.cuda()
        x = y = torch.ones(3, device="cuda")
        for k in range(9):
            train(model, optimizer, x, y)
        {last}

    main(model, optimizer)
"""
BOTH_READ = "loss.item(), output.mean().item()"


@pytest.mark.parametrize(
    ("returned", "line", "last", "after"),
    [
        (BOTH_READ, "a, b = evaluate(model, x, y)", "print('%f %f' % evaluate(model, x, y))", "print('%f %f' % evaluate(model, x, y))"),
        (BOTH_READ, "a, b = evaluate(model, x, y)", "a, b = evaluate(model, x, y); return a", "a, b = evaluate(model, x, y); return xla.arrived(a)"),
        (BOTH_READ, "a, b = evaluate(model, x, y); print(b)", "pass", "a, b = evaluate(model, x, y); xla.later(lambda b=b: print(b))"),
        (BOTH_READ, "print(evaluate(model, x, y)[1])", "pass", "xla.later(lambda evaluate=evaluate(model, x, y)[1]: print(evaluate))"),
        (BOTH_READ, "evaluate(model, x, y)", "return evaluate(model, x, y)", "return xla.arrived(evaluate(model, x, y))"),
        ("loss.item()", "a = evaluate(model, x, y)", "return evaluate(model, x, y)", "return xla.arrived(evaluate(model, x, y))"),
        ("{'loss': loss.item()}", "out = evaluate(model, x, y); print(out)", "pass", "out = evaluate(model, x, y); xla.later(lambda out=out: print(out))"),
        ("{'loss': loss.item()}", "out = evaluate(model, x, y); print(out['loss'])", "pass", "out = evaluate(model, x, y); xla.later(lambda loss=out['loss']: print(loss))"),
        ("{'loss': loss.item()}", "out = evaluate(model, x, y)['loss']; print(out)", "pass", "out = evaluate(model, x, y)['loss']; xla.later(lambda out=out: print(out))"),
    ],
)  # fmt: skip
def test_what_functions_return_together(returned: str, line: str, last: str, after: str) -> None:
    source = RETURNED.format(returned=returned, line=line, last=last)
    found = [text.strip() for text in migrated(source).splitlines()]
    assert after in found
    assert not any(
        "return {loss" in text or ".item(), " in text.partition("later")[0] for text in found
    )


@pytest.mark.parametrize(
    ("line", "last"),
    [
        ("a, b = evaluate(model, x, y)\n        if a + b > 3: print(b); b = model(x)", "pass"),
        ("a, *b = evaluate(model, x, y)", "pass"),
        ("a = evaluate", "pass"),
        ("a, b = evaluate(model, x, y)", "for _ in range(9): evaluate(model, x, y)"),  # unmarked
        ("a, b = evaluate(model, x, y)", "print([evaluate(model, x, y) for _ in range(9)])"),
        ("pass", "print(evaluate(model, x, y))"),
        ("model.seen = evaluate(model, x, y)", "pass"),
    ],
)
def test_what_functions_return_to_others_stays(line: str, last: str) -> None:
    source = RETURNED.format(returned=BOTH_READ, line=line, last=last)
    assert "xla.item" not in migrated(source)


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("best = min(best, loss.item())", "best = xla.computed(min, best, xla.item(loss))"),
        ("best = max(loss.item(), best)", "best = xla.computed(max, xla.item(loss), best)"),
        ("total += math.exp(loss.item())", "total += xla.computed(math.exp, xla.item(loss))"),
        ("total = round(loss.item(), 4)", "total = xla.computed(round, xla.item(loss), 4)"),
        ("total += int(output.argmax(1).eq(y).sum())", "total += xla.item(output.argmax(1).eq(y).sum())"),
        ("value = loss.item()\nif value < best: best = value", "best = xla.computed(min, best, value)"),
        ("value = loss.item()\nif best < value: best = value", "best = xla.computed(max, best, value)"),
        ("value = loss.item()\nif best > value:\n    best = value", "best = xla.computed(min, best, value)"),
        ("if loss.item() < best: best = loss.item()", "best = xla.computed(min, best, xla.item(loss))"),
        ("if best <= loss.item():\n    best = loss.item()", "best = xla.computed(lambda kept, new: new if new >= kept else kept, best, xla.item(loss))"),
        ("if loss.item() >= best: best = loss.item()", "best = xla.computed(lambda kept, new: new if new >= kept else kept, best, xla.item(loss))"),
        ("value = loss.item()\nif value <= best: best = value", "best = xla.computed(lambda kept, new: new if new <= kept else kept, best, value)"),
        ("total = loss.item() if step == 0 else 0.9 * total + 0.1 * loss.item()", "total = xla.item(loss) if step == 0 else 0.9 * total + 0.1 * xla.item(loss)"),
        ("value = loss.item()\nif best is None: best = value\nelse: best += value", "value = xla.item(loss)"),
    ],
)  # fmt: skip
def test_functions_of_numbers_are_computed_later(line: str, after: str) -> None:
    assert after in _after(line, "print(best, total)")


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("names.extend(output.detach().cpu().numpy())", "xla.later(lambda output=output: names.extend(output.detach().cpu().numpy()))"),
        ("names.append(output.argmax(1).cpu().numpy())", "xla.later(lambda argmax=output.argmax(1): names.append(argmax.cpu().numpy()))"),
        ("names.extend(output.argmax(1).tolist())", "xla.later(lambda argmax=output.argmax(1): names.extend(argmax.tolist()))"),
        ("names += output.argmax(1).tolist()", "xla.later(lambda argmax=output.argmax(1): names.extend(argmax.tolist()))"),
        ("names += list(output.detach().cpu().numpy())", "xla.later(lambda output=output: names.extend(list(output.detach().cpu().numpy())))"),
        ("names.append((output.detach().cpu(), y.tolist()))", "xla.later(lambda output=output, y=y: names.append((output.detach().cpu(), y.tolist())))"),
    ],
)  # fmt: skip
def test_lists_of_batches_are_filled_later(line: str, after: str) -> None:
    source = SCRIPT.replace("enumerate(bar)", "enumerate(batches)")
    source = source.format(line=line, last="print(np.concatenate(names))")
    assert after in [text.strip() for text in migrated(source).splitlines()]


@pytest.mark.parametrize(
    ("opened", "line", "after"),
    [
        ("f = open('log', 'w')", "f.write(f'{loss.item()}\\n')", "xla.later(lambda loss=loss: f.write(f'{loss.item()}\\n'), to=f)"),
        ("f = open('log', 'w')", "print(step, loss.item(), file=f)", f"xla.later(lambda {BOTH}: print(step, loss.item(), file=f), to=f)"),
        ("f = out.open('w')", "f.write('%.4f' % loss.item())", "xla.later(lambda loss=loss: f.write('%.4f' % loss.item()), to=f)"),
        ("f = open('log', 'w')", "f.write(json.dumps({'loss': loss.item()}))", "xla.later(lambda loss=loss: f.write(json.dumps({'loss': loss.item()})), to=f)"),
        ("f = open('log', 'w'); rows = csv.writer(f)", "rows.writerow([step, loss.item()])", f"xla.later(lambda {BOTH}: rows.writerow([step, loss.item()]), to=f)"),
        ("f = open('log', 'w'); rows = csv.DictWriter(f, ['a'])", "rows.writerow({'a': loss.item()})", "xla.later(lambda loss=loss: rows.writerow({'a': loss.item()}), to=f)"),
    ],
)  # fmt: skip
def test_files_are_written_later(opened: str, line: str, after: str) -> None:
    source = SCRIPT.replace(
        "    writer = Summ",
        f"    {opened}\n    writer = Summ".replace("{", "{{").replace("}", "}}"),
    )
    source = source.format(line=line, last="f.close()")
    assert after in [text.strip() for text in migrated(source).splitlines()]
    twice = source.replace("rows.writerow(", "rows.writerow([]); rows.writerow(")
    assert ("xla.later" in migrated(twice)) == ("rows" not in line)


FUNCTIONS = """
from dataclasses import dataclass, field
import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

class Meter:
    def __str__(self):
        return "meter"

@dataclass
class State:
    loss: float = 0.0
    all: list = field(default_factory=list)

{function}

class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.losses, self.kept, self.sums = [], {{"loss": []}}, defaultdict(float)

    def train_step(self, x, y):
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss{returned}

    def report(self):
        return np.mean(self.losses), sorted(self.kept["loss"]), self.sums.items()

    def log_loss(self, step, loss):
        print(step, loss.item())

    def fit(self, batches: DataLoader, device):
        total = 0.0
        for step, (x, y) in enumerate(batches):
            x, y = x.to(device), y.to(device)
            loss = self.train_step(x, y)
            {line}
        return total

def main(model, optimizer, batches):
    Trainer(model.cuda(), optimizer).fit(batches, torch.device("cuda"))
"""


@pytest.mark.parametrize(
    ("function", "returned", "line", "after"),
    [
        ("", ".item()", "total += loss", "return xla.item(loss)"),
        ("", ".item()", "print(loss)", "xla.later(lambda loss=loss: print(loss))"),
        ("", ".item()", "self.losses.append(loss)", "return xla.item(loss)"),
        ("print(vars(args))", ".item()", "self.losses.append(loss)", "return xla.item(loss)"),
        ("", ".item()", "self.losses.append(loss); print(sum(self.losses[-9:]))", "self.losses.append(loss); xla.later(lambda losses=self.losses[-9:]: print(sum(losses)))"),
        ("", ".item()", "self.sums['loss'] += loss", "return xla.item(loss)"),
        ("", ".item()", "self.kept['loss'].append(loss)", "return xla.item(loss)"),
        ("", ".item()", "state = State(); state.loss = loss; print(state.loss)", "state = State(); state.loss = loss; xla.later(lambda loss=state.loss: print(loss))"),
        ("", ".item()", "state = State(); state.all.append(loss); print(np.mean(state.all))", "state = State(); state.all.append(loss); xla.later(lambda value=state.all: print(np.mean(value)))"),
        ("", "", "self.log_loss(step, loss)", f"xla.later(lambda {BOTH}: print(step, loss.item()))"),
        ("def show(k, v):\n    print(f'{k} {v:.3f}')", ".item()", "show(step, loss)", "xla.later(lambda k=k, v=v: print(f'{k} {v:.3f}'))"),
        ("def show(k, v):\n    print(f'{k} {v:.3f}')", ".item()", "show(v=loss, k=step)", "xla.later(lambda k=k, v=v: print(f'{k} {v:.3f}'))"),
        ("def mean(v, n):\n    return v / n", ".item()", "total += mean(loss, 3)", "total += mean(loss, 3)"),
    ],
)  # fmt: skip
def test_functions_and_methods_of_the_file(
    function: str, returned: str, line: str, after: str
) -> None:
    source = FUNCTIONS.format(function=function, returned=returned, line=line)
    assert after in [text.strip() for text in migrated(source).splitlines()]


@pytest.mark.parametrize(
    ("function", "line"),
    [
        ("def show(v):\n    if v > 3: raise ValueError(v)", "show(loss)"),
        ("@torch.no_grad()\ndef show(v):\n    print(v)", "show(loss)"),
        ("def show(*v):\n    print(*v)", "show(loss)"),
        ("def show(v):\n    print(v)", "meter = Meter(); show(meter); show(loss)"),
        ("", "self.losses = self.model; self.losses.append(loss)"),
        ("def get(trainer):\n    return trainer.losses", "self.losses.append(loss)"),
        ("def get(trainer):\n    return {'a': trainer.losses}", "self.losses.append(loss)"),
        ("", "self.losses.append(loss); self.other = self.losses"),
        ("", "self.kept['loss'] = self.losses; self.kept['loss'].append(loss)"),
        ("print(vars(State()))", "state = State(); state.loss = loss"),
        ("", "self.model.loss = loss"),
    ],
)
def test_functions_that_keep_or_decide(function: str, line: str) -> None:
    source = FUNCTIONS.format(function=function, returned=".item()", line=line)
    assert "return loss.item()" in migrated(source)


def test_evaluation_reads_once() -> None:
    source = """
    import torch
    import torch.nn.functional as F
    from sklearn.metrics import f1_score
    from torch.utils.data import DataLoader

    def evaluate(model, batches: DataLoader, device):
        total, correct, seen, true, scores = 0.0, 0, [], [], []
        with torch.no_grad():
            for x, y in batches:
                x, y = x.to(device), y.to(device)
                output = model(x)
                total += F.nll_loss(output, y, reduction="sum").item()
                pred = output.argmax(dim=1, keepdim=True)
                correct += pred.eq(y.view_as(pred)).sum().item()
                correct += (output.argmax(1) == y).type(torch.float).sum().item()
                correct += int((output.argmax(1) == y).sum())
                seen.extend(pred.cpu().numpy())
                true += y.tolist()
                scores.append(output.softmax(1).cpu())
                print(output.mean().item() > 0.5)
        print(total, correct, f1_score(true, seen), torch.cat(scores))

    def train(model, batches: DataLoader, optimizer, device):
        for x, y in batches:
            F.cross_entropy(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
        evaluate(model, batches, device)

    train(model.cuda(), batches, optimizer, torch.device("cuda"))
    """
    after = migrated(source)
    for line in (
        'total += xla.item(F.nll_loss(output, y, reduction="sum"))',
        "correct += xla.item(pred.eq(y.view_as(pred)).sum())",
        "correct += xla.item((output.argmax(1) == y).type(torch.float).sum())",
        "correct += xla.item((output.argmax(1) == y).sum())",
        "xla.later(lambda pred=pred: seen.extend(pred.cpu().numpy()))",
        "xla.later(lambda y=y: true.extend(y.tolist()))",
        "xla.later(lambda softmax=output.softmax(1): scores.append(softmax.cpu()))",
    ):
        assert line in after
    left = [f.line for f in check(after.encode()) if f.code == "XLA503"]
    assert left == []  # what stays in an evaluation is no finding


CLIPPED = """
    import torch
    import torch.nn.functional as F
    from torch.utils.data import DataLoader

    def train(model, batches: DataLoader, optimizer, device):
        for x, y in batches:
            F.cross_entropy(model(x.to(device)), y.to(device)).backward()
            norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
            coef = 1.0 / (norm + 1e-6)
            {clip}
            optimizer.step()

    train(model.cuda(), batches, optimizer, torch.device("cuda"))
"""


@pytest.mark.parametrize(
    "clip",
    [
        "if coef < 1:\n                for p in model.parameters():\n                    p.grad.mul_(coef)",
        "if coef < 1.0:\n                for p in model.parameters():\n                    p.grad.data.mul_(coef)",
        "if 1 > coef:\n                for p in model.parameters():\n                    p.grad *= coef",
        "if coef <= 1:\n                for p in model.parameters():\n                    if p.grad is not None:\n"
        "                        p.grad.detach().mul_(coef)",
        "if coef < 1:\n                with torch.no_grad():\n                    for p in model.parameters():\n"
        "                        p.grad.mul_(coef)",
    ],
)
def test_clipping_by_hand_is_decided_on_the_device(clip: str) -> None:
    after = migrated(CLIPPED.format(clip=clip))
    condition = clip.partition(":")[0].removeprefix("if ")
    assert f"coef = torch.where({condition}, coef, torch.ones_like(coef))" in after
    assert f"if {condition}" not in after


CONDITIONS = [
    ("if torch.isnan(loss): print('nan', step)", "print('nan', step) if isnan_loss else None"),
    ("if loss != loss: logger.warning('nan')", "logger.warning('nan') if value else None"),
    ("if not math.isfinite(loss.item()): print(step)", "print(step) if not math.isfinite(loss.item()) else None"),
    ("if loss > 5 or np.isnan(loss.item()): print(1)", "print(1) if value or np.isnan(loss.item()) else None"),
    ("if loss.item() > 10:\n    print('spike', step, loss.item())", "print('spike', step, loss.item()) if loss.item() > 10 else None"),
    ("value = loss.item()\nif value > 10: print(value)", "xla.later(lambda value=value: print(value) if value > 10 else None)"),
    ("print('good' if loss.item() < 1 else 'bad')", "xla.later(lambda loss=loss: print('good' if loss.item() < 1 else 'bad'))"),
    ("if loss.item() > 9 and step > 3: print(step)", "print(step) if loss.item() > 9 and step > 3 else None"),
    ("if loss.item() >= 9: print(loss.item(), step)", "print(loss.item(), step) if loss.item() >= 9 else None"),
    ("if loss == 0: print(loss.item(), step)", "print(loss.item(), step) if value else None"),
    ("print(step, loss.item() < best)", "print(step, loss.item() < best)"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "shown"), CONDITIONS)
def test_conditions_of_what_is_shown_are_asked_later(line: str, shown: str) -> None:
    after = _after(line)
    assert any(shown in text for text in after)
    assert not [f for f in check("\n".join(migrated_lines(line)).encode()) if f.code == "XLA503"]


def migrated_lines(line: str) -> list[str]:
    return migrated(SCRIPT.format(line=line.replace("\n", "\n        "), last="pass")).splitlines()


@pytest.mark.parametrize(
    "line",
    [
        "if loss.item() > 9: names.append(step)",
        "if loss.item() > 9: print(args.get(step))",  # called in other steps, too
        "if loss.item() > 9: print(x[step])",
        "if step > 0 and loss.item() > last: print(step)\nlast = step",  # not there in the first step
        "if step > 0:\n    last = step\nif loss.item() > 9: print(last)",
        "if loss.item() > 9: print(step)\nelse: names.append(step)",
        "if step == 3: pass\nelif loss.item() > 9: print(step)",
        "if loss.item() > 9: print(loss)",
        "if loss.item() > 9: print(output.mean().tolist())",
        "while loss.item() > 9: print(step)",
        "if loss.item() > 9:\n    print(step)\n    break",
        "if names and (output - names[0]).sum().item() > 9: print(step)",
        "if np.isnan(loss.item()) or loss > 5: print(1)",
        "if loss.item() == 0: print(loss.item(), args.get(step))",
        "if (value := loss.item()) > 9: print(step)",
    ],
)
def test_conditions_that_do_more_stay(line: str) -> None:
    after = "\n".join(migrated_lines(line))
    assert "xla.later" not in after
    assert "if" in line.partition(" ")[0] or "while" in after


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("if torch.isnan(loss): raise ValueError", "whether it goes on"),
        ("if not math.isfinite(loss.item()):\n    print(1)\n    sys.exit(1)", "whether it goes on"),
        ("assert not torch.isnan(loss)", "whether it goes on"),
        ("if torch.isnan(loss): continue", "whether the weights change"),
        ("if torch.isfinite(loss): optimizer.step()", "whether the weights change"),
    ],
)
def test_what_is_decided_is_said(line: str, said: str) -> None:
    (message,) = [
        f.message for f in check("\n".join(migrated_lines(line)).encode()) if f.code == "XLA503"
    ]
    assert f"the script decides on it {said}" in message
    assert ("torch.where" in message) == (said == "whether the weights change")


@pytest.mark.parametrize(
    ("condition", "scale"),
    [
        ("norm > 1.0", "1.0 / (norm + 1e-6)"),
        ("norm > args.limit", "args.limit / norm"),
        ("limit < norm", "limit / (norm + args.eps)"),
        ("norm >= 5", "5 / norm * 0.5"),
    ],
)
def test_gradients_scaled_where_the_norm_is_large(condition: str, scale: str) -> None:
    clip = (
        f"if {condition}:\n                by = {scale}\n"
        "                for p in model.parameters():\n                    p.grad.mul_(by)"
    )
    after = migrated(CLIPPED.format(clip=clip))
    assert f"by = torch.where({condition}, {scale}, torch.ones_like(norm))" in after
    assert f"if {condition}" not in after


@pytest.mark.parametrize(
    "clip",
    [
        "if norm > 1:\n                by = limit(norm)\n                for p in model.parameters(): p.grad.mul_(by)",
        "if norm > 1:\n                by = 1 / norm\n                for p in model.parameters(): p.data.mul_(by)",
        "if norm > 1:\n                by = 1 / norm\n                for p in model.parameters(): p.grad.add_(by)",
        "if norm > 1:\n                by = by / norm\n                for p in model.parameters(): p.grad.mul_(by)",
        "if norm > 1:\n                by = 1 / norm\n                for p in model.parameters(): p.grad.mul_(by)\n"
        "            print(by.size())",
        "if norm > 1:\n                by = 1 / norm\n                count += 1\n"
        "                for p in model.parameters(): p.grad.mul_(by)",
        "if norm > get(1):\n                by = 1 / norm\n                for p in model.parameters(): p.grad.mul_(by)",
        "if norm == 1:\n                by = 1 / norm\n                for p in model.parameters(): p.grad.mul_(by)",
        "if coef < 2:\n                for p in model.parameters(): p.grad.mul_(coef)",
        "if coef > 1:\n                for p in model.parameters(): p.grad.mul_(coef)",
        "if coef < 1:\n                for p in model.parameters(): p.grad.mul_(coef)\n            print(coef.size())",
        "if coef < 1:\n                for p in model.parameters(): p.grad.mul_(coef)\n            else: norm += 1",
        "if coef < 1:\n                for p in model.parameters(): p.grad.mul_(coef); count += 1",
        "if coef < 1:\n                for p in model.parameters(): p.grad.mul_(norm)",
    ],
)
def test_what_more_than_multiplies_stays_decided(clip: str) -> None:
    assert "torch.where" not in migrated(CLIPPED.format(clip=clip))


@pytest.mark.parametrize(
    "reads_back",
    ["print(open('log').read())", "print(pd.read_csv('log'))", "subprocess.run(['tail', 'log'])"],
)
def test_a_file_that_may_be_read_in_the_loop_is_written_at_once(reads_back: str) -> None:
    source = SCRIPT.replace("    bar = tqdm", "    f = open('log', 'w')\n    bar = tqdm")
    line = "f.write(f'{loss.item()}')\n        f.flush()\n        "
    assert "xla.later" in migrated(
        source.format(line=line + "names.append(step)", last="f.close()")
    )
    assert "xla.later" not in migrated(source.format(line=line + reads_back, last="f.close()"))


@pytest.mark.parametrize(
    "call",
    ["self.inner.update(x)", "self.update(x)", "[m.update(x) for m in self.all]", "self.other(x)"],
)
def test_functions_that_call_themselves_are_judged(call: str) -> None:
    script = f"""
import torch


class Codes(torch.nn.Module):
    def other(self, x):
        return self.update(x)

    def update(self, x):
        {call}
        count = (x > 0).sum().item()
        return x * count


    def forward(self, x):
        return self.update(x)


def train(batches):
    model = Codes().cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x in batches:
        model(x.cuda()).sum().backward()
        optimizer.step()
"""
    assert "XLA503" in {f.code for f in check(script.encode())}


LOGGED = """
from accelerate import Accelerator
{}
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for step, x in enumerate(loader):
    loss = model(x).mean()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    accelerator.log({{"loss": loss.item()}}, step=step)
    if step > 4:
        break
accelerator.end_training()
"""


def test_accelerates_trackers_are_patched_to_wait() -> None:
    new = migrated(LOGGED.format("accelerator = Accelerator(log_with='all')"))
    assert 'xla.later(lambda loss=loss, step=step: accelerator.log({"loss": loss.item()}' in new
    assert "xla.patch_accelerate()" in new


def test_an_accelerator_of_another_file_may_not_be_patched() -> None:
    text = LOGGED.format("from mine import accelerator")
    assert "xla.later(" not in migrated(text)
