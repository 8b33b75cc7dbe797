"""Parameters stay the same objects when a module moves to the device.

The fault: ``module.to("cuda")`` keeps every Parameter object and replaces its content. For devices
that cannot share the content's type with the CPU, XLA among them, torch puts new Parameters in their
place instead: an optimizer that was built before ``.to(device)`` then trains nothing, tied weights
come apart, and hooks and attributes of parameters are lost, all silently (facts 3.1, 3.2).

To see it: ``p = model.weight; model.to(device); p is model.weight`` is False.
It can go when this fails: test_fact_3_1_torch_leaves_an_optimizer_built_before_to_device_behind.

``torch.__future__.set_swap_module_params_on_conversion`` (3.3) keeps the objects, but it too drops
their hooks and attributes, makes ``load_state_dict`` drop hooks and gradients as well, and refuses
parameters that have views or weak references (old ``weight_norm``). So the content is swapped here,
which is what ``.to("cuda")`` does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ._versions import Versions

VERSIONS = Versions("torch", "2.0")

_torch_apply = nn.Module._apply


def apply() -> None:
    """Make ``nn.Module`` conversions keep their Parameters, on every device."""
    nn.Module._apply = _apply  # type: ignore[method-assign]


class _Conversion:
    """The function with which a module converts its children's tensors, and those whose device kind it changes."""

    def __init__(self, fn: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self._fn = fn
        self._answers: dict[tuple[torch.dtype, torch.device], bool] = {}

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        return self._fn(tensor)

    def changes_kind(self, parameter: nn.Parameter) -> bool:
        """True if torch would make a new Parameter.

        Asked of an empty tensor, once for all parameters that are alike: on the device each question is a transfer.
        """
        key = parameter.dtype, parameter.device
        if key not in self._answers:
            probe = torch.empty(0, dtype=parameter.dtype, device=parameter.device)
            with torch.no_grad():
                try:
                    converted = self._fn(probe)
                except Exception:
                    return False  # Not a conversion. Torch's own call says what is wrong, if anything is.
            self._answers[key] = not torch._has_compatible_shallow_copy_type(probe, converted)
        return self._answers[key]


@functools.wraps(_torch_apply)
def _apply(
    self: nn.Module, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True
) -> Any:
    conversion = fn if isinstance(fn, _Conversion) else _Conversion(fn)
    for parameter in self._parameters.values():
        if parameter is not None and conversion.changes_kind(parameter):
            _swap_content(parameter, conversion)
    return _torch_apply(self, conversion, recurse)  # type: ignore[no-untyped-call]


def _swap_content(parameter: nn.Parameter, fn: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with torch.no_grad():
        moved = nn.Parameter(fn(parameter), requires_grad=parameter.requires_grad)
        if parameter.grad is not None:
            moved.grad = fn(parameter.grad)
    if parameter.requires_grad and parameter.is_leaf:
        # A graph recorded before the move would give its gradients to the content left behind.
        node = torch.autograd.graph.get_gradient_edge(parameter).node
        node.register_prehook(_refuse_old_graph)
    hooks = parameter._backward_hooks
    after_hooks = parameter._post_accumulate_grad_hooks
    torch._C._swap_tensor_impl(parameter, moved)
    # Hooks belong to the content: give them to the new one.
    if hooks is not None:
        parameter._backward_hooks = hooks
    if after_hooks is not None:
        parameter._post_accumulate_grad_hooks = after_hooks


def _refuse_old_graph(grads: Any) -> None:
    raise RuntimeError(
        "backward() reached a parameter that was moved to another device after this forward pass: "
        "move the model first, then run forward and backward"
    )
