"""Texts that reads are put into, and that are kept: they are on their way, too."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ....helpers import migrated
from .scripts import SCRIPT


def _script(line: str, last: str = "pass") -> str:
    return SCRIPT.format(line=line.replace("\n", "\n        "), last=last)


def _after(line: str, last: str = "pass") -> list[str]:
    return [text.strip() for text in migrated(_script(line, last)).splitlines()]


TEXT = "text = xla.computed(lambda loss=loss: f'{loss.item():.4f}')"
PRINTED = "xla.later(lambda text=text: print(text))"


@pytest.mark.parametrize(
    ("line", "last", "after"),
    [
        ("text = f'{loss.item():.4f}'\nprint(text)", "pass", [TEXT, PRINTED]),
        ("text = f'{loss.item():.4f}'\nprint(text)\nlogger.info(text)", "pass", [PRINTED, "xla.later(lambda text=text: logger.info(text))"]),
        ("text = f'{loss:.4f}'\nprint(text)", "pass", ["text = xla.computed(lambda loss=loss: f'{loss:.4f}')", PRINTED]),
        ("text = '%d %.4f' % (step, loss.item())\nbar.set_description(text)", "pass", ["text = xla.computed(lambda step=step, loss=loss: '%d %.4f' % (step, loss.item()))", "xla.later(lambda text=text: bar.set_description(text))"]),
        ("text = '{:.4f}'.format(loss.item())\ntqdm.write(text)", "pass", ["text = xla.computed(lambda loss=loss: '{:.4f}'.format(loss.item()))"]),
        ("text = 'loss ' + str(round(loss.item(), 4)) + '!'\nprint(text)", "pass", ["text = xla.computed(lambda loss=loss: 'loss ' + str(round(loss.item(), 4)) + '!')"]),
        ("text = f'{step}'\ntext += f' {loss.item():.4f}'\nif step % 9 == 0: text += ' ninth'\nprint(text)", "pass", ["text += xla.computed(lambda loss=loss: f' {loss.item():.4f}')", PRINTED]),
        ("text = f'{loss.item():.4f}'\nprint(f'{step}: {text}')", "pass", ["xla.later(lambda step=step, text=text: print(f'{step}: {text}'))"]),
        ("text = f'{loss.item():.4f}'\nlong = f'{step}: {text}'\nprint(long)", "pass", ["long = xla.computed(lambda step=step, text=text: f'{step}: {text}')"]),
        ("value = loss.item()\ntext = f'{value:.4f}'\nprint(text, value)", "pass", ["text = xla.computed(lambda value=value: f'{value:.4f}')", "xla.later(lambda text=text, value=value: print(text, value))"]),
        ("text = 'high' if loss.item() > 9 else 'low'\nprint(text)", "pass", ["text = xla.computed(lambda loss=loss: 'high' if loss.item() > 9 else 'low')"]),
        ("text = f'{loss.item():.4f}' if step else 'first'\nprint(text)", "pass", [PRINTED]),
        ("names.append(f'{loss.item():.4f}')", "print(len(names)); out.write(' '.join(names))", ["names.append(xla.computed(lambda loss=loss: f'{loss.item():.4f}'))", "print(len(names)); out.write(' '.join(xla.arrived(names)))"]),
        ("parts = [f'{step}']\nparts.append(f'{loss.item():.4f}')\nprint(' '.join(parts))", "pass", ["xla.later(lambda parts=parts: print(' '.join(parts)))"]),
        ("row = {'a': loss.item()}\ntext = ' '.join(f'{k} {v:.4f}' for k, v in row.items())\nprint(text)", "pass", ["text = xla.computed(lambda row=row: ' '.join(f'{k} {v:.4f}' for k, v in row.items()))", PRINTED]),
        ("text = f'{loss.item():.4f}'", "print(text)", [TEXT, "print(text)"]),
        ("text = f'{loss.item():.4f}'", "return text", [TEXT, "return xla.arrived(text)"]),
        ("text = f'{loss.item():.4f}'", "out.write(text)", [TEXT, "out.write(xla.arrived(text))"]),
        ("text = f'{loss.item():.4f}'", "print(text.upper(), 'nan' in text)", [TEXT, "print(xla.arrived(text).upper(), 'nan' in xla.arrived(text))"]),
        ("text = f'{loss.item():.4f}'\nif step % 9 == 0: tqdm.write(text)", "pass", [TEXT, "if step % 9 == 0: tqdm.write(xla.arrived(text))"]),
    ],
)  # fmt: skip
def test_texts_are_on_their_way(line: str, last: str, after: list[str]) -> None:
    lines = _after(line, last)
    for expected in after:
        assert expected in lines
    assert not [text for text in lines if ".item()" in text and "lambda" not in text]


@pytest.mark.parametrize(
    ("line", "last", "why"),
    [
        ("text = f'{loss.item()}'\nother.log(text)", "pass", "not known what `other.log` does with it"),
        ("text = f'{loss.item()}'\nif text.startswith('n'): names.append(step)", "pass", "the result decides what runs next"),
        ("text = f'{loss.item()}'\nargs.text = text", "pass", "it is stored in `args.text`"),
        ("text = f'{loss.item()} {output.mean()}'\nprint(text)", "pass", "`output.mean()` itself is printed"),
        ("text = f'{loss.item()} {meter}'\nprint(text)", "pass", "may change before that"),
        ("names.append(f'{loss.item()}')\nif names[-1] == names[0]: other.stop()", "pass", "the result decides what runs next"),
        ("try:\n    text = f'{int(loss.item())}'\nexcept ValueError: text = ''", "print(text)", "its exceptions are caught"),
    ],
)  # fmt: skip
def test_texts_that_are_asked_for_stay(line: str, last: str, why: str) -> None:
    source = _script(line, last)
    after = migrated(source)
    for spelled in ("xla.item", "xla.later", "xla.computed", "xla.arrived"):
        assert spelled not in after
    said = [f.message for f in check(source.encode()) if f.code == "XLA503"]
    assert any(why in message for message in said), said


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("print(loss.detach().cpu().numpy())", "xla.later(lambda loss=loss: print(loss.detach().cpu().numpy()))"),
        ("print(step, output.argmax(1).tolist())", "xla.later(lambda step=step, argmax=output.argmax(1): print(step, argmax.tolist()))"),
        ("bar.set_description('{:.3f}'.format(loss.cpu().detach().numpy()))", "xla.later(lambda loss=loss: bar.set_description('{:.3f}'.format(loss.cpu().detach().numpy())))"),
        ("text = f'{loss.data.cpu().numpy():.3f}'\nprint(text)", "text = xla.computed(lambda data=loss.data: f'{data.cpu().numpy():.3f}')"),
        ("writer.add_scalar('loss', loss.detach().cpu().numpy(), step)", "xla.later(lambda loss=loss, step=step: writer.add_scalar('loss', loss.detach().cpu().numpy(), step))"),
        ("print(loss.item(), stats['kl'].item())", "xla.later(lambda loss=loss, item=xla.item(stats['kl']): print(loss.item(), item))"),
        ("text = f'{loss.item():.3f} {stats[0].item():.3f}'\nprint(text)", "text = xla.computed(lambda loss=loss, item=xla.item(stats[0]): f'{loss.item():.3f} {item:.3f}')"),
    ],
)  # fmt: skip
def test_values_of_copies_on_the_host_are_shown_later(line: str, after: str) -> None:
    lines = _after(line)
    assert after in lines
    assert "xla.mark_step()" not in lines


@pytest.mark.parametrize("line", ["print(output.cpu())", "rows = output.tolist()\nprint(rows)", "print(loss.item(), stats['kl'].item() if step else 0)"])  # fmt: skip
def test_values_that_a_copy_shows_otherwise_stay(line: str) -> None:
    assert line.split("\n")[0] in _after(line)
