"""A training step is migrated whole: if its model's sharding needs a manual change, so does the step.

Else a script would be half migrated: `xla.optimizer_step` would average gradients of which each process has a part of
its own, and a scaler that FSDP's step needs would be gone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from ....finding import Finding
from ...nodes import walk
from ...script import Script
from ..training import Step, outside_loops
from .calls import may_be_in_the_project, may_have_some
from .models import LeftModels, Why

# What rules find of a step, as they say (`Rule.of_step`).
_STEP, _MARK, _PRECISION, _FILE, _WRAPPER = "step", "mark", "precision", "file", "wrapper"
_LEFT = "{}. It is unchanged because {}, which takes the model, is unchanged: migrate both together"
_STEPS = (
    "the step of `{}` trains a model that {} takes, which you need to migrate by hand: migrate the step "
    "with it, because the replacement decides what a step is on XLA"
)


def without_manual_steps(
    script: Script, found: list[Finding], of_steps: Mapping[str, str]
) -> list[Finding]:
    """`found`; where steps train a model whose sharding is left, their findings have no fixes, and say why.

    Args:
        script: the file.
        found: its findings.
        of_steps: what rules find of a step, by their codes.
    """
    if not found or not any(f.edits and f.code in of_steps for f in found) or not _may_have(script):
        return found
    from .models import LeftModels

    return _Left(script, LeftModels(script), of_steps).of(found)


def _may_have(script: Script) -> bool:
    return may_have_some(script) or may_be_in_the_project(script)


class _Left:
    def __init__(self, script: Script, models: LeftModels, of_steps: Mapping[str, str]) -> None:
        self.script = script
        self.of_steps = of_steps
        self.models = models
        self.steps: dict[ast.AST, tuple[Step, Why]] = {}
        for step in script.training.steps:
            if (why := models.of_optimizer(step.optimizer)) is not None:
                self.steps[step.call] = step, why
        self.places = self._places()
        self.scaled = next((why for step, why in self.steps.values() if step.scaled), None)

    def of(self, found: list[Finding]) -> list[Finding]:
        kept = []
        for finding in found:
            why = self._why(finding) if finding.code in self.of_steps and finding.edits else None
            if why is None:
                kept.append(finding)
            elif self.of_steps[finding.code] != _MARK:  # the step's own finding says it
                kept.append(
                    finding._replace(edits=(), safety=None, message=self._said(finding, why))
                )
        return kept

    def _said(self, finding: Finding, why: Why) -> str:
        if self.of_steps[finding.code] == _STEP:
            optimizer = self.steps[finding.node][0].optimizer
            assert optimizer is not None
            return _STEPS.format(self.script.segment(optimizer), why)
        return _LEFT.format(finding.message, why)

    def _why(self, finding: Finding) -> Why | None:
        node, kind = finding.node, self.of_steps[finding.code]
        if kind == _STEP:
            return self.steps[node][1] if node in self.steps else None
        if kind == _MARK and node in self.steps:
            return self.steps[node][1]
        if kind == _PRECISION and self.scaled is not None:
            return self.scaled
        if kind in {_FILE, _WRAPPER}:
            return self._of_models_in(node, unknown=kind == _FILE)
        if kind == _MARK:
            step = next((s for s in self.script.training.steps if s.call is node), None)
            if step is not None:
                return None  # of a model that is not left
        return next((why for place, why in self.places if self._is_in(node, place)), None)

    def _of_models_in(self, node: ast.AST, unknown: bool) -> Why | None:
        """Of what is saved, or wrapped: a model that is left, or (`unknown`) what another file has made."""
        names = [n for n in self._parts(node) if isinstance(n, (ast.Name, ast.Attribute))]
        for name in names:
            if (why := self.models.of(name)) is not None:
                return why
        if not unknown or not any(
            isinstance(n, ast.Name) and self.models.sources.is_parameter(n) for n in names
        ):
            return None
        return self.models.elsewhere()

    def _parts(self, node: ast.AST) -> Iterable[ast.AST]:
        """`node`, and what the names in it are bound to."""
        for part in walk(node):
            yield part
            if isinstance(part, ast.Name):
                for binding in self.script.bindings(part):
                    if binding.value is not None:
                        yield from walk(binding.value)

    def _places(self) -> list[tuple[ast.AST, Why]]:
        """The loops and functions that take such a step in each turn."""
        training = self.script.training
        places: list[tuple[ast.AST, Why]] = []
        functions: dict[ast.AST, Why] = {}
        for step, why in self.steps.values():
            loop = training.loop_of(step.call)
            function = self.script.function(step.call)
            if loop is not None:
                places.append((loop.node, why))
            elif function is not None:
                places.append((function, why))
                functions[function] = why
        for loop in training.loops:
            for node in outside_loops(loop.body):
                if isinstance(node, ast.Call):
                    called = self.script.value(node.func).definition
                    if called in functions:
                        places.append((loop.node, functions[called]))
        return places

    def _is_in(self, node: ast.AST, place: ast.AST) -> bool:
        return node is place or place in self.script.ancestors(node)
