"""Kubernetes manifests and Compose files."""

from __future__ import annotations

import pytest
import yaml

from .helpers import NEURON, codes, rewritten

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: train}   # keep   the spaces
spec:
  runtimeClassName: nvidia
  tolerations:
  - key: nvidia.com/gpu
    operator: Exists
  containers:
  - name: main
    image: "registry.example/nvidia/pytorch:24.07-py3"
    env:
    - name: CUDA_VISIBLE_DEVICES
      value: "0,1"
    - name: OTHER
      value: cuda
    resources:
      limits:
        nvidia.com/gpu: 8
        memory: 1Gi
---
apiVersion: v1
kind: Service
metadata: {name: s}
"""


def test_only_what_is_edited_differs() -> None:
    new = rewritten(POD, "pod.yaml", NEURON)
    before, after = list(yaml.safe_load_all(POD)), list(yaml.safe_load_all(new))
    container = before[0]["spec"]["containers"][0]
    container["image"] = "team/train:1"
    container["env"][0]["name"] = "NEURON_RT_VISIBLE_CORES"
    container["resources"]["limits"] = {"aws.amazon.com/neuroncore": 32, "memory": "1Gi"}
    assert before == after
    changed = [a for a, b in zip(POD.splitlines(), new.splitlines()) if a != b]
    assert len(changed) == 3
    assert codes(new, "pod.yaml", NEURON) == ["XLA955", "XLA955"]


def test_without_a_machine_it_is_told_only() -> None:
    assert rewritten(POD, "pod.yaml") == POD
    assert codes(POD, "pod.yaml") == ["XLA955", "XLA955", "XLA951", "xla954", "XLA955"]


@pytest.mark.parametrize("name", ["values.yaml", "config.yml"])
def test_yaml_that_is_no_manifest_is_not_read(name: str) -> None:
    assert codes("image: nvidia/cuda:12.4.1-base-ubuntu22.04\n", name) == []


def test_compose() -> None:
    text = """\
services:
  train:
    image: nvidia/cuda:12.4.1-base-ubuntu22.04
    runtime: nvidia
    deploy:
      resources:
        reservations:
          devices:
            - driver: nvidia
"""
    assert codes(text, "docker-compose.yml") == ["XLA951", "XLA955", "XLA955"]
    assert "image: ubuntu:22.04\n" in rewritten(text, "compose.yaml")


FLOWING = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train}
spec:
  nodeSelector: {accelerator: nvidia-tesla-v100, disk: ssd}
  tolerations: [{key: "nvidia.com/gpu", operator: Exists}]
  containers:
    - image: pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime
      env: [{name: NCCL_DEBUG, value: INFO}, {name: CUDA_VISIBLE_DEVICES, value: '0'}, {name: OTHER, value: "1"}]
      resources: {limits: {nvidia.com/gpu: "8", memory: 1Gi}}
"""


def test_the_flow_form_is_read_too() -> None:
    found = ["XLA955", "XLA955", "XLA951", "xla954", "xla954", "XLA955"]
    assert codes(FLOWING, "job.yaml") == found
    new = rewritten(FLOWING, "job.yaml", NEURON)
    assert """limits: {aws.amazon.com/neuroncore: "32", memory: 1Gi}""" in new
    assert "{name: NEURON_RT_VISIBLE_CORES, value: '0'}" in new
    assert "- image: team/train:1\n" in new


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ("[NVIDIA_VISIBLE_DEVICES=all, CUDA_VISIBLE_DEVICES=0, A=CUDA_HOME]", ["xla954", "xla954"]),
        ("{CUDA_VISIBLE_DEVICES: 0, NCCL_DEBUG: INFO, B: 1}", ["xla954", "xla954"]),
        ("\n      - CUDA_VISIBLE_DEVICES=0\n      - HOME", ["xla954"]),
        ("\n      CUDA_VISIBLE_DEVICES: '0'", ["xla954"]),
        ("", []),
    ],
)
def test_variables_of_compose(environment: str, found: list[str]) -> None:
    text = f"services:\n  train:\n    environment: {environment}\n"
    assert codes(text, "compose.yml") == found


def test_a_reservation_of_compose_without_a_driver() -> None:
    text = """\
services:
  train:
    deploy: {resources: {reservations: {devices: [{count: all, capabilities: [gpu]}]}}}
    devices: ["/dev/neuron0"]
"""
    assert codes(text, "compose.yml") == ["XLA955"]


@pytest.mark.parametrize(
    ("value", "is_told"),
    [
        ("gpu", True),
        ("pool-gpu-a", True),
        ("p4d.24xlarge", True),
        ("g5.48xlarge", True),
        ("Standard_NC24ads_A100_v4", True),
        ("trn1.32xlarge", False),
        ("linux", False),
        ("gpuless", False),
    ],
)
def test_labels_that_select_gpu_nodes(value: str, is_told: bool) -> None:
    text = f"apiVersion: v1\nkind: Pod\nspec:\n  nodeSelector:\n    some.label/type: {value}\n"
    assert codes(text, "pod.yaml") == ["XLA955"] * is_told


def test_templates_are_read_around_their_braces() -> None:
    text = """\
apiVersion: v1
kind: Pod
{{- if .Values.gpu }}
spec:
  image: {{ .Values.image }}
  resources: {limits: {nvidia.com/gpu: {{ .Values.n }}}}
{{- end }}
"""
    assert codes(text, "pod.yaml") == ["XLA955"]
    assert rewritten(text, "pod.yaml", NEURON) == text


def test_what_is_no_yaml_is_left() -> None:
    assert codes("apiVersion: v1\nkind: Pod\n  image: [", "pod.yaml") == []


@pytest.mark.parametrize(
    ("container", "new"),
    [
        (
            'command: ["torchrun", "--nproc_per_node=gpu", "train.py"]',
            'command: ["torchrun", "--nproc_per_node=32", "train.py"]',
        ),
        (
            "command: [torchrun]\n      args: [--nproc-per-node, gpu, train.py]",
            "command: [torchrun]\n      args: [--nproc-per-node, 32, train.py]",
        ),
        (
            "command:\n      - /bin/bash\n      - -lc\n      - torchrun --nproc_per_node=gpu t.py && echo done",
            "command:\n      - /bin/bash\n      - -lc\n      - torchrun --nproc_per_node=32 t.py && echo done",
        ),
        (
            "args: ['sh', '-c', 'CUDA_VISIBLE_DEVICES=0,1 python t.py']",
            "args: ['sh', '-c', 'NEURON_RT_VISIBLE_CORES=0,1 python t.py']",
        ),
        ("command: [pip, install, flash-attn]", None),  # across words: told, and left
        ('command: ["python", "-c", "print(\\"torchrun\\")"]', None),
        ("command: python train.py", None),
    ],
)
def test_commands_of_containers(container: str, new: str | None) -> None:
    text = f"apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n      {container}\n"
    assert rewritten(text, "pod.yaml", NEURON) == text.replace(container, new or container)
    assert codes(text, "pod.yaml", NEURON) == [] or new or "flash-attn" in container
