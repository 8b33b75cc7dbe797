"""What is shown is made later, spelling by spelling."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ....helpers import migrated
from .scripts import BOTH, SCRIPT, after_migration, migrated_lines


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
        ("print(f'{loss.cpu().data.numpy():.4f}')", "loss=loss"),
        ("tqdm.write(f'{loss.item():.4f}', file=sys.stderr)", "loss=loss"),
        ("sys.stdout.write('\\r[%d] loss %f' % (step, loss.item()))", BOTH),
        ("sys.stderr.write('loss {:.3f}'.format(loss.item()))", "loss=loss"),
        ("print(loss.item(), args.name, len(batches))", "loss=loss"),
    ],
)
def test_shown_later(line: str, bound: str) -> None:
    assert f"xla.later(lambda {bound}: {line})" in after_migration(line)


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
        (
            "print('{:04d}'.format(step + 1), loss.item())",
            "xla.later(lambda loss=loss, value='{:04d}'.format(step + 1): print(value, loss.item()))",
        ),
        (
            "print({'a': time.time()}['a'], loss.item())",
            "xla.later(lambda loss=loss, a={'a': time.time()}['a']: print(a, loss.item()))",
        ),
    ],
)
def test_what_is_of_now_is_computed_now(line: str, after: str) -> None:
    start = "start = time.time()\n" if "start" in line else ""
    assert after in after_migration(start + line)


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
    assert any("xla.later(" in after for after in after_migration(line))


@pytest.mark.parametrize(
    ("kinds", "is_later"),
    [
        ("ZeroDivisionError", False),
        ("(KeyError, OverflowError)", False),
        ("KeyboardInterrupt", True),
        ("Exception", True),  # which ends the training, whatever has failed
    ],
)
def test_what_is_caught_around_the_loop(kinds: str, is_later: bool) -> None:
    source = SCRIPT.format(line="print(step, 1 / loss.item())", last="pass")
    head, loop, body = source.partition("    for step, (x, y)")
    body = f"{loop}{body}".replace("\n", "\n    ").rstrip()
    source = f"{head}    try:\n    {body}\n    except {kinds}:\n        print(step)\n"
    assert ("xla.later(" in migrated(source)) is is_later


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
        (f"{ROW}\nprint(' '.join(f'{{k}} {{step}}' for k in row if k in names))", "print(' '.join(f'{k} {step}' for k in row if k in names))"),
        ("history.append(loss.item())\nprint(np.mean(history))", "xla.later(lambda history=history: print(np.mean(history)))"),
        ("history.append(loss.item())\nprint(sum(history[-9:]))", "xla.later(lambda history=history[-9:]: print(sum(history)))"),
        ("history.append((step, loss.item()))\nprint(history[-1])", "xla.later(lambda history=history[-1]: print(history))"),
        ("history.append({'loss': loss.item()})\nif step % 9 == 0: print(history)", "if step % 9 == 0: print(history)"),
        ("recent = deque(maxlen=9)\nrecent.append(loss.item())\nprint(np.mean(recent))", "xla.later(lambda recent=recent: print(np.mean(recent)))"),
        ("row = {k: v.item() for k, v in {'a': loss, 'b': output.mean()}.items()}\nprint(row)", "xla.later(lambda row=row: print(row))"),
        ("row = [v.item() for v in accuracy(output, y)]\nprint(row)", "xla.later(lambda row=row: print(row))"),
        ("a, b = loss.item(), output.mean().item()\nprint(a, b)", "xla.later(lambda a=a, b=b: print(a, b))"),
        ("kept['a'].append(loss.item())\nprint(np.mean(kept['a']))", "xla.later(lambda a=kept['a']: print(np.mean(a)))"),
    ],
)  # fmt: skip
def test_what_holds_numbers_is_shown_later(line: str, after: str) -> None:
    assert after in after_migration(line)


def test_sums_that_are_shown_in_every_step_are_shown_later() -> None:
    after = after_migration("total += loss.item()\nbar.set_postfix(loss=total / (step + 1))")
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
        assert "step), to=writer)" in migrated(other)


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
    after = after_migration(line)
    assert any(shown in text for text in after)
    assert not [f for f in check("\n".join(migrated_lines(line)).encode()) if f.code == "XLA503"]


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
    "objects", ["[meter, worst]", "(meter, other)", "{'a': meter}", "[[meter]]", "{'a': [worst]}"]
)
def test_objects_in_a_list_may_change_until_then(objects: str) -> None:
    after = after_migration(f"both = {objects}\nprint(step, both, loss.item())")
    assert "print(step, both, loss.item())" in after


@pytest.mark.parametrize(
    ("line", "last"),
    [
        ("names.append(loss.item())", "print(f'{sum(names)=}')"),
        ("names.append(loss.item())", "print(f'{len(names)} {max(names) / 3 = :.3f}')"),
    ],
)
def test_a_text_that_shows_how_it_is_spelled_stays(line: str, last: str) -> None:
    after = after_migration(line, last)
    assert line in after
    assert last in after


RUN = """
import torch
from tqdm import tqdm

class Run:
    def __init__(self, batches):
        self.batches, self.log = batches, Log()

    def epoch(self, model, optimizer):
        self.bar = tqdm(self.batches)
        for step, x in enumerate(self.bar):
            loss = model(x.cuda()).mean()
            loss.backward()
            optimizer.step()
            {line}
"""


def test_an_object_that_is_another_in_the_next_epoch_is_that_of_now() -> None:
    after = migrated(RUN.format(line="self.bar.set_postfix(loss=loss.item())"))
    told = "xla.later(lambda loss=loss, bar=self.bar: bar.set_postfix(loss=loss.item()))"
    assert told in after
    after = migrated(RUN.format(line="self.logger.info('%d %f', step, loss.item())"))
    told = "xla.later(lambda step=step, loss=loss: self.logger.info('%d %f', step, loss.item()))"
    assert told in after


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("mean = np.mean(history)", "mean = xla.computed(lambda history=history: np.mean(history))"),
        ("mean = sum(history[-9:]) / 9", "mean = xla.computed(lambda history=history: sum(history[-9:])) / 9"),
        ("mean = sum(history) / len(history)", "mean = xla.computed(lambda history=history: sum(history)) / len(history)"),
        ("mean = np.median(history[step - 3 : step])", "mean = xla.computed(lambda history=history, step=step: np.median(history[step - 3 : step]))"),
        ("mean = round(min(history), 3)", "mean = xla.computed(round, xla.computed(lambda history=history: min(history)), 3)"),
    ],
)  # fmt: skip
def test_means_that_are_kept_in_every_step(line: str, after: str) -> None:
    lines = after_migration(f"history.append(loss.item())\n{line}\nprint(f'{{mean:.3f}}')")
    assert "history.append(xla.item(loss))" in lines
    assert after in lines
    assert "xla.later(lambda mean=mean: print(f'{mean:.3f}'))" in lines


@pytest.mark.parametrize(
    "line",
    [
        "mean = np.mean(history)\nif mean < 0.1: break",
        "mean = np.mean(history, axis=0)\nprint(mean)",
        "mean = np.mean(sorted(history))\nprint(mean)",
        "sum = args.sum\nmean = sum(history)\nprint(mean)",
        "order = np.argsort(history)\nprint(order)",
    ],
)
def test_means_that_are_asked_for_in_every_step(line: str) -> None:
    assert "history.append(loss.item())" in after_migration(f"history.append(loss.item())\n{line}")


def test_comments_of_what_is_asked_later_stay() -> None:
    lines = migrated_lines("if torch.isnan(loss):  # why\n    # how\n    print('nan')  # so")
    at = next(k for k, line in enumerate(lines) if "print('nan')" in line)
    assert [line.strip() for line in lines[at - 3 : at]] == ["# why", "# how", "# so"]


def test_a_number_that_a_list_gets_with_a_read_tensor_is_read_later_too() -> None:
    source = """
import torch

def train(model, optimizer, loader):
    log = []
    for x in loader:
        out = model(x.cuda())
        loss = out.mean()
        loss.backward()
        optimizer.step()
        log.append((loss.item() / 2, out[0].tolist()))
    print(log)
"""
    later = "xla.later(lambda loss=loss, out=out[0]: log.append((loss.item() / 2, out.tolist())))"
    assert later in migrated(source)
