"""`xla-migrate tune`: settings, statistics, the loss gate, prices, what is told, and a real run."""

from __future__ import annotations

import csv
import math
import os
import random
import re
import subprocess
from pathlib import Path

import pytest

from tests import warm
from xla_migrate.cli import main
from xla_migrate.target.tune import page
from xla_migrate.target.tune import text as tune_text
from xla_migrate.target.tune.judge import LEAST, TuneOutcome, apart, judge
from xla_migrate.target.tune.price import Price, PriceError, cost, for_samples, of_instance, read
from xla_migrate.target.tune.settings import Setting, SettingError, combinations, parse
from xla_migrate.target.tune.trials import Trial

# Settings


def test_combinations_have_the_baseline_first() -> None:
    varied = parse(["workers=0,2", "option:batch-size=16,32"])
    names = [setting.name for setting in combinations(varied)]
    assert names == [
        "as it is",
        "workers=0, batch-size=16",
        "workers=0, batch-size=32",
        "workers=2, batch-size=16",
        "workers=2, batch-size=32",
    ]
    alone = [setting.name for setting in combinations(varied, alone=True)]
    assert alone == ["as it is", "workers=0", "workers=2", "batch-size=16", "batch-size=32"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batch_size=1", "unknown setting"),
        ("workers", "needs values"),
        ("option:=1", "unknown setting"),
    ],
)
def test_unknown_settings_are_refused(text: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        parse([text])
    with pytest.raises(SettingError, match="twice"):
        parse(["workers=1", "workers=2"])


def test_a_setting_becomes_variables_and_arguments() -> None:
    setting = Setting(
        (
            ("batches_per_execution", "4"),
            ("optimization", "0"),
            ("option:lr", "0.1"),
            ("env:A", "b"),
        )
    )
    env = {"PJRT_DEVICE": "CPU", "XLA_FLAGS": "--mine"}
    assert setting.environment(env) == {
        "XLA_MIGRATE_BATCHES_PER_EXECUTION": "4",
        "XLA_FLAGS": "--mine --xla_backend_optimization_level=0",
        "A": "b",
    }
    given = ["data", "--lr", "1", "--steps", "3"]
    assert setting.arguments(given) == ["data", "--steps", "3", "--lr", "0.1"]
    assert setting.command("t.py", given, {"PJRT_DEVICE": "CPU"}) == (
        "XLA_MIGRATE_BATCHES_PER_EXECUTION=4 XLA_FLAGS=--xla_backend_optimization_level=0 A=b"
        " python t.py data --steps 3 --lr 0.1"
    )
    neuron = setting.environment({"PJRT_DEVICE": "NEURON"})
    assert neuron["NEURON_CC_FLAGS"] == "-O0"
    with pytest.raises(SettingError, match="PJRT_DEVICE=TPU"):
        setting.environment({"PJRT_DEVICE": "TPU"})


@pytest.mark.parametrize(
    ("value", "before", "after"),
    [
        ("on", [], ["--x"]),
        ("off", ["--x", "--y"], ["--y"]),
        ("2", ["--x=1", "a"], ["a", "--x", "2"]),
    ],
)
def test_options_of_the_script(value: str, before: list[str], after: list[str]) -> None:
    assert Setting((("option:x", value),)).arguments(before) == after


# Judging


def _trial(
    speed: float, name: str = "", losses: list[float] | None = None, batch: int = 4
) -> Trial:
    setting = Setting(((name, "1"),)) if name else Setting()
    noise = random.Random(f"{speed}{name}")
    seconds = [batch / speed * noise.uniform(0.97, 1.03) for _ in range(20)]
    losses = losses or [1 / (1 + n) for n in range(24)]
    return Trial(setting, [batch] * len(losses), list(losses), seconds, device="XLA:CPU")


def _judged(groups: list[list[Trial]], gates: list[Trial] | None = None) -> TuneOutcome:
    return judge(groups, gates or [group[0] for group in groups], 1e-5)


def test_the_fastest_that_trains_alike_wins() -> None:
    outcome = _judged(
        [
            [_trial(s) for s in (100, 90, 95)],
            [_trial(s, "workers") for s in (110, 100, 106)],
            [_trial(s, "env:A") for s in (130, 120, 126)],
        ]
    )
    assert outcome.winner.setting.name == "env:A=1"
    gain = outcome.winner.gain
    assert gain is not None
    assert 1.28 < gain.low < gain.value < gain.high < 1.38
    assert outcome.winner.throughput is not None
    assert outcome.winner.throughput.value == pytest.approx(126, rel=0.02)


def test_nothing_that_trains_differently_wins() -> None:
    others = [1 / (1 + n) + 1e-3 for n in range(24)]
    outcome = _judged([[_trial(100)], [_trial(200, "precision", others)]])
    assert outcome.winner is outcome.results[0]
    different = outcome.faster_but_different
    assert different is not None
    assert not different.alike
    text = "\n".join(tune_text.conclusion(outcome, "t.py", [], {}))
    assert "faster, but it trains differently: precision=1" in text
    assert judge([[_trial(100)], [_trial(200, "precision", others)]],
                 [_trial(100), _trial(200, "precision", others)], 1.0).winner.setting.values  # fmt: skip


def test_a_gain_that_is_not_sure_or_small_is_none() -> None:
    spread = [[_trial(s) for s in (100, 100, 100)], [_trial(s, "workers") for s in (90, 130, 99)]]
    assert _judged(spread).winner.setting.values == ()
    small = (LEAST - 1) / 2 + 1
    close = [[_trial(100)] * 3, [_trial(100 * small, "workers")] * 3]
    assert _judged(close).winner.setting.values == ()


def test_losses_are_compared_at_equal_samples_seen() -> None:
    small = _trial(1, losses=[4.0, 2.0, 1.0, 1.0], batch=2)
    assert apart(small, _trial(1, losses=[3.0, 1.0], batch=4)) == 0.0
    assert apart(small, _trial(1, losses=[3.0, 1.5], batch=4)) == pytest.approx(0.5)
    assert apart(small, _trial(1, losses=[3.0], batch=3)) == math.inf
    assert apart(small, _trial(1, losses=[math.nan, 1.0], batch=4)) == math.inf


def test_failures_lose_and_are_named() -> None:
    broken = Trial(Setting((("workers", "1"),)), failure="exit code 1: boom")
    outcome = _judged([[_trial(100)], [broken]])
    assert outcome.winner is outcome.results[0]
    assert "failed: exit code 1: boom" in "\n".join(tune_text.table(outcome))
    with pytest.raises(ValueError, match="without changed settings failed: exit code 1"):
        _judged([[broken], [broken]])


def test_a_setting_that_nothing_asks_for_is_told() -> None:
    outcome = _judged([[_trial(100)], [_trial(100, "workers")]])
    assert outcome.results[1].remarks == ["workers has no effect here: no code used it"]


def test_a_script_that_differs_from_itself_is_told() -> None:
    other = [1 / (1 + n) + 1e-3 for n in range(24)]
    outcome = _judged([[_trial(100), _trial(100, losses=other)]])
    assert "losses differ from run to run" in outcome.results[0].remarks[0]


# Prices


def test_a_published_price() -> None:
    assert round(cost(24.725, 6033), 2) == 41.43
    price = Price("x", 24.725)
    assert round(for_samples(price, 1e6 / 6033, 1e6), 2) == 41.43
    assert for_samples(Price("y", 24.725, 2.0), 100, 1e6) == for_samples(price, 200, 1e6)


def test_price_files(tmp_path: Path) -> None:
    wanted = [Price("a", 24.725), Price("b.x", 4.0, 0.2)]
    table, text = tmp_path / "p.csv", tmp_path / "p.toml"
    table.write_text("instance, dollars_per_hour, relative_speed\na, 24.725,\nb.x, 4.0, 0.2\n")
    text.write_text(
        "[a]\ndollars_per_hour = 24.725\n['b.x']\ndollars_per_hour = 4\nrelative_speed = 0.2\n"
    )
    assert read(table) == read(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "instance,price\na,1\n",
        "instance,dollars_per_hour\na,-1\n",
        "instance,dollars_per_hour\n,1\n",
    ],
)
def test_bad_price_files(text: str, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(PriceError):
        read(tmp_path / "p.csv")


# Told


def _outcome() -> TuneOutcome:
    return _judged([[_trial(100), _trial(99)], [_trial(130, "workers"), _trial(128, "workers")]])


def test_prices_stand_side_by_side() -> None:
    rows = tune_text.price_rows(_outcome(), [Price("a", 36.0), Price("b", 36.0, 2.0)], 1000)
    assert [row[:2] for row in rows] == [
        ("a", "as it is"), ("a", "workers=1"), ("b", "as it is"), ("b", "workers=1"),
    ]  # fmt: skip
    assert float(rows[0][2]) == pytest.approx(1e6 / 99.5 / 100, rel=0.02)
    assert float(rows[2][2]) == pytest.approx(float(rows[0][2]) / 2, rel=0.02)
    assert tune_text.price_table(rows)[0].split() == [
        "instance",
        "setting",
        "$/million",
        "samples",
        "$/epoch",
    ]


def test_prices_of_one_instance_type() -> None:
    prices = [Price("ml.trn1.32xlarge", 24.7), Price("ml.trn1.2xlarge", 1.5)]
    assert of_instance(prices, "trn1.32xlarge") == prices[:1]
    with pytest.raises(PriceError, match="no price of trn2"):
        of_instance(prices, "trn2.48xlarge")


def test_what_does_not_transfer_names_the_machine() -> None:
    told = tune_text.conclusion(_outcome(), "t.py", [], {}, "trn1.32xlarge")
    assert "measured on XLA:CPU; on trn1.32xlarge, these results differ:" in told


def test_the_csv_has_a_row_per_setting() -> None:
    rows = list(csv.DictReader(tune_text.as_csv(_outcome()).splitlines()))
    assert [row["workers"] for row in rows] == ["", "1"]
    assert [row["winner"] for row in rows] == ["0", "1"]
    assert float(rows[1]["gain"]) > 1.2


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    outcome = _outcome()
    conclusion = tune_text.conclusion(outcome, "<t>.py", ["--a", "1 < 2"], {})
    about = page.About("<t>.py", ["--a", "1 < 2"], "2 rounds", conclusion, [("a", "b", "1", "2")])
    page.save(outcome, about, tmp_path / "p.html")
    text = (tmp_path / "p.html").read_text()
    assert "<t>" not in text
    assert not re.search(r"https?://|<script|<link|@import", text)
    assert text.count("<svg") == 5  # three charts, two of them drawn again for narrow screens
    assert "XLA:CPU" in text
    (tmp_path / "p.html").write_text("mine")
    with pytest.raises(FileExistsError):
        page.save(outcome, about, tmp_path / "p.html")


@pytest.mark.parametrize(
    "words",
    [
        ["none.py", "--vary", "workers=1"],
        [__file__, "--vary", "none=1"],
        [__file__, "--vary", "workers=1", "--repeats", "0"],
        [__file__, "--vary", f"workers={','.join(map(str, range(40)))}"],
        [__file__, "--vary", "workers=1", "--price", "/none.csv"],
        [__file__, "--vary", "workers=1", "--for", "p4d.24xlarge"],
        [__file__],
    ],
)
def test_wrong_usage(words: list[str]) -> None:
    assert main(["tune", *words]) == 2


SCRIPT = """\
import argparse, time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--pause", type=float, default=0.2)
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()
torch.manual_seed(0)
data = TensorDataset(torch.randn(400, 8), torch.arange(400) % 3)
model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 3)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
for x, y in DataLoader(data, batch_size=8):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
    time.sleep(args.pause)
"""


@pytest.mark.e2e
def test_a_real_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    words = (
        "--vary option:pause=0.1,0.01 --vary option:lr=0.1,0.3 --steps 12 --warmup 4 --repeats 2"
    )
    done = subprocess.run(
        [
            warm.choosing(),
            "-m",
            "xla_migrate",
            "tune",
            "train.py",
            *words.split(),
            "--csv",
            "t.csv",
        ],
        cwd=tmp_path,
        env={**os.environ, "XLA_MIGRATE_BACKEND": "eager"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    assert "winner: pause=0.01, lr=0.1" in done.stdout
    assert "keep it: python train.py --pause 0.01 --lr 0.1" in done.stdout
    rows = list(csv.DictReader((tmp_path / "t.csv").open()))
    alike = {(row["option:pause"], row["option:lr"]): row["alike"] for row in rows}
    assert alike == {("", ""): "1", ("0.1", "0.1"): "1", ("0.01", "0.1"): "1",
                     ("0.1", "0.3"): "0", ("0.01", "0.3"): "0"}  # fmt: skip
    assert float(rows[3]["gain"]) > 1.3
    (page,) = re.findall(r"^page: (\S+\.html)", done.stdout, re.MULTILINE)
    assert "lr=0.1" in Path(page).read_text()
    assert not list(tmp_path.glob("*.html"))
    assert (tmp_path / "train.py").read_text() == SCRIPT
