"""A launch script rehearsed: the request that it would send, and the job on XLA:CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from . import capture
from .container import Container, RequestError, lay_out
from .start import namespace, start


def captured(
    python: str, out: str, script: str, words: Sequence[str], timeout: float
) -> dict[str, Any]:
    """The request that `script` sends, kept in the folder `out` with what it uploads.

    Args:
        python: an interpreter that has the SageMaker SDK and moto.
        out: an empty folder.
        script: the launch script; it runs against a mock of AWS until it requests a job.
        words: its arguments.
        timeout: in seconds.

    Raises:
        RequestError: it sent none.
    """
    command = [python, os.path.abspath(capture.__file__), os.path.abspath(out), script, *words]
    try:
        code = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=timeout).returncode
    except subprocess.TimeoutExpired:
        raise RequestError(
            f"{script} did not request a training job within {timeout:g} s"
        ) from None
    except OSError as error:
        raise RequestError(f"{python} cannot be run: {error.strerror}") from None
    if code == capture.NO_PACKAGE:
        raise RequestError(
            f"{python} lacks the SageMaker SDK or moto: pip install 'sagemaker>=2.257' "
            "boto3 'moto>=5.2', or name an interpreter that has them with --sdk-python"
        )
    if code == capture.NO_JOB:
        raise RequestError(f"{script} ended without requesting a training job")
    if code:
        raise RequestError(f"{script} failed (exit code {code}) before it requested a training job")
    with open(os.path.join(out, "request.json")) as file:
        request: dict[str, Any] = json.load(file)
    return request


def sdk_of(out: str) -> str:
    """The version of the SDK that the request in `out` was made with."""
    with open(os.path.join(out, "sdk.json")) as file:
        return str(json.load(file)["sagemaker"])


def advice(request: Mapping[str, Any], profile: Mapping[str, str]) -> list[str]:
    """Return advice on a request, one line each.

    Args:
        request: what would be sent.
        profile: the environment that `[tool.xla-migrate.target]` comes to, where it names a Neuron machine.
    """
    said = []
    resources = request.get("ResourceConfig", {})
    kind = str(resources.get("InstanceType", ""))
    if kind and not kind.startswith(("ml.trn", "ml.inf2")):
        said.append(f"{kind} has no XLA device: migrate the launch script first (XLA821)")
    env = request.get("Environment", {})
    for name, value in profile.items():
        if env.get(name) != value:
            has = f"has {name}={env[name]}" if name in env else f"has no {name}"
            said.append(f"the request {has}; the settings say {name}={value}")
    if str(env.get("RUN_NEURON_PARALLEL_COMPILE", "")) == "1":
        said.append("RUN_NEURON_PARALLEL_COMPILE=1: such a job compiles and does not train")
    if request.get("EnableManagedSpotTraining") and not request.get("CheckpointConfig"):
        said.append(
            "spot instances without checkpoints: an interrupted job starts from the beginning; set checkpoint_s3_uri"
        )
    return said


def run(
    out: str, root: str, replicas: int, inputs: Mapping[str, str], private: bool, timeout: float
) -> tuple[Container, int]:
    """Run the captured job; what its container looks like then, and its exit code.

    Raises:
        RequestError: there is nothing that can be run.
        subprocess.TimeoutExpired: it took longer than `timeout` seconds.
    """
    container = lay_out(out, root, replicas, inputs)
    if not private:
        reason = namespace(container)
        private = bool(reason)
        if reason:
            container.notes.append(
                f"/opt/ml cannot be created here ({reason}): {container.path()} is used instead; a "
                "script that writes to /opt/ml directly will not find it"
            )
    else:
        container.notes.append(f"{container.path()} replaces /opt/ml")
    for note in container.notes:
        print(f"note: {note}", file=sys.stderr)
    sys.stderr.flush()
    return container, start(container, replicas, private, timeout)
