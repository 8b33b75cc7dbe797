"""Generated lines are no longer than the project's lines."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from xla_codemods.engine import Options, migrate
from xla_codemods.rewriting.wrapping import wrapped

CASES = {
    "a sum": (
        "        mean = x - xla.narrow(betas, 0, i) / (1 - xla.narrow(alphas, 0, i)).sqrt() * -eps",
        """
        mean = (
            x
            - xla.narrow(betas, 0, i)
            / (1 - xla.narrow(alphas, 0, i)).sqrt()
            * -eps
        )
        """,
    ),
    "a product": (
        "        noise = xla.narrow(deviations, 0, step) * model(sample).sqrt()",
        """
        noise = (
            xla.narrow(deviations, 0, step)
            * model(sample).sqrt()
        )
        """,
    ),
    "arguments": (
        "        xla.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict()}, path)",
        """
        xla.save(
            {
                'model': model.state_dict(),
                'optimizer': optimizer.state_dict(),
            },
            path,
        )
        """,
    ),
    "a lambda": (
        "        xla.later(lambda step=step, loss=loss: print(f'{step} of {len(loader)}: {loss}'))",
        """
        xla.later(
            lambda step=step, loss=loss: print(
                f'{step} of {len(loader)}: {loss}'
            )
        )
        """,
    ),
    "a lambda with many names": (
        "        xla.later(lambda first=first, second=second, third=third: print(first) if third else None)",
        """
        xla.later(
            lambda first=first, second=second, third=third:
                print(first) if third else None
        )
        """,
    ),
    "a lambda with a choice whose test calls": (
        "        xla.later(lambda loss=loss: xla.stop(ValueError(loss)) if not math.isfinite(loss.item()) else None)",
        """
        xla.later(
            lambda loss=loss:
                xla.stop(ValueError(loss))
                if not math.isfinite(loss.item())
                else None
        )
        """,
    ),
    "several values": (
        "        x, y, z = x.to(xla.xla_device(rank)), y.to(xla.xla_device(rank)), z",
        """
        x, y, z = (
            x.to(xla.xla_device(rank)),
            y.to(xla.xla_device(rank)),
            z,
        )
        """,
    ),
    "a choice": (
        "        context = nullcontext() if device == 'cpu' else xla.autocast(dtype=dtype)",
        """
        context = (
            nullcontext()
            if device == 'cpu'
            else xla.autocast(dtype=dtype)
        )
        """,
    ),
    "the header of a loop": (
        "        for batch in tqdm(xla.MpDeviceLoader(loader), total=len(loader)):\n            pass",
        """
        for batch in tqdm(
            xla.MpDeviceLoader(loader), total=len(loader)
        ):
            pass
        """,
    ),
    "a comprehension": (
        "        clip_grad_norm_([p for group in self.groups for p in group], value)",
        """
        clip_grad_norm_(
            [p for group in self.groups for p in group],
            value,
        )
        """,
    ),
}


@pytest.mark.parametrize(("line", "expected"), CASES.values(), ids=CASES)
def test_a_long_line_is_split_at_brackets_and_commas(line: str, expected: str) -> None:
    before = f"if True:\n    if True:\n{line}\n"
    after = wrapped(before, "", 60)
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(before))
    shown = dedent("\n".join(after.splitlines()[2:]))
    assert shown.strip() == dedent(expected).strip()


def test_a_comment_above_a_line_does_not_keep_it_whole() -> None:
    line = "value = function(first_argument, second_argument)"
    split = "value = function(\n    first_argument, second_argument\n)"
    assert wrapped(f"# why\n{line}\n", "", 40) == f"# why\n{split}\n"
    assert wrapped(f"{line}  # why\n", "", 40) == f"{line}  # why\n"


def test_lines_of_the_original_stay() -> None:
    line = "print('a line of the original that is longer than the others are', end='')\n"
    assert wrapped(line, line, 40) == line


@pytest.mark.parametrize(
    "line",
    [
        "run(first_argument, second_argument)  # a comment that explains it\n",
        "text = '''a string\nof several lines''' + other(first_argument, second)\n",
    ],
)
def test_a_line_that_cannot_be_split_safely_stays(line: str) -> None:
    assert wrapped(line, "", 40) == line


def test_a_call_of_several_lines_is_indented_below_its_head() -> None:
    before = (
        "xla.later(lambda step=step, loss=loss, rate=rate: print(\n"
        "    f'{step} {loss}',\n"
        "    rate,\n"
        "))\n"
    )
    assert wrapped(before, "", 50).splitlines() == [
        "xla.later(",
        "    lambda step=step, loss=loss, rate=rate: print(",
        "        f'{step} {loss}',",
        "        rate,",
        "    )",
        ")",
    ]


def test_a_long_row_of_elements_is_split_at_a_comma() -> None:
    before = (
        "trainer = Trainer(\n    accelerator='auto', devices=4, precision=chosen, epochs=[1, 2],\n"
        "    logger=None)\n"
    )
    after = (
        "trainer = Trainer(\n    accelerator='auto', devices=4,\n    precision=chosen,"
        " epochs=[1, 2],\n    logger=None)\n"
    )
    assert wrapped(before, "", 40) == after


@pytest.mark.parametrize(
    "text",
    [
        "call(\n    f(a, b, c)(d, e, f), [\n    x])\n",
        "call((\n    a), f(b, c), d(e, f)\n)\n",
        "call(\n    a.b.c.d.e.f.g.h\n)\n",
    ],
)
def test_a_long_row_that_is_not_of_whole_elements_stays(text: str) -> None:
    assert wrapped(text, "", 10) == text


def test_line_ends_are_kept() -> None:
    after = wrapped("run(first_argument, second_argument, third)\r\n", "", 30)
    assert after.count("\r\n") == after.count("\n") == 5


def test_the_engine_splits_only_if_it_is_asked() -> None:
    source = dedent(
        """
        import torch

        def train(model, loader, optimizer):
            for step, x in enumerate(loader):
                loss = model(x.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print(f"step {step} of {len(loader)} has a loss of {loss.item():.4f}", flush=True)
        """
    ).encode()
    longest = max(map(len, migrate(source).data.decode().splitlines()))
    assert longest > 100
    split = migrate(source, Options(line_length=100)).data.decode()
    assert max(map(len, split.splitlines())) <= 100
    assert migrate(split.encode(), Options(line_length=100)).data.decode() == split


def test_a_line_that_is_no_longer_than_its_original_stays() -> None:
    before = "print('the name of the device', torch.cuda.get_device_name(0), number)\n"
    after = "print('the name of the device', xla.device_name(), number)\n"
    assert wrapped(after, before, 40) == after
    assert wrapped(after, "x = 1\n", 40) != after


def test_lines_that_were_aligned_with_a_bracket_are_aligned_below_the_head() -> None:
    before = (
        "xla.later(lambda a=a, model=model, optimizer=optimizer, rate=rate: save({'model': model,\n"
        "               'rate': rate,\n"
        "               'optimizer': optimizer}, path))\n"
    )
    assert wrapped(before, "", 50).splitlines() == [
        "xla.later(",
        "    lambda a=a, model=model, optimizer=optimizer,",
        "           rate=rate:",
        "        save({'model': model,",
        "              'rate': rate,",
        "              'optimizer': optimizer}, path)",
        ")",
    ]


def test_a_call_with_aligned_arguments() -> None:
    before = "xla.save({'model': model, 'optimizer': optimizer, 'rate': 1},\n           path)\n"
    assert wrapped(before, "", 50).splitlines() == [
        "xla.save(",
        "    {'model': model, 'optimizer': optimizer, 'rate': 1},",
        "    path",
        ")",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "    return [(inputs[0].to(xla.xla_device(index), non_blocking=True),\n"
        "             inputs[1]) for index in range(3)], \\\n"
        "           [names] * len(devices)\n",
        "    x = first(inputs.to(xla.xla_device(index), non_blocking=True))(\n        second,\n        len(third))\n",
    ],
)
def test_rows_whose_last_bracket_is_of_another_call_stay(text: str) -> None:
    text = f"def f():\n{text}"
    assert wrapped(text, "", 40) == text
