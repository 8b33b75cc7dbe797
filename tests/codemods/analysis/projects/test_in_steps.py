"""Which functions of a module a model computes with."""

from __future__ import annotations

from xla_codemods.analysis.projects.in_steps import computing
from xla_codemods.analysis.script import Script
from xla_codemods.source import Source

TEXT = """
import torch

def scale(x):
    return x * 2

class Adapter:
    def unmerge(self):
        return scale(self.weight)

class Layer(torch.nn.Module, Adapter):
    def forward(self, x):
        if self.merged:
            self.unmerge()
        return self.project(scale(x))

    def project(self, x):
        return x
"""


def test_a_model_computes_in_methods_of_its_own_class_and_in_functions() -> None:
    script = Script(Source(TEXT.encode()))
    names = [function.name for function in computing(script.index)]
    assert names == ["forward", "project", "scale"]
