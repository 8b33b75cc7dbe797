"""What a job's container finds and starts, from requests that were kept: no SDK, no torch."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from xla_migrate.cli import main
from xla_migrate.target.sagemaker.container import RequestError, lay_out
from xla_migrate.target.sagemaker.rehearse import advice
from xla_migrate.target.sagemaker.start import namespace, start

SCRIPT = """\
import json, os, sys
told = {"argv": sys.argv[1:], "env": {k: v for k, v in os.environ.items() if k.startswith(("SM_", "PJRT", "NEURON", "AWS"))}}
open(os.path.join(os.environ["SM_MODEL_DIR"], "told.json"), "w").write(json.dumps(told))
sys.exit(int(os.environ.get("FAIL", "0")))
"""


def kept(folder: Path, distributed: bool = False, **more: Any) -> Path:
    """A folder as `capture` leaves it, of the SDK v2."""
    with io.BytesIO() as buffer:
        with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
            info = tarfile.TarInfo("train.py")
            info.size = len(SCRIPT)
            tar.addfile(info, io.BytesIO(SCRIPT.encode()))
        archive = buffer.getvalue()
    (folder / "s3" / "b" / "job").mkdir(parents=True)
    (folder / "s3" / "b" / "job" / "sourcedir.tar.gz").write_bytes(archive)
    (folder / "s3" / "b" / "data").mkdir()
    (folder / "s3" / "b" / "data" / "x.csv").write_text("1")
    request: dict[str, Any] = {
        "TrainingJobName": "job-1",
        "ResourceConfig": {"InstanceType": "ml.trn1.32xlarge", "InstanceCount": 1},
        "HyperParameters": {
            "epochs": "2",
            "name": '"a b"',
            "flag": "true",
            "where": '"/opt/ml/checkpoints"',
            "sagemaker_program": '"train.py"',
            "sagemaker_submit_directory": '"s3://b/job/sourcedir.tar.gz"',
            "sagemaker_torch_distributed_enabled": json.dumps(distributed),
        },
        "InputDataConfig": [
            {"ChannelName": "train", "DataSource": {"S3DataSource": {"S3Uri": "s3://b/data"}}},
            {"ChannelName": "test", "DataSource": {"S3DataSource": {"S3Uri": "s3://b/none"}}},
        ],
        "Environment": {"NEURON_CC_FLAGS": "-O1", "PJRT_DEVICE": "NEURON"},
    }
    (folder / "request.json").write_text(json.dumps({**request, **more}))
    return folder


def test_a_container_is_laid_out(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (tmp_path / "mine").mkdir()
    out = kept(tmp_path / "out" if (tmp_path / "out").mkdir() is None else tmp_path)
    found = lay_out(str(out), str(root), 2, {"test": str(tmp_path / "mine")})
    assert Path(found.path("code", "train.py")).read_text() == SCRIPT
    assert Path(found.path("input", "data", "train", "x.csv")).read_text() == "1"
    assert os.path.realpath(found.path("input", "data", "test")) == str(tmp_path / "mine")
    assert found.hyperparameters == {
        "epochs": 2,
        "name": "a b",
        "flag": True,
        "where": "/opt/ml/checkpoints",
    }
    with open(found.path("input", "config", "resourceconfig.json")) as file:
        assert json.load(file)["current_instance_type"] == "ml.trn1.32xlarge"


def test_what_differs_from_sagemaker_is_said(tmp_path: Path) -> None:
    more = {"ResourceConfig": {"InstanceType": "ml.trn1.32xlarge", "InstanceCount": 2}}
    notes = "\n".join(lay_out(str(kept(tmp_path, **more)), str(tmp_path / "root"), 2, {}).notes)
    assert "the channel test (s3://b/none) is empty here: pass its data with --input" in notes
    assert "the job has 2 hosts: the rehearsal uses one host" in notes
    assert "SDK v2 uploads no driver" in notes


def test_requests_without_code_and_inputs_without_channel(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(RequestError, match="names no script"):
        lay_out(str(kept(tmp_path / "a", HyperParameters={})), str(tmp_path / "r1"), 2, {})
    (tmp_path / "b").mkdir()
    with pytest.raises(RequestError, match="no channel of that name"):
        lay_out(str(kept(tmp_path / "b")), str(tmp_path / "r2"), 2, {"other": "/"})


@pytest.mark.parametrize("private", [True, False])
def test_the_script_is_started_with_what_the_job_gives(
    private: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    found = lay_out(str(kept(tmp_path)), str(tmp_path / "root"), 2, {})
    if not private and namespace(found):
        pytest.skip(f"/opt/ml cannot be had: {namespace(found)}")
    assert start(found, 2, private, 60) == 0
    told = json.loads(Path(found.path("model", "told.json")).read_text())
    here = found.path().rstrip("/") if private else "/opt/ml"
    assert told["argv"] == [
        "--epochs", "2", "--name", "a b", "--flag", "True", "--where", f"{here}/checkpoints",
    ]  # fmt: skip
    env = told["env"]
    assert (env["PJRT_DEVICE"], env["NEURON_CC_FLAGS"]) == ("CPU", "-O1")
    assert (env["SM_NUM_NEURONS"], env["SM_NUM_GPUS"]) == ("2", "0")
    assert env["SM_CHANNEL_TRAIN"] == f"{here}/input/data/train"
    assert not [name for name in env if name.startswith("AWS")]
    assert not os.path.exists(found.path("output", "failure"))


def test_a_failing_script_leaves_failure_and_its_exit_code(tmp_path: Path) -> None:
    found = lay_out(str(kept(tmp_path, Environment={"FAIL": "3"})), str(tmp_path / "root"), 2, {})
    assert start(found, 2, True, 60) == 3
    assert (
        Path(found.path("output", "failure")).read_text() == "ExecuteUserScriptError:\nExitCode 3\n"
    )


def test_what_is_said_of_a_request() -> None:
    request = {
        "ResourceConfig": {"InstanceType": "ml.p4d.24xlarge"},
        "Environment": {"NEURON_CC_FLAGS": "-O2", "RUN_NEURON_PARALLEL_COMPILE": "1"},
        "EnableManagedSpotTraining": True,
    }
    said = "\n".join(advice(request, {"NEURON_CC_FLAGS": "--optlevel=1", "PJRT_DEVICE": "NEURON"}))
    for text in (
        "ml.p4d.24xlarge has no XLA device",
        "the request has NEURON_CC_FLAGS=-O2; the settings say NEURON_CC_FLAGS=--optlevel=1",
        "the request has no PJRT_DEVICE; the settings say PJRT_DEVICE=NEURON",
        "such a job compiles and does not train",
        "spot instances without checkpoints",
    ):
        assert text in said
    assert advice({"ResourceConfig": {"InstanceType": "ml.trn1.2xlarge"}}, {}) == []


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["rehearse", "gone.py"], "gone.py is not a Python script"),
        (["rehearse", "here.py", "--replicas", "0"], "--replicas must be at least 1"),
        (["rehearse", "here.py", "--sdk-python", "/none"], "/none cannot be run"),
        (["rehearse", "here.py", "--input", "x"], "--input x: must be CHANNEL=FOLDER"),
        (["start"], "unknown value `start`"),
    ],
)
def test_wrong_usage_is_one_line(
    words: list[str],
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.py").write_text("")
    assert main(["sagemaker", *words]) == 2
    told = capsys.readouterr().err
    assert line in told
    assert told.count("\n") == 1
