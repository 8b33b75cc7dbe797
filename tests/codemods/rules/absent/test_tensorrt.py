"""TensorRT, where a program needs it and where it is one of several ways to run a trained model."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

LOCAL = """import torch
def load(path, engine, onnx):
    if onnx:
        return 1
    elif engine:
        {imported}
        return {use}
    return torch.load(path)
"""


@pytest.mark.parametrize(
    ("imported", "use"),
    [
        ("import tensorrt as trt", "trt.Logger(trt.Logger.INFO)"),
        ("import tensorrt", "tensorrt.Runtime(log)"),
        ("from tensorrt import Runtime", "Runtime(log)"),
        ("import torch_tensorrt", "torch_tensorrt.compile(model)"),
        ("from torch2trt import TRTModule", "TRTModule()"),
    ],
)
def test_where_it_is_asked_for_by_an_option_it_is_a_note(imported: str, use: str) -> None:
    inside = check(LOCAL.format(imported=imported, use=use).encode())
    assert {f.severity for f in inside if f.code == "XLA908"} == {"info"}
    whole = f"{imported}\nimport torch\ndef load(log, model):\n    return {use}\n"
    assert "info" not in {f.severity for f in check(whole.encode()) if f.code == "XLA908"}
