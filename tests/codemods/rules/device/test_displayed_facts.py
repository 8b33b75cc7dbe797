"""Facts of a GPU that a script only displays do not end it on XLA."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ...helpers import findings, migrated

P = "torch.cuda.get_device_properties(0)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"print({P}.multi_processor_count)", "print(xla.device_properties().multi_processor_count)"),
        (f'log.info("%s", {P}.uuid)', 'log.info("%s", xla.device_properties().uuid)'),
        (f'print(f"{{{P}.major}}")', 'print(f"{xla.device_properties().major}")'),
        (f'json.dumps({{"sm": {P}.minor}})', 'json.dumps({"sm": xla.device_properties().minor})'),
        ("print(torch.cuda.temperature())", "print(xla.device_properties().temperature)"),
        ('print(f"{torch.cuda.clock_rate(0)}")', 'print(f"{xla.device_properties().clock_rate}")'),
        (
            'config = {"cap": torch.cuda.get_device_capability()}',
            'config = {"cap": xla.device_capability()}',
        ),
        (
            'print(torch.cuda.memory_stats()["num_ooms"])',
            'print(torch.cuda.memory_stats().get("num_ooms", "n/a"))',
        ),
    ],
)  # fmt: skip
def test_a_displayed_fact_comes_from_the_runtime(before: str, after: str) -> None:
    done = migrated(f"import torch, json, logging\nlog = logging.getLogger()\n{before}\n")
    assert done.splitlines()[-1] == after


def test_a_variable_for_displayed_facts_keeps_its_name() -> None:
    done = migrated(
        f"""\
        import torch
        p = {P}
        print(p.name, p.total_memory / 2**30, f"{{p.major}}.{{p.minor}}", f"{{p.warp_size:d}}")
        """
    )
    assert "p = xla.device_properties()" in done
    assert "print(p.name" in done


@pytest.mark.parametrize(
    ("use", "is_known"),
    [
        ("print(self.env.name, self.env.total_memory)", True),
        ("print(f'{self.env.major}')", True),
        ("self.big = self.env.major > 7", False),
        ("share(self.env)", False),
    ],
)
def test_an_attribute_for_displayed_facts(use: str, is_known: bool) -> None:
    done = migrated(
        f"""\
        import torch
        class Trainer:
            def __init__(self):
                self.env = {P}
            def show(self):
                {use}
        """
    )
    assert ("self.env = xla.device_properties()" in done) is is_known


def test_a_capability_that_is_unpacked_and_displayed() -> None:
    done = migrated(
        """\
        import torch
        major, minor = torch.cuda.get_device_capability()
        print(f"sm_{major}{minor}")
        """
    )
    assert "major, minor = xla.device_capability()" in done


@pytest.mark.parametrize(
    "use",
    [
        f"blocks = {P}.multi_processor_count * 4",
        f"if {P}.major < 7: raise SystemExit",
        f"p = {P}\nprint(p.name)\nwarps = p.warp_size",
        "limit = torch.cuda.temperature() + 5",
        "major, minor = torch.cuda.get_device_capability()\nfast = major * 10 + minor > 75",
    ],
)
def test_a_fact_that_code_computes_with_is_reported_without_a_fix(use: str) -> None:
    source = f"import torch\n{use}\n"
    assert "xla.device_properties" not in migrated(source)
    assert "xla.device_capability" not in migrated(source)
    assert findings(source)


def test_properties_that_select_bfloat16_and_are_displayed() -> None:
    done = migrated(
        f"""\
        import torch
        p = {P}
        dtype = torch.bfloat16 if p.major >= 8 else torch.float32
        print("%d multiprocessors, %.1f GiB" % (p.multi_processor_count, p.total_memory / 2**30))
        """
    )
    assert "p = xla.device_properties()" in done
    assert "dtype = torch.bfloat16 if xla.is_bf16_supported() else torch.float32" in done


def test_properties_that_only_select_bfloat16_are_not_read() -> None:
    done = migrated(f"import torch\np = {P}\nbf16 = p.major >= 8\n")
    assert done.splitlines()[-1] == "bf16 = xla.is_bf16_supported()"
    assert "p =" not in done


@pytest.mark.parametrize(
    ("test", "body"),
    [
        (">= (8, 0)", "torch.backends.cuda.matmul.allow_tf32 = True"),
        ("[0] >= 8", 'torch.set_float32_matmul_precision("high")'),
        ("[0] > 7", "dtype = torch.bfloat16"),
    ],
)
def test_a_capability_that_selects_bfloat16_or_tf32_is_a_query(test: str, body: str) -> None:
    done = migrated(f"import torch\nif torch.cuda.get_device_capability(){test}:\n    {body}\n")
    assert "if xla.is_bf16_supported():" in done


DESCRIBED = """\
import torch
def describe(index=0):
    props = torch.cuda.get_device_properties(index)
    facts = {"sm": props.major, "gb": round(props.total_memory / 2**30, 1)}
    facts["uuid"] = str(props.uuid)
    return facts
def arch():
    return "sm_%s" % ".".join(map(str, torch.cuda.get_device_capability()))
"""


@pytest.mark.parametrize(
    ("use", "is_shown"),
    [
        ("print(describe(), arch())", [True, True]),
        ("for key, value in describe().items():\n    print(key, value)\nlog.info(arch())", [True, True]),
        ("if describe()['gb'] > 8:\n    train()\nbuild(arch())", [False, False]),
        ("build(describe())\nprint(arch())", [False, True]),
        ("tune(sms=describe()['sm'])\nprint({'arch': arch()})", [False, True]),
    ],
)  # fmt: skip
def test_facts_that_functions_return_are_followed_to_where_they_are_displayed(
    use: str, is_shown: list[bool]
) -> None:
    done = migrated(DESCRIBED + use + "\n")
    lines = ["props = xla.", "str, xla.device_capability())"]
    assert [line in done for line in lines] == is_shown


@pytest.mark.parametrize(
    "use",
    [
        "a, b = C\nn = int(f'{a}{b}')",
        "a, b = C\nn = 'sm_%d%d' % (a, b)",
        "def arch():\n    a, b = C\n    return f'{a}{b}'\nn = float(arch())",
        "a, b = C\nfields = {'x': f'{a}'}\nn = int(fields['x'])",
        "a, b = C\nn = {'80': 1}[f'{a}{b}']",
        "n = int(''.join(map(str, C)))",
        "facts = {'x': C}\nn = facts['x'][0] * 10",
        "import math\nn = math.log(P.multi_processor_count)",
        "n = int(str(P.multi_processor_count)) * 2",
    ],
)
def test_a_text_that_code_computes_with_is_reported(use: str) -> None:
    text = use.replace("C", "torch.cuda.get_device_capability()").replace("P", P)
    source = f"import torch\n{text}\n"
    assert migrated(source) == source
    assert [code for _, code in findings(source)] == ["XLA113"]


@pytest.mark.parametrize(
    "use",
    [
        "raise RuntimeError(f'not for {a}.{b}')",
        "assert torch.ones(1).sum() > 0, f'on {a}.{b}'",
        "log.error(f'{a}.{b}')",
        "log.info('%s', a)",
        "log.info('capability %d.%d', a, b)",
        "print('capability %d.%d' % (a, b))",
        "wandb.init(config={'capability': f'{a}.{b}'})",
        "config = dict(capability=f'{a}.{b}')\nwandb.init(config=config)",
        "json.dump({'capability': [a, b]}, file)",
    ],
)
def test_the_text_of_a_message_is_displayed(use: str) -> None:
    done = migrated(f"import torch\na, b = torch.cuda.get_device_capability()\n{use}\n")
    assert "a, b = xla.device_capability()" in done


@pytest.mark.parametrize(
    ("use", "advice"),
    [
        ("assert C[0] >= 7", "delete the assertion, or run it only on CUDA"),
        ("c = C\nassert c >= (7, 0), 'old'", "delete the assertion, or run it only on CUDA"),
        ("match C:\n    case (8, _):\n        pass", "add a branch for XLA, and run the `match` only on CUDA"),
    ],
)  # fmt: skip
def test_what_would_end_the_run_is_reported_with_what_to_do(use: str, advice: str) -> None:
    source = "import torch\n" + use.replace("C", "torch.cuda.get_device_capability()") + "\n"
    (found,) = check(source.encode())
    assert found.message.endswith(advice)
