"""Create the files that a training job's container has under /opt/ml, from the request and the uploads."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

OPT_ML = "/opt/ml"


@dataclass
class Container:
    """A container laid out in the folder `root`, whose `opt/ml` is the job's /opt/ml.

    `driver`: the SDK's own start script (v3), as a path below /opt/ml; empty where the SDK uploads none (v2), and
    `program` is the script to start in place of it. `notes`: what is not as it would be on SageMaker.
    """

    root: str
    request: Mapping[str, Any]
    driver: str = ""
    program: str = ""
    distributed: bool = False
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def path(self, *parts: str) -> str:
        """Return the path in the folder for a path below /opt/ml."""
        return os.path.join(self.root, "opt", "ml", *parts)

    @property
    def channels(self) -> list[str]:
        """Return the names of the job's inputs, without the SDK's own inputs."""
        names = [c["ChannelName"] for c in self.request.get("InputDataConfig", [])]
        return [name for name in names if name not in ("code", "sm_drivers")]


class RequestError(Exception):
    """A request that cannot be rehearsed: one line."""


def lay_out(captured: str, root: str, replicas: int, inputs: Mapping[str, str]) -> Container:
    """Make the container's files.

    Args:
        captured: the folder that `capture` filled.
        root: an empty folder.
        replicas: processes that are to train.
        inputs: folders with data, by the name of their channel.

    Raises:
        RequestError: the request names no code that could be run.
    """
    with open(os.path.join(captured, "request.json")) as file:
        request: dict[str, Any] = json.load(file)
    container = Container(root, request)
    for folder in ("input/config", "input/data", "output/data", "model", "checkpoints", "code"):
        os.makedirs(container.path(folder))
    _channels(container, captured, inputs)
    if os.path.isfile(container.path("input", "data", "sm_drivers", "sm_train.sh")):
        _of_driver(container, replicas)
    else:
        _of_toolkit(container, captured)
    _configuration(container)
    hosts = request["ResourceConfig"].get("InstanceCount", 1)
    if hosts > 1:
        container.notes.append(
            f"the job has {hosts} hosts: the rehearsal uses one host, with all {replicas} replicas"
        )
    return container


def _channels(container: Container, captured: str, inputs: Mapping[str, str]) -> None:
    for channel in container.request.get("InputDataConfig", []):
        name = channel["ChannelName"]
        place = container.path("input", "data", name)
        uri = channel.get("DataSource", {}).get("S3DataSource", {}).get("S3Uri", "")
        uploaded = _uploaded(captured, uri)
        if name in inputs:
            os.symlink(os.path.abspath(inputs[name]), place)
        elif os.path.isdir(uploaded):
            shutil.copytree(uploaded, place)
        else:
            os.makedirs(place)
            if os.path.isfile(uploaded):
                shutil.copy(uploaded, place)
            else:
                container.notes.append(
                    f"the channel {name} ({uri or 'no S3 address'}) is empty here: pass its data with --input"
                    f" {name}=FOLDER"
                )
    unknown = set(inputs) - set(container.channels)
    if unknown:
        raise RequestError(f"--input {min(unknown)}: the request has no channel of that name")


def _uploaded(captured: str, uri: str) -> str:
    return os.path.join(captured, "s3", uri.removeprefix("s3://").rstrip("/"))


def _of_driver(container: Container, replicas: int) -> None:
    """Handle SDK v3: a file tells its driver how many processes to start."""
    container.driver = "input/data/sm_drivers/sm_train.sh"
    path = container.path("input", "data", "sm_drivers", "distributed.json")
    if os.path.isfile(path):
        with open(path) as file:
            told = json.load(file)
        asked = told.get("process_count_per_node")
        if asked not in (None, replicas):
            told["process_count_per_node"] = replicas
            container.notes.append(
                f"the job requests {asked} processes: the rehearsal starts {replicas}"
            )
            with open(path, "w") as file:
                json.dump(told, file)
    container.hyperparameters = dict(container.request.get("HyperParameters", {}))


def _of_toolkit(container: Container, captured: str) -> None:
    """The SDK v2: hyperparameters say what the toolkit in the image is to start."""
    given = {k: _json(v) for k, v in container.request.get("HyperParameters", {}).items()}
    container.program = str(given.get("sagemaker_program", ""))
    archive = _uploaded(captured, str(given.get("sagemaker_submit_directory", "")))
    if not container.program or not os.path.isfile(archive):
        raise RequestError(
            "the request names no script that was uploaded: give the estimator an entry_point"
        )
    with tarfile.open(archive) as tar:
        safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        tar.extractall(container.path("code"), **safely)
    container.distributed = bool(given.get("sagemaker_torch_distributed_enabled", False))
    container.hyperparameters = {k: v for k, v in given.items() if not k.startswith("sagemaker_")}
    container.notes.append(
        "SDK v2 uploads no driver: the rehearsal starts the script as the toolkit in the image "
        "documents it"
    )


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _configuration(container: Container) -> None:
    resources = container.request["ResourceConfig"]
    told = {
        "hyperparameters": container.request.get("HyperParameters", {}),
        "inputdataconfig": {name: {"TrainingInputMode": "File"} for name in container.channels},
        "resourceconfig": {
            "current_host": "algo-1",
            "hosts": ["algo-1"],
            "current_instance_type": resources.get("InstanceType", ""),
            "network_interface_name": "lo",
        },
    }
    for name, value in told.items():
        with open(container.path("input", "config", f"{name}.json"), "w") as file:
            json.dump(value, file)
