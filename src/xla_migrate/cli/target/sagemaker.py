"""`xla-migrate sagemaker rehearse launch.py`: the request of a launch script, and its job on XLA:CPU, without AWS."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from ...settings import SettingsError
from ..subparser import SubcommandParser
from ..usage import fail


def main(words: Sequence[str]) -> int:
    """Do what the arguments say; the exit code: 0, that of the job, or 2.

    Raises:
        SystemExit: wrong usage.
    """
    own, rest = list(words), []
    if "--" in own:
        at = own.index("--")
        own, rest = own[:at], own[at + 1 :]
    return _rehearse(_parser().parse_args(own), rest)


def _parser() -> argparse.ArgumentParser:
    parser = SubcommandParser(
        prog="xla-migrate sagemaker",
        description="Capture the request that a launch script sends to SageMaker, and run its job on XLA:CPU.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    rehearse = commands.add_parser(
        "rehearse",
        help="capture the training job's request, and run the job here",
        description="Run the launch script with a mock of AWS until it requests a training job, and print the"
        " request. Then create the files of the job's container and run its command on XLA:CPU. Arguments after --"
        " are the launch script's.",
        examples=["xla-migrate sagemaker rehearse launch.py --replicas 2"],
    )
    rehearse.add_argument("script", metavar="LAUNCH_SCRIPT")
    rehearse.add_argument("--replicas", type=int, default=2, help="processes that train (2)")
    rehearse.add_argument("--input", action="append", default=[], metavar="CHANNEL=FOLDER")
    rehearse.add_argument(
        "--output",
        metavar="FOLDER",
        help="keep the request, the files and the output there (default: a temporary folder)",
    )
    rehearse.add_argument("--sdk-python", default=sys.executable, metavar="PYTHON")
    rehearse.add_argument("--request-only", action="store_true", help="do not run the job")
    rehearse.add_argument("--private-root", action="store_true", help="do not use /opt/ml at all")
    rehearse.add_argument("--timeout", type=float, default=3600.0, metavar="SECONDS")
    return parser


def _rehearse(given: argparse.Namespace, words: list[str]) -> int:
    from ...target.sagemaker.container import RequestError
    from ...target.sagemaker.rehearse import advice, captured, run, sdk_of

    if given.replicas < 1:
        fail(f"sagemaker: --replicas must be at least 1, not {given.replicas}")
    if not os.path.isfile(given.script) or given.script.endswith(".ipynb"):
        fail(f"sagemaker: {given.script} is not a Python script")
    inputs = _inputs(given.input)
    out = _folder(given.output)
    try:
        request = captured(given.sdk_python, out, given.script, words, given.timeout)
        print(f"request (SageMaker SDK {sdk_of(out)}):")
        print(json.dumps(request, indent=2))
        for line in advice(request, _profile()):
            print(f"note: {line}")
        if given.request_only:
            return 0
        sys.stdout.flush()
        root = os.path.join(out, "container")
        os.mkdir(root)
        container, code = run(out, root, given.replicas, inputs, given.private_root, given.timeout)
    except (RequestError, SettingsError) as error:
        fail(f"sagemaker: {error}")
    except subprocess.TimeoutExpired:
        fail(f"sagemaker: the job did not end within {given.timeout:g} s; its files are in {out}")
    _tell(container.path(), code, out)
    return code


def _folder(named: str | None) -> str:
    if named is None:
        return tempfile.mkdtemp(prefix="sagemaker-rehearsal-")
    if os.path.isdir(named) and os.listdir(named):
        fail(f"sagemaker: --output {named} is not empty")
    os.makedirs(named, exist_ok=True)
    return os.path.abspath(named)


def _inputs(given: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in given:
        name, equals, folder = text.partition("=")
        if not equals or not os.path.isdir(folder):
            fail(f"sagemaker: --input {text}: must be CHANNEL=FOLDER, with an existing folder")
        found[name] = folder
    return found


def _profile() -> dict[str, str]:
    """The environment of the settings' machine, if that is one of Neuron's."""
    from ...compiler.machines import MACHINES, NEURON
    from ...compiler.profile import FOR
    from ...settings import Finder
    from .explain_target import planned

    target = Finder().of(os.getcwd()).target
    name = target.get(FOR, "")
    if not name or MACHINES[name].kind != NEURON:
        return {}
    try:
        return planned(name, {}, {}).environment({})
    except ValueError as error:
        fail(f"sagemaker: {error}")


def _tell(opt_ml: str, code: int, out: str) -> None:
    failure = os.path.join(opt_ml, "output", "failure")
    model = sorted(os.listdir(os.path.join(opt_ml, "model")))
    if code:
        print(f"the job failed: exit code {code}")
        if os.path.isfile(failure):
            with open(failure, errors="replace") as file:
                lines = [line for line in file.read().splitlines() if line.strip()]
            print(f"/opt/ml/output/failure: {lines[-1] if lines else '(empty)'}")
    else:
        print(f"the job succeeded; /opt/ml/model: {', '.join(model) or 'nothing'}")
    print(f"kept: {out}")
