"""What is summed up, collected and measured is a number on its way, spelling by spelling."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ....helpers import migrated
from .scripts import SCRIPT, after_migration


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
        ("value = loss.tolist()\ntotal += value", "value = xla.item(loss)"),
        ("value = loss.detach().cpu().tolist()\ntotal += value", "value = xla.item(loss)"),
        ("total += float(output.max())", "total += xla.computed(float, xla.item(output.max()))"),
        ("total += float((output > 0).sum().detach().cpu())", "total += xla.computed(float, xla.item((output > 0).sum()))"),
        ("total += float(loss * 2)", "total += xla.item(loss * 2)"),
        ("total += float(((output > 0).sum() / 3).detach().cpu())", "total += xla.item((output > 0).sum() / 3)"),
        ("total += float(-output.norm())", "total += xla.item(-output.norm())"),
        ("total += float((output > 0).max())", "total += xla.computed(float, xla.item((output > 0).max()))"),
        ("total += float(torch.exp(loss))", "total += xla.item(torch.exp(loss))"),
        ("total += loss.cpu().data.numpy()", "total += xla.computed(lambda loss=loss: loss.detach().cpu().numpy())"),
        ("value = (output.argmax(1) == y).sum().data.cpu().numpy() / 2.0\ntotal += value", "value = xla.computed(lambda value=(output.argmax(1) == y).sum().data: value.detach().cpu().numpy()) / 2.0"),
        ("value = output.detach().cpu().numpy()\ntotal += value", "value = output.detach().cpu().numpy()"),
        ("kept = [0.0] * 2\nkept[0] += loss.item()", "kept[0] += xla.item(loss)"),
        ("kept = list(0.0 for _ in x)\nkept[0] += loss.item()", "kept[0] += xla.item(loss)"),
        ("kept = [[], []]\nkept[1].append(loss.item())", "kept[1].append(xla.item(loss))"),
        ("kept = {k: [] for k in 'ab'}\nkept['a'].append(loss.item())", "kept['a'].append(xla.item(loss))"),
        ("history.append(math.exp(loss.item()))", "history.append(xla.computed(math.exp, xla.item(loss)))"),
        ("total += -10 * np.log(loss.item()) / np.log(10.0)", "total += -10 * xla.computed(np.log, xla.item(loss)) / np.log(10.0)"),
        ("psnr = lambda mse: -10 * np.log10(mse)\nhistory.append(psnr(loss.item()))", "history.append(xla.computed(psnr, xla.item(loss)))"),
        ("history.append(loss.item())", "history.append(xla.item(loss))"),
        ("history = history + [loss.item()]", "history = history + [xla.item(loss)]"),
        ("history = [loss.item() / 2] + history", "history = [xla.item(loss) / 2] + history"),
        ("history = args.all + [loss.item()]", "history = args.all + [xla.item(loss)]"),
        ("stats['loss'] = loss.item()", "stats['loss'] = xla.item(loss)"),
        ("meter.update(loss.item(), x.size(0))", "meter.update(xla.item(loss), x.size(0))"),
    ],
)  # fmt: skip
def test_summed_later(line: str, after: str) -> None:
    assert after in after_migration(line)


@pytest.mark.parametrize(
    ("made", "line", "after"),
    [
        ("torch.zeros(2).to(device)", "sums[0] += loss.item()", "sums[0] += loss.detach()"),
        ("torch.zeros(2, device=device)", "sums[0] += loss.item()", "sums[0] += loss.detach()"),
        ("torch.zeros(2).cuda()", "sums[1] += loss.cpu().item()", "sums[1] += loss.detach()"),
        ("torch.zeros(2).to(args.local_rank)", "sums[0] += loss.item()", "sums[0] += loss.detach()"),
        ("torch.zeros(2).cuda()", "sums[0] += output.eq(1).sum().item()", "sums[0] += output.eq(1).sum().detach()"),
        ("torch.zeros(2).cuda()", "sums[0] += loss.view(1).item()", "sums[0] += loss.view(1).detach().reshape(())"),
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
    assert after in after_migration(line, last)


def test_what_is_caught_after_the_loop_is_computed_with_pythons_own_number() -> None:
    last = "try:\n        mean = total / step\n    except ZeroDivisionError:\n        mean = 0.0\n    print(mean)"
    assert "mean = xla.arrived(total) / step" in after_migration("total += loss.item()", last)


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
    assert after in after_migration(line, "print(best, total)")


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


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("best = value; at = step", "at = xla.computed(lambda kept, new, now, before: now if new < kept else before, best, value, step, at)"),
        ("at = step\n    best = value", "at = xla.computed(lambda kept, new, now, before: now if new < kept else before, best, value, step, at)"),
        ("best = value; found = 1", "found = xla.computed(lambda kept, new, now, before: now if new < kept else before, best, value, 1, found)"),
        ("best = value; at = output", None),
        ("best = value; at = best", None),
        ("best = value; at = other.get()", None),
        ("best = value; at = step; print(at)", None),
        ("best = value; at = step\nelse: at = 0", None),
    ],
)  # fmt: skip
def test_what_is_kept_beside_an_extreme(body: str, after: str | None) -> None:
    line = f"at = found = 0\nvalue = loss.item()\nif value < best:\n    {body}\nprint(f'{{best:.3f}} {{at}}')"
    lines = after_migration(line)
    if after is None:
        assert "value = loss.item()" in lines
    else:
        assert lines.index(after) == lines.index("best = xla.computed(min, best, value)") - 1
        assert "value = xla.item(loss)" in lines
