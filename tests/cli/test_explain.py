"""`xla-migrate explain`."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_codemods.rules import every_rule

from ..each import each
from .conftest import OWN, Runner


@each("rule", every_rule(), ids=lambda rule: rule.code)
def test_every_code_has_its_manual(run: Runner, rule: object) -> None:
    code, name = rule.code, rule.name  # type: ignore[attr-defined]
    by_code = run("explain", code)
    assert by_code.code == 0
    assert by_code.out.startswith(f"{code} {name} (")
    assert run("explain", name).out == run("explain", code.lower()).out == by_code.out


@pytest.mark.parametrize("code", ["XLA001", "XLA002", "XLA003"])
def test_codes_of_the_command_itself(run: Runner, code: str) -> None:
    assert run("explain", code).out.startswith(code)


def test_a_name_has_its_row(run: Runner) -> None:
    out = run("explain", "torch.cuda.Stream").out
    assert out.startswith("torch.cuda.Stream\n\n    on XLA      ")
    assert "if left     raises" in out
    out = run("explain", "torch.cuda.is_available").out
    assert "    - torch.cuda.is_available\n    + xla.is_available()\n" in out
    assert "`xla-migrate explain XLA" in out


def test_a_name_shows_before_and_after(run: Runner) -> None:
    out = run("explain", "torch.cuda.Stream").out
    assert "    -    stream = torch.cuda.Stream()\n" in out or "    -    return make(stream=" in out
    assert "before and after" not in run("explain", "torch.cuda.CUDAGraph").out


def test_arguments_are_rows_of_their_function(run: Runner) -> None:
    out = run("explain", "torch.optim.AdamW").out
    assert "torch.optim.AdamW(fused)\n\n    on XLA      rewritten by XLA304\n" in out
    assert "torch.optim.AdamW(capturable)\n" in out


def test_the_end_of_a_name_is_enough_where_only_one_has_it(run: Runner) -> None:
    assert run("explain", "cudnn.benchmark").out.startswith("torch.backends.cudnn.benchmark\n")
    result = run("explain", "is_available")
    assert result.code == 2
    assert "did you mean `torch.cuda.is_available` or " in result.err


def test_names_that_are_not_cuda_only_name_the_rules_that_look_at_them(run: Runner) -> None:
    out = run("explain", "torch.unique").out
    assert "is not in the catalog; these rules check its uses:\n\n    XLA504 " in out


def test_unknown_things_suggest_the_nearest(run: Runner) -> None:
    for what, hint in [
        ("XLA100", "no rule has the code XLA100; did you mean "),
        ("torch.cuda.is_availabel", "torch.cuda.is_available"),
        ("zzzzzz", "`zzzzzz` is neither a code nor a name in the catalog"),
    ]:
        result = run("explain", what)
        assert (result.code, result.out) == (2, "")
        assert hint in result.err
        assert result.err.count("\n") == 1


def test_a_users_own_name(run: Runner, here: Path) -> None:
    (here / "pyproject.toml").write_text(
        OWN
        + '[tool.xla-migrate.loaders."m.Loader"]\nto = true\nexamples = [{before = "x = 1", after = "x = 1"}]\n'
    )
    assert "becomes     synchronize" in run("explain", "mylib.safe").out
    out = run("explain", "m.Loader").out
    assert "mapped by   tool.xla-migrate.loaders (XLA003)" in out
    assert out.endswith("    - x = 1\n    + x = 1\n")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("XLA10", "XLA101  cuda-method "),  # the beginning of codes
        (".cuda", "torch.Tensor.cuda\n"),
        ("model.cuda()", "torch.Tensor.cuda\n"),
        ("x.half", "x.half\n\nis not in the catalog; these rules check its uses:\n\n    XLA208 "),
        ("torch.cuda.Stream.wait_stream", "torch.cuda.Stream\n"),
        ("torch.cuda._lazy_new", "torch.cuda\n"),
        ("cupy.linalg.norm", "cupy\n"),
        ("torch.utils.checkpoint", "torch.utils.checkpoint\n\nis not in the catalog; these rules check its"),
        ("unique", "torch.unique\n\nis not in the catalog"),
    ],
)  # fmt: skip
def test_other_ways_to_ask(run: Runner, asked: str, said: str) -> None:
    result = run("explain", asked)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(said)


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ("torch.cuda.Strem", "torch.cuda.Stream"),
        ("torch.cuda.sychronize", "torch.cuda.synchronize"),
        ("torch.backends.cudnn.benchmrk", "torch.backends.cudnn.benchmark"),
        ("apex.optimizer.FusedAdam", "apex.optimizers.FusedAdam"),
        ("GradScaler", "torch.GradScaler"),
        (
            "DistributedDataParallel",
            "torch.nn.parallel.DistributedDataParallel",
        ),  # not apex's alone
        ("DataParallel", "torch.nn.DataParallel"),
    ],
)
def test_the_best_suggestion_comes_first(run: Runner, asked: str, first: str) -> None:
    result = run("explain", asked)
    assert result.code == 2
    assert f"; did you mean `{first}`" in result.err


@pytest.mark.parametrize("asked", ["item", "print", "numpy.array", ""])
def test_nothing_is_suggested_for_what_is_far_from_all(run: Runner, asked: str) -> None:
    result = run("explain", asked)
    assert result.code == 2
    assert "did you mean" not in result.err


def test_manuals_name_the_pages_that_they_link(run: Runner) -> None:
    assert "files (docs/launch-files.md)." in run("explain", "XLA616").out
    assert run("explain", "XLA801").out.rstrip().endswith("Facts are listed in docs/facts.md.")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("dist.all_reduce", "torch.distributed.all_reduce"),
        ("mp.spawn", "torch.multiprocessing.spawn"),
        ("nn.DataParallel", "torch.nn.DataParallel"),
    ],
)
def test_usual_names_of_modules_are_known(run: Runner, name: str, meant: str) -> None:
    assert run("explain", name).out.startswith(f"{meant}\n")
