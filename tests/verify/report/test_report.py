"""The result for people and for programs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.verify.traces import PARAMETERS, run
from xla_migrate.verify.judge.blame import MigrationFinding
from xla_migrate.verify.judge.compare import compare
from xla_migrate.verify.judge.compilations import Compilation
from xla_migrate.verify.judge.failures import Failure, Fault
from xla_migrate.verify.judge.judgement import Check, Judgement, Status
from xla_migrate.verify.judge.observed import ObservedRun
from xla_migrate.verify.judge.trace import OptimizerStep, Read
from xla_migrate.verify.report import Report, as_json, here_and_now, page, text
from xla_migrate.verify.report.explanations import advice, meaning
from xla_migrate.verify.report.facts import Conclusion
from xla_migrate.verify.report.plots import Chart, Line, draw, number

BEFORE, AFTER = "x.cuda()\nprint(a < b)\n", "x.to(device)\nprint(a < b)\n"
FINDINGS = [
    MigrationFinding(
        "XLA405", "train.py", 1, "labels <move>", True, "labels = y.cuda()", {"loss": 0}
    )
]


def report(target: ObservedRun | None = None, reference: ObservedRun | None = None) -> Report:
    target = target or run(side="target")
    target.traces[0].compiled = [
        Compilation("user torch_xla.sync", "train.py:2", 10 * n) for n in range(2)
    ]
    comparison = compare(reference or run(), target)
    settings = {"steps": "6", "tolerance": "1e-05"}
    return Report(
        comparison,
        "train.py",
        settings,
        FINDINGS,
        {"train.py": (BEFORE, AFTER)},
        ["--name", "'<b>'"],
    )


def differing() -> Report:
    return report(run([1.0, 0.9, 0.85, 0.7, 0.6, 0.5], side="target"))


def failing(fault: Fault, side: int = 0) -> Report:
    runs = [run(), run(side="target")]
    runs[side].failure = Failure(fault, "main.py:3: ValueError: <no>", "Traceback\n  <main.py>")
    return report(runs[1], runs[0])


class Strict(HTMLParser):
    """Fails where tags do not nest; collects what could be fetched from elsewhere."""

    VOID = ("meta", "br", "line", "path", "circle")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [v or "" for k, v in attrs if k in ("src", "href", "data", "action")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize(
    "made", [report(), differing(), failing(Fault.SCRIPT), failing(Fault.SCRIPT, 1)]
)
def test_the_page_is_well_formed_and_needs_nothing_from_elsewhere(made: Report) -> None:
    html = page.page(made)
    parser = Strict()
    parser.feed(html)
    assert parser.open == []
    assert parser.links == []
    assert not {"link", "img", "iframe"} & set(parser.tags)
    assert not re.search(r"url\(|@import|https?:", html)
    assert "prefers-color-scheme: dark" in html


def test_the_page_shows_curves_difference_times_and_diff() -> None:
    html = page.page(report(run([1.0, 0.9, 0.8, 0.7, 0.6, 0.5000001], side="target")))
    assert "5 of 6 losses are equal to the last bit (on the floor of the scale)" in html
    assert html.count("<svg") == 8  # four charts, for wide and for narrow screens
    for heading in (
        "Verdicts",
        "Loss of each step",
        "logarithmic scale",
        "Time of each step",
        "Per step, after warm-up",
        "What was changed",
    ):
        assert heading in html
    assert '<span class="removed">-x.cuda()</span>' in html
    assert '<span class="added">+x.to(device)</span>' in html
    assert "step 1: 1 compilation<" in html
    assert "allowed 1e-05" in html


def test_losses_that_are_all_equal_need_no_chart_of_their_difference() -> None:
    html = page.page(report())
    assert html.count("<svg") == 6
    assert "6 of 6 losses are equal to the last bit<" in html


def test_every_optimizer_has_a_connected_curve_of_its_own() -> None:
    def of_two(step: OptimizerStep) -> None:
        step.optimizer = step.event % 2

    two = dict.fromkeys((0, 1), PARAMETERS)
    made = report(
        run(side="target", change=of_two, parameters=two), run(change=of_two, parameters=two)
    )
    html = page.page(made)
    assert "Loss of each step: optimizer 1 (SGD, train.py:9)" in html
    assert "Loss of each step: optimizer 2" in html
    curves = re.findall(r'<g class="target"><path d="([^"]+)"', html)[:2]
    assert [(path.count("M"), path.count("L")) for path in curves] == [(1, 2), (1, 2)]


def test_what_was_taken_from_the_originals_weights_is_drawn_beside_what_was_left_alone() -> None:
    parted = run([1.0, 0.9, 0.81, 0.7, 0.6, 0.5], side="target")
    followed = run(), run([1.0, 0.9, 0.8000001, 0.7, 0.6, 0.5], side="target")
    made = Report(compare(run(), parted, followed=followed), "train.py", {"tolerance": "1e-05"})
    html = page.page(made)
    assert made.status == "proven"
    assert "left alone</span>" in html
    assert "each step from the original&#x27;s weights</span>" in html


def test_of_several_processes_the_page_says_which_is_shown() -> None:
    made = report()
    for run_ in (made.comparison.reference, made.comparison.target):
        run_.traces = run_.traces * 2
    assert "all 2 processes were compared and judged; steps, curves and times" in page.page(made)
    assert made.compilations() == [("user torch_xla.sync", "train.py:2", 4)]


def test_the_page_escapes_what_it_shows() -> None:
    html = page.page(differing())
    assert "&#x27;&lt;b&gt;&#x27;" in html
    assert "labels &lt;move&gt;" in html
    assert "<b>'" not in html
    assert "&lt;no&gt;" in page.page(failing(Fault.SCRIPT))


def test_the_page_points_to_the_first_difference() -> None:
    html = page.page(differing())
    assert "First difference" in html
    assert "step 3: loss: 0.8 in the original, 0.85" in html
    assert "first difference" in html  # in the chart
    assert "XLA405" in html


def test_a_page_of_ours_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    page.save(report(), path)
    page.save(differing(), path)
    assert "First difference" in path.read_text()
    path.write_text("<html>mine</html>")
    with pytest.raises(FileExistsError, match="is not a report of xla-migrate"):
        page.save(report(), path)
    assert path.read_text() == "<html>mine</html>"


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    "values",
    [
        [1.0],
        [0.0, 0.0],
        [1.0, None, 3.0],
        [math.nan, 2.0],
        [math.inf, 1.0],
        [-1.0, 5.0],
        [1e-30, 1e30],
    ],
)
def test_charts_of_odd_values_stay_inside(values: list[float | None], log: bool) -> None:
    svg = draw(Chart("loss", (Line("a", "target", values),), log=log, limit=("at", 1e-5)))
    for y in map(float, re.findall(r'cy="([^"]+)"', svg)):
        assert 0 <= y <= 260
    assert "nan" not in svg.replace("infinite", "").lower().split("<title>")[0]


def test_a_chart_of_nothing_says_so() -> None:
    assert "nothing to draw" in draw(Chart("loss", (Line("a", "target", [None]),)))


def test_long_curves_keep_their_extremes() -> None:
    values: list[float | None] = [1.0] * 20_000
    values[12_345] = 9.0
    svg = draw(Chart("loss", (Line("a", "target", values),)))
    assert len(svg) < 40_000
    heights = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", svg)]
    assert min(heights) < 30 < max(heights)


def test_the_terminal_shows_steps_verdicts_and_the_last_word() -> None:
    lines = text.lines(report())
    assert lines[0].split() == ["step", "original", "migrated", "difference", "gradient", "norm"]
    assert lines[1].split() == ["1", "1", "1", "0.0e+00", "0.0e+00"]
    assert any(line.startswith("ok     static shapes") for line in lines)
    assert lines[-3:-1] == [
        "proven: train.py trains the same, 6 steps alike",
        "original: train.py as it is on disk",
    ]


def test_gradients_that_are_rounding_are_not_called_different_and_nothing_is_blamed() -> None:
    runs = run(), run(side="target")
    for size, one in enumerate(runs, 1):
        for step in one.traces[0].steps:
            step.gradients = [size * 1e-7, size * 2e-7]
    made = report(runs[1], runs[0])
    assert made.status is Conclusion.NOT_PROVEN
    lines = text.lines(made)
    assert any(line.startswith("not proven: numbers; first at step 1") for line in lines)
    assert not any("most likely" in line for line in lines)


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("made", [report, differing])
def test_the_terminal_is_not_too_narrow(made: Callable[[], Report], width: int) -> None:
    lines = text.lines(made(), width)
    assert max(map(len, lines)) <= width
    assert "".join("".join(lines).split()) == "".join("".join(text.lines(made())).split())
    assert max(map(len, text.lines(made()))) > 60


def test_findings_and_checks_name_lines_of_the_same_file() -> None:
    before = "import torch\nlabels = load()\n"
    files = {"train.py": (before, before.replace("\n", "\nimport xla\n", 1))}
    left = MigrationFinding("XLA405", "train.py", 2, "labels", True, behind={"loss": 0})
    made = replace(differing(), files=files, findings=[left])
    assert [finding.line for _, finding in made.suspects()] == [3]


def test_the_terminal_names_step_place_and_finding() -> None:
    lines = text.lines(differing())
    assert "differs: numbers; first at step 3" in lines
    assert any("FAILED numbers" in line and "[train.py:18]" in line for line in lines)
    assert any(
        line
        == "most likely cause of `numbers`: train.py:1: XLA405 (needs a manual change) labels <move>"
        for line in lines
    )


def test_of_many_steps_the_ends_and_the_worst_are_shown() -> None:
    losses = [2.0 - n / 1000 for n in range(500)]
    other = list(losses)
    other[300] += 1.0
    lines = text.lines(report(run(other, side="target"), run(losses)))
    numbers = [line.split()[0] for line in lines if re.match(r" *\d+ ", line)]
    assert numbers == [
        "1",
        "2",
        "3",
        "4",
        "5",
        "300",
        "301",
        "302",
        "496",
        "497",
        "498",
        "499",
        "500",
    ]
    assert sum(line.strip() == "..." for line in lines) == 2


@pytest.mark.parametrize(
    ("fault", "side", "whose"),
    [
        ("script", 0, "could not run the original (its own error)"),
        ("network", 0, "could not run the original (it needs the network)"),
        ("harness", 0, "could not run the original (a fault of xla-migrate verify)"),
        ("script", 1, "could not run the migrated script (the migration"),
    ],
)
def test_whose_fault_it_is(fault: str, side: int, whose: str) -> None:
    made = failing(Fault(fault), side)
    assert made.exit_code == 2
    lines = text.lines(made)
    assert lines[0] == f"the {('original', 'migrated script')[side]}'s own error:"
    assert lines[-1].startswith(whose)
    assert lines[-1].endswith("main.py:3: ValueError: <no>")


@pytest.mark.parametrize(
    ("processes", "source", "is_told"),
    [
        ("1", "assert torch.cuda.device_count() > 1\n", True),
        ("2", "assert torch.cuda.device_count() > 1\n", False),
        ("1", "assert len(data) > 1\n", False),
    ],
)
def test_an_original_that_counts_devices_and_fails_is_shown_two(
    processes: str, source: str, is_told: bool
) -> None:
    made = failing(Fault.SCRIPT)
    made.comparison.reference.traces.clear()
    made.settings["processes"] = processes
    made = replace(made, files={"train.py": (source, source)})
    assert ("`--nproc 2` shows it two" in "\n".join(text.lines(made))) == is_told


def test_json_has_finite_numbers_alone() -> None:
    made = report(run([1.0, math.nan, 0.8, 0.7, 0.6, math.inf], side="target"))
    plain = as_json.plain(made)
    told = json.loads(json.dumps(plain, allow_nan=False))
    assert told["steps"][1]["target"] == "nan"
    assert (told["status"], told["exit_code"], told["proven"]) == ("differs", 1, False)
    assert told["divergence"]["step"] == 2
    numbers = next(v for v in told["verdicts"] if v["name"] == "numbers")
    assert numbers["finding"]["code"] == "XLA405"
    assert told["compilations"] == [
        {"cause": "user torch_xla.sync", "where": "train.py:2", "times": 2}
    ]


def test_files_that_were_not_loaded_are_behind_nothing() -> None:
    """Scripts that lie side by side are one project: `numbers` of one is not another's fault."""
    made = replace(differing(), script="other.py")
    assert [finding.path for _, finding in made.suspects()] == ["train.py"]  # nothing known
    made.comparison.reference.traces[0].loaded = ["other.py"]
    assert made.suspects() == []
    made.comparison.reference.traces[0].loaded = ["examples/train.py"]
    assert replace(made, script="examples/train.py").suspects() == []  # another train.py
    made.comparison.target.traces[0].loaded = ["train.py"]
    assert [finding.path for _, finding in made.suspects()] == ["train.py"]


def test_reads_of_one_line_are_one_row_though_lines_moved() -> None:
    def reads(where: str) -> ObservedRun:
        def change(step: OptimizerStep) -> None:
            step.reads = [Read(where, "item()", 2)]

        return run(side="reference" if where.endswith("1") else "target", change=change)

    made = report(reads("train.py:2"), reads("train.py:1"))
    moved = Report(made.comparison, "train.py", files={"train.py": ("a\nb\n", "new\na\nb\n")})
    assert [(row.where, a, b) for row, a, b in moved.reads()] == [("train.py:1", 2.0, 2.0)]


@pytest.mark.parametrize(
    ("made", "code"),
    [(report(), 0), (differing(), 1), (failing(Fault.SCRIPT), 2), (failing(Fault.NO_STEP, 1), 2)],
)
def test_exit_codes(made: Report, code: int) -> None:
    assert made.exit_code == code


def test_the_data_is_in_the_page_and_is_never_run() -> None:
    made = report(run([1.0, math.nan, 0.8, 0.7, 0.6, 0.5], side="target"))
    found = re.findall(r"<script([^>]*)>(.*?)</script>", page.page(made), re.DOTALL)
    ((attributes, data),) = found
    assert attributes == ' type="application/json" id="xla-migrate-report"'
    assert json.loads(data) == json.loads(json.dumps(as_json.plain(made)))
    assert "<" not in data  # what a script's argument says cannot end it


def test_the_page_says_who_made_it_and_how_to_repeat_it() -> None:
    made = replace(report(), origin=here_and_now(["verify", "a b.py", "--", "--x"]))
    shown = page.page(made)
    assert made.origin.command == "xla-migrate verify 'a b.py' -- --x"
    for text_of in (made.origin.version, made.origin.date, made.origin.host):
        assert text_of
        assert escape(text_of) in shown
    assert escape(made.origin.command) in shown
    assert as_json.plain(made)["made"]["command"] == made.origin.command


def test_each_check_is_explained_and_has_advice() -> None:
    for check in Check:
        assert meaning(check)
        assert advice(check)
    shown = page.page(differing())
    assert escape(advice(Check.NUMBERS)) in shown
    assert f"Expected: {escape(meaning(Check.NUMBERS))}" in shown
    assert escape(advice(Check.LAUNCHES)) not in shown  # it is good


def test_tensors_are_told_the_worst_first() -> None:
    def change(step: OptimizerStep) -> None:
        step.gradients = [1.0, 0.75]

    made = report(run(side="target", change=change))
    shown = page.page(made)
    assert "2 tensors: the gradients of 2 and the weights of 1 were compared" in shown
    assert made.comparison.tensors[0].name == "0.bias"
    assert made.comparison.tensors[0].gradient == pytest.approx(0.25 / math.hypot(1, 0.5))
    assert [t["name"] for t in as_json.plain(made)["tensors"]] == ["0.bias", "0.weight"]


def test_verdicts_of_others_count_and_are_shown() -> None:
    further = [
        Judgement("compiles for TPU", Status.FAILED, "<no> such layout", "train.py:7"),
        Judgement("fits a TPU", Status.OK, "1 GB of 16"),
    ]
    made = replace(report(), further=further)
    assert (made.status, made.exit_code) == ("differs", 1)
    assert "differs: compiles for TPU" in text.lines(made)
    assert "&lt;no&gt; such layout" in page.page(made)
    told = as_json.plain(made)
    assert [v["name"] for v in told["verdicts"]][-2:] == ["compiles for TPU", "fits a TPU"]
    assert not told["proven"]
    assert replace(report(), further=further[1:]).status == "proven"


def test_the_diff_shows_what_the_script_loaded() -> None:
    made = report()
    changed = {"model.py": ("a = 1", "a = 2"), "unused.py": ("b = 1", "b = 2")}
    made = replace(made, files={**made.files, **changed})
    made.comparison.target.traces[0].loaded = ["model.py", "train.py"]
    shown = page.page(made)
    assert "a = 2" in shown
    assert "b = 2" not in shown
    assert "also changed, but not loaded by this script: <code>unused.py</code>" in shown


def test_a_logarithmic_scale_reads_evenly() -> None:
    told = [number(x) for x in (1e-8, 1e-5, 1e-4, 2.5e-4, 1e-3, 0.25, 0.0, 10.0, 1e4)]
    assert told == ["1e-8", "1e-5", "1e-4", "2.5e-4", "0.001", "0.25", "0", "10", "1e4"]


def test_a_script_that_trains_the_same_and_recompiles_does_not_differ() -> None:
    slow = Judgement(Check.STATIC_SHAPES, Status.FAILED, "5 compilations after warm-up")
    settings = {"original": "train.py.orig", "precision": "float32", "dropout": "off"}
    files = {"train.py": ("nn.Dropout()\nx.half()\n", "")}
    made = replace(report(), further=[slow], settings=settings, files=files)
    assert (made.status, made.exit_code) == (Conclusion.PROVEN, 1)
    last = text.lines(made)[-5:]
    assert last[0].startswith("proven: train.py trains the same")
    assert last[1] == "original: train.py.orig"
    assert last[2] == "compared in float32, autocast off, dropout off, 6 steps, 1 process"
    assert last[3].endswith("add `--precision bfloat16`, `--dropout same`")
    assert last[4] == "slow on XLA: static shapes"
    plain = as_json.plain(made)
    assert (plain["status"], plain["slow"], plain["different"]) == ("proven", ["static shapes"], [])


def test_numbers_and_speed_that_both_fail_are_two_verdicts() -> None:
    failed = [
        Judgement(Check.NUMBERS, Status.FAILED, "step 3"),
        Judgement(Check.HOST_READS, Status.FAILED, "2.00 per step"),
    ]
    made = replace(report(), further=failed, settings={})
    assert text.lines(made)[-2:] == ["differs: numbers", "slow on XLA: host reads"]


@pytest.mark.parametrize(
    ("source", "more", "suggested"),
    [
        ("nn.Linear(2, 2)", {}, ""),
        ("nn.Dropout(0.1)", {}, "`--dropout same`"),
        ("with torch.autocast('cuda'): pass", {}, "`--precision bfloat16`"),
        ("with torch.autocast('cuda'): pass", {"reference": "gpu.rec"}, ""),
        ("import timm\nmodel.half()", {}, "`--precision bfloat16`, `--dropout same`"),
        ("dist.init_process_group('nccl')", {}, "`--nproc 2`"),
        ("dist.init_process_group('nccl')", {"processes": "2"}, ""),
        ("accelerator = Accelerator()", {}, "`--nproc 2`"),
        ("Accelerator(fsdp_plugin=p)", {}, "`--nproc 2`"),
    ],
)
def test_what_the_script_has_is_suggested(
    source: str, more: dict[str, str], suggested: str
) -> None:
    settings = {"precision": "float32", "dropout": "off", "processes": "1", **more}
    made = replace(report(), settings=settings, files={"train.py": (source, source)})
    assert made.not_covered == suggested
