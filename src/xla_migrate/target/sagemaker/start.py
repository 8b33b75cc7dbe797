"""Start what a job's container would start, on XLA:CPU, with its files under /opt/ml."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from .container import OPT_ML, Container

# In a separate mount namespace: /opt/ml is the container's, and nothing remains there afterwards.
_IN_NAMESPACE = """\
set -e
if [ -d /opt/ml ]; then :; else mount -t tmpfs tmpfs /opt; mkdir /opt/ml; fi
mount --bind "$REHEARSAL_ROOT/opt/ml" /opt/ml
exec "$@"
"""


def namespace(container: Container) -> str:
    """Why /opt/ml cannot be the container's folder here; empty if it can."""
    hidden = [p for p in (sys.executable, sys.prefix, container.root) if p.startswith("/opt/")]
    if hidden and not os.path.isdir(OPT_ML):
        return f"{hidden[0]} lies in /opt"
    if shutil.which("unshare") is None:
        return "there is no `unshare`"
    done = subprocess.run(
        _namespaced(container, ["true"])[0],
        env={**os.environ, "REHEARSAL_ROOT": container.root},
        capture_output=True,
        text=True,
    )
    lines = done.stderr.strip().splitlines()
    return "" if done.returncode == 0 else (lines[-1] if lines else "namespaces are not permitted")


def _namespaced(container: Container, command: Sequence[str]) -> tuple[list[str], str]:
    return ["unshare", "-rm", "sh", "-c", _IN_NAMESPACE, "sh", *command], OPT_ML


def start(container: Container, replicas: int, private: bool, timeout: float) -> int:
    """Run the job's start command; its exit code. Its output goes to ours.

    Args:
        container: what it finds.
        replicas: processes that train.
        private: run beside /opt/ml, in the container's own folder: paths in the SDK's driver, in hyperparameters and
            in the environment are changed to that; those in the script are not.
        timeout: in seconds.

    Raises:
        subprocess.TimeoutExpired: it took longer.
    """
    here = container.path().rstrip("/") if private else OPT_ML
    if private:
        _moved(container, here)
    _stubs(container, replicas)
    env = _environment(container, replicas, here)
    if container.driver:
        command = ["bash", f"{here}/{container.driver}"]
    else:
        command = _of_toolkit(container, replicas, here, env)
    if not private:
        command = _namespaced(container, command)[0]
        env["REHEARSAL_ROOT"] = container.root
    folder = container.path("code") if container.program else container.root
    code = _run(command, env, folder, timeout)
    if code and container.program:
        _failure(container, code)
    return code


def _run(command: Sequence[str], env: Mapping[str, str], folder: str, timeout: float) -> int:
    """The exit code; the whole process group ends with it."""
    process = subprocess.Popen(list(command), env=dict(env), cwd=folder, start_new_session=True)
    try:
        return process.wait(timeout)
    except BaseException:
        import signal

        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        raise


def _moved(container: Container, here: str) -> None:
    """/opt/ml becomes `here` in the driver's sources and the hyperparameters."""
    for folder in ("input/data/sm_drivers", "input/config"):
        for parent, _, names in os.walk(container.path(folder)):
            for name in names:
                path = os.path.join(parent, name)
                with open(path, encoding="utf-8", newline="") as file:
                    text = file.read()
                with open(path, "w", encoding="utf-8", newline="") as file:
                    file.write(text.replace(OPT_ML, here))


def _environment(container: Container, replicas: int, here: str) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "SM_"))}
    for name, value in container.request.get("Environment", {}).items():
        env[name] = str(value).replace(OPT_ML, here)
    env.update(
        PJRT_DEVICE="CPU",
        TRAINING_JOB_NAME=str(container.request.get("TrainingJobName", "rehearsal")),
        SM_MODEL_DIR=f"{here}/model",
        SM_OUTPUT_DATA_DIR=f"{here}/output/data",
        SM_NUM_GPUS="0",
        SM_NUM_NEURONS=str(replicas),
        SM_HOSTS='["algo-1"]',
        SM_CURRENT_HOST="algo-1",
        SM_HPS=json.dumps(container.hyperparameters),
        SM_CHANNELS=json.dumps(container.channels),
    )
    for name in container.channels:
        env[f"SM_CHANNEL_{name.upper()}"] = f"{here}/input/data/{name}"
    env.setdefault("OMP_NUM_THREADS", "1")
    scripts = os.path.dirname(sys.executable)
    env["PATH"] = os.pathsep.join(
        [os.path.join(container.root, "bin"), scripts, env.get("PATH", "")]
    )
    return env


def _of_toolkit(
    container: Container, replicas: int, here: str, env: Mapping[str, str]
) -> list[str]:
    """The command that the training toolkit of the image documents for these hyperparameters."""
    words = [container.program]
    for name, value in container.hyperparameters.items():
        words += [f"--{name}", value if isinstance(value, str) else _shown(value)]
    words = [word.replace(OPT_ML, here) for word in words]
    if container.program.endswith(".sh"):
        return ["bash", *words]
    if container.distributed:
        return ["torchrun", "--nnodes=1", f"--nproc_per_node={replicas}", *words]
    return ["python3", *words]


def _shown(value: Any) -> str:
    return (
        str(value) if isinstance(value, (bool, int, float)) or value is None else json.dumps(value)
    )


def _failure(container: Container, code: int) -> None:
    path = container.path("output", "failure")
    if not os.path.exists(path):
        with open(path, "w") as file:
            file.write(f"ExecuteUserScriptError:\nExitCode {code}\n")


def _stubs(container: Container, replicas: int) -> None:
    """Programs that a Trainium host has: NeuronCores are counted, compiling beforehand is left out."""
    folder = os.path.join(container.root, "bin")
    os.makedirs(folder, exist_ok=True)
    cores = json.dumps([{"neuron_device": 0, "nc_count": replicas}])
    scripts = {
        "python3": f"exec '{sys.executable}' \"$@\"",
        "pip3": 'echo "rehearsal: pip is not run: pip $*"',
        "neuron-ls": f"echo '{cores}'",
        "neuron_parallel_compile": 'echo "rehearsal: no compilation in advance"; exec "$@"',
    }
    for name, body in scripts.items():
        path = os.path.join(folder, name)
        with open(path, "w") as file:
            file.write(f"#!/bin/sh\n{body}\n")
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
