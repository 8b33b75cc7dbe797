"""float16 that accelerate is given otherwise than by a literal in the call (XLA802)."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check, migrate

HEAD = "import torch\nfrom accelerate import Accelerator\n"


def found(source: str) -> list[int]:
    return [f.line for f in check((HEAD + source).encode()) if f.code == "XLA802"]


@pytest.mark.parametrize(
    "value",
    [
        '"fp16" if torch.cuda.is_available() else "no"',
        'None if debug else "fp16"',
        'chosen or "fp16"',
        '("no" if debug else "fp16" if big else "bf16")',
    ],
)
def test_a_branch_in_the_call_becomes_bfloat16(value: str) -> None:
    result = migrate((HEAD + f"accelerator = Accelerator(mixed_precision={value})\n").encode())
    text = result.data.decode()
    assert '"fp16" if xla.device_type() == "cuda" else "bf16"' in text
    assert not found(text)


@pytest.mark.parametrize(
    "source",
    [
        'p = "fp16"\na = Accelerator(mixed_precision=p)\n',
        'p = "fp16" if big else "no"\na = Accelerator(mixed_precision=p)\n',
        'options = dict(mixed_precision="fp16")\na = Accelerator(**options)\n',
        'options = {"mixed_precision": "fp16"}\na = Accelerator(**options)\n',
        'class C:\n    precision: str = "fp16"\nc = C()\na = Accelerator(mixed_precision=c.precision)\n',
        'def either(a, b="fp16"):\n    return a or b\na = Accelerator(mixed_precision=either(p))\n',
    ],
)
def test_what_comes_by_a_name_is_reported_where_it_stands(source: str) -> None:
    (line,) = found(source)
    assert '"fp16"' in (HEAD + source).splitlines()[line - 1]
    data = (HEAD + source).encode()
    assert b'"fp16"' in migrate(data).data


@pytest.mark.parametrize(
    ("before", "arguments"),
    [
        ("", 'mixed_precision=getattr(args, "precision", "fp16")'),
        ("return x if x is not None else d", 'mixed_precision=default(p, "fp16" if big else "no")'),
        ("return d() if callable(d) else d", '**{"mixed_precision": default(p, "fp16")}'),
        ("return x or d", 'mixed_precision=default(x=p, d="fp16")'),
        ("return d", 'mixed_precision=default(p, "fp16")'),
    ],
)
def test_nor_what_a_function_hands_back(before: str, arguments: str) -> None:
    define = f"def default(x, d):\n    {before}\n" if before else ""
    data = (HEAD + define + f"a = Accelerator({arguments})\n").encode()
    text = migrate(data).data.decode()
    assert '"fp16" if xla.device_type() == "cuda" else "bf16"' in text
    assert not found(text)


@pytest.mark.parametrize("value", ['"bf16" if big else "no"', "args.mixed_precision", "p"])
def test_what_is_not_float16_is_not(value: str) -> None:
    assert not found(f'p = "bf16"\na = Accelerator(mixed_precision={value})\n')


def test_the_default_of_an_option_is_reported_once() -> None:
    source = (
        "import argparse\nparser = argparse.ArgumentParser()\n"
        'parser.add_argument("--mixed_precision", default="fp16")\nargs = parser.parse_args()\n'
        "a = Accelerator(mixed_precision=args.mixed_precision)\n"
    )
    assert found(source) == [5]


@pytest.mark.parametrize(
    "call",
    [
        'notebook_launcher(train, mixed_precision="fp16")',
        'notebook_launcher(train, (), num_processes=2, mixed_precision="fp16" if half else "no")',
        'accelerate.launchers.notebook_launcher(function=train, mixed_precision="fp16")',
    ],
)
def test_a_launcher_of_notebooks(call: str) -> None:
    head = "import accelerate\nfrom accelerate import notebook_launcher\n\n"
    after = migrate(f"{head}{call}\n".encode()).data.decode()
    assert '"fp16" if xla.device_type() == "cuda" else "bf16"' in after


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("notebook_launcher(train, num_processes=8)", True),
        ("notebook_launcher(train, (), 2)", True),
        ("notebook_launcher(train, (), num_processes=1)", False),
        ("notebook_launcher(train, num_processes=n)", False),
        ("notebook_launcher(train)", False),
    ],
)
def test_a_launcher_of_notebooks_starts_one_process(call: str, named: bool) -> None:
    source = f"from accelerate import notebook_launcher\n{call}\n"
    assert bool(found(source)) is named
