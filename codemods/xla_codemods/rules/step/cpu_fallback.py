"""An operation without an XLA kernel runs on the CPU in every step.

## What it reports

Operations that torch_xla has no kernel for, in a model's computation and in loops that train.

## Why it matters on XLA

The result is right, but the graph ends at the operation. Its inputs are copied to the host, and
its result is copied back (fact 3.37).

## What to do

Fix: none.

Use an operation that has a kernel, such as `sort` or `topk` instead of `median`, or compute the
result earlier, in the dataset.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 def train(model, batches, optimizer):
-    for x in batches:
+    for x in xla.MpDeviceLoader(batches):
-        spectrum = torch.fft.rfft(x.cuda())  # XLA518
+        spectrum = torch.fft.rfft(x.to(xla.xla_device()))  # XLA518
         loss = model(spectrum.abs()).mean()
         loss.backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
```

Operations on the host, and operations with a kernel, are not reported:

```python
import torch
import torch.nn.functional as F
from xla_migrate import runtime as xla

def train(model, batches, optimizer):
    for x in xla.MpDeviceLoader(batches):
        middle = torch.median(torch.arange(4.0))
        loss = model(F.interpolate(x, scale_factor=2, mode="bilinear")).mean() * middle
        loss.backward()
        xla.optimizer_step(optimizer)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.nodes import LOOPS
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...analysis.training.tensors.computed import computing
from ...analysis.training.tensors.device_tensors import may_be_read
from ...analysis.training.turns import in_each_step
from ...catalog.alternatives import alternative
from ...finding import MEDIUM, WARNING, Finding
from ...rule import MethodCall, Rule
from ...symptoms import LIKELY, POSSIBLE

RULE = Rule(
    "XLA518",
    "cpu-fallback",
    of_what_runs=True,
    severity=WARNING,
    effort=MEDIUM,
    about="speed",
    behind={"no fallback": LIKELY, "launches": POSSIBLE},
)

_LINALG = (
    "cholesky cholesky_ex det eig eigvals householder_product ldl_factor lstsq lu lu_factor lu_solve matrix_exp qr solve "
    "solve_ex solve_triangular"
).split()
_FOURIER = "fft fft2 fftn ifft ifft2 ifftn irfft irfft2 irfftn rfft rfft2 rfftn".split()
_SPECIAL = "bessel_j0 erfcx i0e i1 log_ndtr ndtri zeta".split()
_DISTRIBUTIONS = (
    "Beta Binomial Cauchy Chi2 Dirichlet Gamma LowRankMultivariateNormal MultivariateNormal NegativeBinomial Poisson StudentT"
).split()
# Distributions whose `log_prob` falls back, too.
_SOLVING = (
    "torch.distributions.LowRankMultivariateNormal",
    "torch.distributions.MultivariateNormal",
)
_BOXES = (
    "batched_nms complete_box_iou_loss deform_conv2d distance_box_iou_loss generalized_box_iou_loss masks_to_boxes nms "
    "ps_roi_align ps_roi_pool roi_align roi_pool"
).split()
# What falls back, as measured with torch_xla 2.9 (tests/codemods/rules/test_torch_xla.py runs each).
FUNCTIONS = (
    *(f"torch.linalg.{name}" for name in _LINALG),
    *(f"torch.fft.{name}" for name in _FOURIER),
    *(f"torch.special.{name}" for name in _SPECIAL),
    *(f"torch.distributions.{name}" for name in _DISTRIBUTIONS),
    *(f"torchvision.ops.{name}" for name in _BOXES),
    *(
        f"torch.nn.functional.{name}"
        for name in "adaptive_max_pool3d ctc_loss fractional_max_pool2d multilabel_margin_loss".split()
    ),
    *(
        f"torch.{name}"
        for name in "cholesky_inverse cholesky_solve corrcoef cov cummin det frexp gcd i0 igamma igammac index_reduce "
        "istft lcm logcumsumexp matrix_exp median mode nanmedian nextafter poisson qr segment_reduce stft".split()
    ),
)
METHODS = (
    "cauchy_ det geometric_ istft log_normal_ logcumsumexp matrix_exp median mode nanmedian stft"
).split()
CLASSES = (
    *(
        f"torch.nn.{name}"
        for name in "AdaptiveMaxPool3d CTCLoss FractionalMaxPool2d MultiLabelMarginLoss RReLU".split()
    ),
    *(
        f"torchvision.ops.{name}"
        for name in "DeformConv2d MultiScaleRoIAlign PSRoIAlign PSRoIPool RoIAlign RoIPool".split()
    ),
)
_RESIZING = ("torch.nn.functional.interpolate", "torch.nn.functional.upsample")


def _message(name: str) -> str:
    last = name.strip(".()").rpartition(".")[2]
    if "loss" in last.lower():
        instead = "use a loss whose operations have XLA kernels, or accept the copies"
    else:
        usual = alternative(last) or "an operation with an XLA kernel"
        instead = f"use {usual}, or move the call out of the step"
    return f"`{name}` has no XLA kernel and runs on the CPU, with copies from and to the device: {instead}"


@RULE.call(*FUNCTIONS)
def function(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    name = script.dotted(call.func, scope) or ""
    in_turn = _is_computed_each_time(script, call)
    is_read = in_turn and any(may_be_read(script, a) for a in call.args)
    if is_read or (not in_turn and _is_a_kept_prior(script, call, name)):
        yield RULE.finding(script, call, _message(name))


@RULE.method(*METHODS)
def method(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    if _is_computed_each_time(script, call) and may_be_read(script, call.func.value):
        yield RULE.finding(script, call, _message(f".{call.func.attr}()"))


@RULE.call(*CLASSES)
def module(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if script.is_trained and script.runs_accelerated and _is_kept(script, call):
        yield RULE.finding(script, call, _message(script.dotted(call.func, scope) or ""))


def _is_a_kept_prior(script: Script, call: ast.Call, name: str) -> bool:
    """Return True for `self.prior = MultivariateNormal(...)` of a module: `log_prob` solves a system in each step."""
    if name not in _SOLVING or not (script.is_trained and script.runs_accelerated):
        return False
    return script.is_in_a_module(call) and isinstance(script.parent(call), ast.Assign)


def _is_kept(script: Script, call: ast.Call) -> bool:
    """A part of a module of this file, or what a name is given, or what is moved to the device."""
    parent = script.parent(call)
    if isinstance(parent, ast.Attribute):
        return parent.attr in {"to", "cuda"}
    return isinstance(parent, ast.Assign) or (
        script.is_in_a_module(call) and not isinstance(parent, ast.Lambda)
    )


@RULE.call(*_RESIZING)
def resized(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if not _has(call, "antialias", True):
        return
    if _is_computed_each_time(script, call) and any(may_be_read(script, a) for a in call.args):
        yield RULE.finding(script, call, _message("interpolate(antialias=True)"))


def _has(call: ast.Call, name: str, value: object) -> bool:
    given = keyword(call, name)
    return isinstance(given, ast.Constant) and given.value == value


def _is_computed_each_time(script: Script, node: ast.AST) -> bool:
    """In a loop of a script that trains, in what its modules compute, or in what runs in each of its steps."""
    if not (script.is_trained and script.runs_accelerated):
        return False
    if node in in_each_step(script) or script.function(node) in computing(script):
        return True
    return any(isinstance(a, LOOPS) for a in script.ancestors(node))
