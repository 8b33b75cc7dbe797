"""`xla-migrate verify` on the command line; what it compares has tests of its own in tests/verify."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.verify import traces
from xla_migrate.cli import verify
from xla_migrate.cli.verify_arguments import parse
from xla_migrate.target.compile import interpreter, judged
from xla_migrate.verify.experiments import proof
from xla_migrate.verify.judge.failures import Failure, Fault
from xla_migrate.verify.judge.judgement import Judgement, Status
from xla_migrate.verify.judge.observed import ObservedRun

from .conftest import CUDA, Runner

SCRIPT = """\
import sys
import torch
from torch import nn

model = nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=float(sys.argv[1]))
while True:
    x = torch.randn(8, 4).cuda()
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture(autouse=True)
def _pages_in_the_tests_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


WRONG = [
    ([], "verify takes one script"),
    (["a.py", "b.py"], "verify takes one script"),
    (["gone.py"], "gone.py: no such script"),
    (["."], ".: a folder: name the script first"),
    (
        ["--epochs", "1", "a.py"],
        "verify has no option --epochs (see `xla-migrate verify --help`); the script's own",
    ),
    (["a.py", "--steps"], "--steps needs a value"),
    (["a.py", "--steps", "few"], "--steps must be a number, not 'few'"),
    (["a.py", "--steps", "0"], "--steps must be more than 0, not 0"),
    (["a.py", "--tolerance=nan"], "--tolerance must be more than 0, not nan"),
    (["a.py", "--timeout=-1"], "--timeout must be more than 0, not -1"),
    (["a.py", "--precision=half"], "--precision: unknown value `half`"),
    (["a.py", "--dropout", "on"], "--dropout: unknown value `on`"),
    (["a.py", "--metric", "("], "--metric (: "),
    (["a.py", "--data-shim", "gone.py"], "--data-shim gone.py: no such file"),
    (["a.py", "--migrated", "gone.py"], "--migrated gone.py: no such file"),
    (["a.py", "--keep", "."], "--keep .: not an empty folder"),
    (["a.py", "--for", "v9"], "--for v9: v9: unknown TPU; known TPUs: v4, v5e"),
    (["bad.py"], "bad.py:1:7: XLA001 invalid syntax"),
]


@pytest.mark.parametrize(("words", "message"), WRONG)
def test_wrong_usage(run: Runner, here: Path, words: list[str], message: str) -> None:
    (here / "a.py").write_text("")
    (here / "bad.py").write_text("def f(:  # torch")
    result = run("verify", *words)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"xla-migrate: {message}")


def test_help(run: Runner) -> None:
    assert run("verify", "--help").out.startswith("usage: xla-migrate verify SCRIPT [options] [-- ")


def test_arguments() -> None:
    asked = parse(
        [__file__, "--steps=5", "--metric", r"acc (\S+)", "--no-report", "--", "--steps", "9"]
    )
    assert (asked.request.steps, asked.request.metric, asked.report) == (5, r"acc (\S+)", None)
    assert asked.request.args == ("--steps", "9")
    assert not asked.writing


def test_with_verify_the_commands_own_options_are_kept_for_it() -> None:
    words = [__file__, "models", "--verify", "--quiet", "--unsafe", "--steps", "5", "--", "x"]
    asked = parse(words, writing=True)
    assert [str(path) for path in asked.paths] == [__file__, "models"]
    assert asked.command == ["--quiet", "--unsafe"]
    assert (asked.request.steps, asked.request.args, asked.unsafe) == (5, ("x",), True)


def made_up(
    monkeypatch: pytest.MonkeyPatch,
    losses: list[float] | None = None,
    failure: Failure | None = None,
) -> list[dict[str, Any]]:
    """Runs that are not run: of the original the usual losses, of the migrated script these."""
    calls: list[dict[str, Any]] = []

    def observe(script: Path, args: list[str], **options: Any) -> ObservedRun:
        calls.append({"script": script, "args": args, **options})
        target = options.get("side") == "target"
        out = traces.run(losses, side="target") if target and losses else None
        out = out or traces.run(side="target" if target else "reference")
        out.failure = failure if not target else None
        return out

    monkeypatch.setattr(proof, "observe", observe)
    return calls


def test_both_sides_are_run_alike(run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = made_up(monkeypatch)
    (here / "train.py").write_text(SCRIPT)
    result = run("verify", "train.py", "--steps", "6", "--dropout=same", "--timeout=9", "--", "0.1")
    assert result.code == 0, result.err
    reference, target = calls
    for call in calls:
        assert call["args"] == ("0.1",)
        assert (call["steps"], call["dropout"], call["timeout"]) == (6, "same", 9.0)
        assert call["precision"] == "float32"
    assert not reference["replace"]
    assert b"xla_device()" in target["replace"]["train.py"]


def test_a_torch_that_does_not_match_is_told_before_anything_runs(
    run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = made_up(monkeypatch)
    monkeypatch.setattr(metadata, "version", {"torch": "2.14.1+cpu", "torch_xla": "2.9.0"}.get)
    (here / "train.py").write_text(SCRIPT)
    result = run("verify", "train.py", "--")
    assert result.code == 2
    assert (
        "torch 2.14.1+cpu and torch_xla 2.9.0 do not match: pip install 'torch==2.9.*'"
        in result.err
    )
    assert not calls


def test_bfloat16_takes_the_reference_twice(
    run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = made_up(monkeypatch)
    (here / "train.py").write_text(SCRIPT)
    run("verify", "train.py", "--precision=bfloat16")
    assert [(c.get("side", "reference"), c["precision"]) for c in calls] == [
        ("reference", "bfloat16"),
        ("reference", "float32"),
        ("target", "bfloat16"),
    ]


def test_an_r_that_chance_may_have_made_is_taken_over_more_trainings(
    run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = {"float32": [1.0, 0.9, 0.8, 0.7], "bfloat16": [1.0, 0.901, 0.799, 0.701]}
    calls: list[tuple[str, int]] = []

    def observe(script: Path, args: list[str], **options: Any) -> ObservedRun:
        side, shake = options.get("side", "reference"), options.get("shake", 0)
        calls.append((side if side == "target" else options["precision"], shake))
        if side == "reference":
            return traces.run(losses[options["precision"]])
        far = 1.0019 if shake == 0 else 1.0003  # once more than the original errs, then less
        return traces.run([1.0, 0.9 * far, 0.8 / far, 0.7 * far], side="target")

    monkeypatch.setattr(proof, "observe", observe)
    (here / "train.py").write_text(SCRIPT)
    result = run("verify", "train.py", "--precision=bfloat16")
    assert [shake for _, shake in calls[:9]] == [0] * 3 + [1] * 3 + [2] * 3
    assert {kind for kind, _ in calls} == {"float32", "bfloat16", "target"}
    assert "of 3 trainings with other rounding" in result.out


def more_runs(calls: list[dict[str, Any]]) -> list[str]:
    """What was run besides the two; first one that keeps its weights, then some that take them.

    The runs that look for the first wrong module are left out.
    """
    told = []
    for call in calls[2:]:
        if call["details"]:
            continue
        weights = "keep" if call["keep"] else "follow"
        exactly = call["arithmetic"] == "float64"
        how = "float64" if exactly else "errors" if call["roughness"] else "float32"
        told.append(f"{call.get('side', 'reference')} {weights} {how}")
    return told


FOLLOWED = ["reference keep float32", "target follow float32"]
EXACT = ["reference follow float64", "target follow float64"]


def test_each_step_is_taken_from_the_originals_weights_where_that_is_asked_for(
    run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = made_up(monkeypatch)
    (here / "train.py").write_text(SCRIPT)
    run("verify", "train.py", "--amplification")
    assert more_runs(calls) == FOLLOWED


@pytest.mark.parametrize(
    ("losses", "more"),
    [
        ([1.0, 0.9, 0.8, 0.7, 0.6, 0.5], []),
        ([1.0, 0.9, 0.8001, 0.7, 0.6, 0.5], FOLLOWED + EXACT),
        ([1.0, 0.9, 0.95, 0.7, 0.6, 0.5], FOLLOWED),  # within one step, that is no rounding
        ([1.0001, 0.9, 0.8, 0.7, 0.6, 0.5], EXACT),  # the first step alone, in float64, differs
        ([1.2, 0.9, 0.8, 0.7, 0.6, 0.5], []),  # at once: no training has amplified it
    ],
)
def test_amplification_is_looked_at_where_it_may_explain_the_difference(
    run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch, losses: list[float], more: list[str]
) -> None:
    calls = made_up(monkeypatch, losses)
    (here / "train.py").write_text(SCRIPT)
    result = run("verify", "train.py")
    assert more_runs(calls) == more
    assert result.code == int(losses != [1.0, 0.9, 0.8, 0.7, 0.6, 0.5])


def test_what_agrees_in_float64_is_compared_with_errors_in_every_operation(
    run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = made_up(monkeypatch)
    plain = proof.observe

    def observe(*args: Any, **options: Any) -> ObservedRun:
        out: ObservedRun = plain(*args, **options)
        off = options["side"] == "target" and options["arithmetic"] != "float64"
        by = 2e-4 if off else options["roughness"] * 100
        out.traces[0].steps[0].losses = [1 + by]
        return out

    monkeypatch.setattr(proof, "observe", observe)
    (here / "train.py").write_text(SCRIPT)
    result = run("verify", "train.py")
    assert more_runs(calls) == [*EXACT, *FOLLOWED, *EXACT, "reference follow errors"]
    assert result.code == 0, result.out
    assert "0.2 times what errors of 1e-05 in every operation" in result.out


@pytest.mark.parametrize(
    ("losses", "looked_for"),
    [([1.0, 0.9, 0.8, 0.7, 0.6, 0.5], False), ([1.2, 0.9, 0.8, 0.7, 0.6, 0.5], True)],
)
def test_the_first_wrong_module_is_looked_for_if_the_numbers_differ(
    run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch, losses: list[float], looked_for: bool
) -> None:
    calls = made_up(monkeypatch, losses)
    (here / "train.py").write_text(SCRIPT)
    run("verify", "train.py")
    detailed = [call for call in calls if call["details"]]
    assert [call["side"] for call in detailed] == (["reference", "target"] if looked_for else [])
    assert all(call["steps"] == 2 and call["precision"] == "float32" for call in detailed)


def test_where_the_original_fails_the_migrated_script_is_not_run(
    run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = made_up(monkeypatch, failure=Failure(Fault.NETWORK, "main.py:9: URLError: no"))
    (here / "train.py").write_text(SCRIPT)
    result = run("verify", "train.py")
    assert len(calls) == 1
    assert result.code == 2
    last = "could not run the original (it needs the network): main.py:9: URLError: no"
    assert last in result.out.splitlines()


def test_a_migration_by_hand_is_compared_in_place_of_ours(
    run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = made_up(monkeypatch)
    (here / "train.py").write_text(SCRIPT)
    (here / "mine.py").write_text("# mine\n")
    run("verify", "train.py", "--migrated", "mine.py")
    assert calls[1]["replace"] == {"train.py": b"# mine\n"}


def test_the_page_is_written_and_named(
    run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up(monkeypatch)
    (here / "train.py").write_text(SCRIPT)
    result = run("verify", "train.py", "--report=other.html")
    assert result.out.splitlines()[-1] == "report: other.html"
    assert (here / "other.html").read_text().startswith("<!doctype html>")


def test_what_the_tpu_compiler_says_is_part_of_the_proof(
    run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up(monkeypatch)
    (here / "train.py").write_text(SCRIPT)
    monkeypatch.setattr(interpreter, "find", lambda given: None)
    asked: list[Any] = []

    def compiled(script: Path, args: Any, target: str, files: Any, options: Any) -> Any:
        asked.append((script.name, tuple(args), target, list(files)))
        return [Judgement("compiled for v5e", Status.FAILED, "too large", "train.py:5")]

    monkeypatch.setattr(judged, "judged", compiled)
    done = run("verify", "train.py", "--for", "v5e", "--no-report", "--", "0.1")
    assert asked == [("train.py", ("0.1",), "v5e", ["train.py"])]
    assert "FAILED compiled for v5e  too large" in done.out
    assert "[train.py:4]" in done.out  # of the script as it is
    assert done.code == 1


def test_unasked_the_page_does_not_go_into_the_project(
    run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made_up(monkeypatch)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (here / "train.py").write_text(SCRIPT)
    name, _, place = run("verify", "train.py").out.splitlines()[-1].partition(": ")
    assert name == "report"
    assert Path(place).parent == tmp_path
    assert Path(place).read_text().startswith("<!doctype html>")
    assert [path.name for path in here.iterdir()] == ["train.py"]


def test_no_page_is_left_where_nothing_could_be_run(
    run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up(monkeypatch)
    (here / "train.py").write_text(SCRIPT)
    assert run("verify", "train.py", "--report=page.html").code == 0
    made_up(monkeypatch, failure=Failure(Fault.NETWORK, "no data"))
    result = run("verify", "train.py", "--report=page.html")
    assert result.code == 2
    assert "report:" not in result.out
    assert not (here / "page.html").exists()  # the earlier one would be believed


def test_who_ends_us_ends_the_runs_too() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with verify._ended_in_order(), pytest.raises(SystemExit) as leaving:
        signal.raise_signal(signal.SIGTERM)
    assert leaving.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_notebook_runs_as_its_cells(
    run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = made_up(monkeypatch)
    cells = [{"cell_type": "code", "source": text} for text in ("%matplotlib inline", SCRIPT)]
    for cell in cells:
        cell |= {"metadata": {}, "outputs": []}
    (here / "train.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}}))
    assert run("verify", "train.ipynb", "--no-report").code == 0
    before, after = (call["replace"]["train.ipynb"] for call in calls)
    assert "pass  # %matplotlib inline" in before
    assert "nn.Linear(4, 2).cuda()" in before
    assert "xla_device()" in after


def test_a_notebook_with_an_unknown_magic_is_refused_in_one_line(run: Runner, here: Path) -> None:
    cells = [{"cell_type": "code", "source": "%sql select 1", "metadata": {}, "outputs": []}]
    (here / "train.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}}))
    result = run("verify", "train.ipynb")
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "xla-migrate: train.ipynb: cell 1: verify does not run the magic %sql: remove the line\n"
    )


def test_somebody_elses_report_stays(
    run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up(monkeypatch)
    (here / "train.py").write_text(SCRIPT)
    (here / "report.html").write_text("mine")
    result = run("verify", "train.py", "--report=report.html")
    assert result.code == 0
    assert "is not a report of xla-migrate" in result.err
    assert (here / "report.html").read_text() == "mine"


def test_no_report(run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_up(monkeypatch)
    (here / "train.py").write_text(SCRIPT)
    run("verify", "train.py", "--no-report")
    assert not (here / "report.html").exists()


def test_findings_in_other_files_are_known(
    run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up(monkeypatch, [1.0, 0.9, 0.85, 0.7, 0.6, 0.5])
    (here / "train.py").write_text(SCRIPT)
    result = run("verify", "train.py", "--output-format=json")
    numbers = next(v for v in json.loads(result.out)["verdicts"] if v["name"] == "numbers")
    assert result.code == 1
    assert numbers["finding"]["path"] == "train.py"
    assert numbers["finding"]["code"].startswith("XLA")


class TestVerifyThenWrite:
    """`xla-migrate train.py --verify`: written is what is proven."""

    def test_what_is_proven_is_written(
        self, run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls = made_up(monkeypatch)
        (here / "train.py").write_text(SCRIPT)
        result = run("train.py", "--verify", "--", "0.1")
        assert result.code == 0, result.err
        assert calls[1]["replace"]["train.py"] == (here / "train.py").read_bytes()
        assert b"xla_device()" in calls[1]["replace"]["train.py"]

    def test_what_differs_is_not(
        self, run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made_up(monkeypatch, [1.0, 0.9, 0.85, 0.7, 0.6, 0.5])
        (here / "train.py").write_text(SCRIPT)
        result = run("train.py", "--verify")
        assert result.code == 1
        assert (here / "train.py").read_text() == SCRIPT
        assert "not proven, so nothing was written" in result.err

    def test_what_could_not_be_run_is_not(
        self, run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made_up(monkeypatch, failure=Failure(Fault.SCRIPT, "no"))
        (here / "train.py").write_text(SCRIPT)
        assert run("train.py", "--verify").code == 2
        assert (here / "train.py").read_text() == SCRIPT

    def test_unless_told(self, run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        made_up(monkeypatch, [1.0, 0.9, 0.85, 0.7, 0.6, 0.5])
        (here / "train.py").write_text(SCRIPT)
        assert run("train.py", "--verify", "--even-unproven").code == 1
        assert "xla_device()" in (here / "train.py").read_text()

    def test_only_what_is_named_is_proven_and_written(
        self, run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls = made_up(monkeypatch)
        (here / "train.py").write_text(SCRIPT)
        (here / "other.py").write_text(CUDA)
        run("train.py", "--verify")
        assert set(calls[1]["replace"]) == {"train.py"}
        assert (here / "other.py").read_text() == CUDA

    @pytest.mark.parametrize(
        "words",
        [
            ["train.py", "--verify", "--select", "XLA1"],
            ["train.py", "--select=XLA1", "--verify"],
            ["--select", "XLA1", "train.py", "--verify"],
            ["--verify", "--ignore", "XLA5", "--jobs", "1", "train.py"],
            ["train.py", "--fail-on", "speed", "--verify", "--select", "XLA1,XLA2"],
        ],
    )
    def test_values_of_the_commands_options_are_no_paths(
        self, run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
    ) -> None:
        """What is proven and written is what the options say."""
        calls = made_up(monkeypatch)
        (here / "train.py").write_text(SCRIPT)
        result = run(*words)
        assert result.code in (0, 1), result.err  # 1: what was not selected is left
        assert "could not" not in result.err
        assert calls[1]["replace"]["train.py"] == (here / "train.py").read_bytes()
        assert b"xla_device()" in calls[1]["replace"]["train.py"]
        assert b"optimizer_step" not in calls[1]["replace"]["train.py"]

    @pytest.mark.parametrize(
        "words",
        [
            ["verify", "train.py", "--style", "native", "--", "0.1"],
            ["verify", "train.py", "--style=native"],
            ["train.py", "--verify", "--style", "native", "--", "0.1"],
        ],
    )
    def test_the_style_is_that_of_what_is_proven(
        self, run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
    ) -> None:
        calls = made_up(monkeypatch)
        (here / "train.py").write_text(SCRIPT)
        result = run(*words)
        assert result.code in (0, 1), result.err
        proven = calls[1]["replace"]["train.py"]
        assert b"import torch_xla" in proven
        assert b"from xla_migrate" not in proven
        if "--verify" in words:
            assert proven == (here / "train.py").read_bytes()

    def test_files_that_change_meanwhile_are_left(
        self, run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (here / "train.py").write_text(SCRIPT)
        later = SCRIPT + "print(torch.ones(1).cuda())\n"

        def observe(*args: Any, **options: Any) -> ObservedRun:
            (here / "train.py").write_text(later)
            return traces.run(side=options.get("side", "reference"))

        monkeypatch.setattr(proof, "observe", observe)
        result = run("train.py", "--verify")
        assert result.code == 2
        assert "files changed during the verification" in result.err
        assert (here / "train.py").read_text() == later

    def test_verify_behind_the_dashes_is_the_scripts(self, run: Runner, here: Path) -> None:
        (here / "train.py").write_text(SCRIPT)
        assert (
            run("train.py", "--", "--verify").code == 2
        )  # a path of that name, which is not there


def really(*words: str) -> subprocess.CompletedProcess[str]:
    """`verify` in a process, which starts others."""
    command = [warm.choosing(), "-m", "xla_migrate", "verify", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.e2e
def test_a_script_is_proven(here: Path) -> None:
    pytest.importorskip("torch_xla")
    (here / "train.py").write_text(SCRIPT)
    done = really("train.py", "--steps", "4", "--output-format=json", "--", "0.1")
    report = json.loads(done.stdout)
    assert done.returncode == 0, report["message"]
    assert report["proven"]
    assert len(report["steps"]) == 4
    assert (here / "train.py").read_text() == SCRIPT


@pytest.mark.e2e
def test_the_scripts_own_error_is_told_as_such(here: Path) -> None:
    (here / "train.py").write_text(SCRIPT)
    done = really("train.py", "--steps", "2", "--", "fast")
    assert done.returncode == 2
    assert "the original's own error:" in done.stdout
    last = done.stdout.splitlines()[-1]
    assert "could not convert string to float" in last
    assert last.startswith("could not run the original (its own error): ")
