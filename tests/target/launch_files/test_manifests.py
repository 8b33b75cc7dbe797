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
    assert codes(POD, "pod.yaml") == ["XLA955", "XLA955", "XLA951", "XLA954", "XLA955"]


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
