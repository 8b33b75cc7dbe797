"""The data-flow state of a value: its kinds, and its parts.

A kind is asserted only on evidence (a constructor, a method that only that kind has, a call site).
`UNKNOWN` has no kind: rules stay silent on it.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from ..scopes import FunctionNode

# Things of a training script.
DEVICE = "device"  # a torch.device, or a string that stands for one
MODULE = "module"  # an nn.Module
OPTIMIZER = "optimizer"  # a torch.optim.Optimizer
SCALER = "scaler"  # a GradScaler
SCHEDULER = "scheduler"  # a scheduler of learning rates
LOADER = "loader"  # a DataLoader, or what yields its batches
DEVICE_LOADER = "device loader"  # one that moves batches to the device
SAMPLER = "sampler"  # of a loader: which examples come when
DATASET = "dataset"  # what a loader reads
ITERATOR = "iterator"  # of a loader: `iter(loader)`
TENSOR = "tensor"  # a tensor
PARAMETERS = "parameters"  # of a module: `model.parameters()`
STATE_DICT = "state dict"  # of a module or optimizer
DISTRIBUTION = "distribution"  # of torch.distributions
GENERATOR = "generator"  # a torch.Generator
STREAM = "stream"  # a CUDA stream
EVENT = "event"  # a CUDA event
GRAPH = "cuda graph"  # a captured CUDA graph
AUTOCAST = "autocast"  # an autocast context
NUMBER = "number"  # an int, float or bool of Python
STRING = "string"  # a str
NONE = "none"  # None
DTYPE = "dtype"  # a torch.dtype
ARRAY = "numpy array"  # of NumPy
ARGUMENTS = "parsed arguments"  # what a parser of the command line gives: `fields` are its options
FUNCTION = "function"  # a local function: `definition`
CLASS = "class"  # a local class: `definition`
INSTANCE = "instance"  # of a local class: `definition`
ACCELERATOR = "accelerate.Accelerator"  # of Hugging Face accelerate, or Lightning Fabric

# Properties beside the kind.
ACCEL = "on the accelerator"  # a device, tensor or module that is known to be
HOST = "on the host"  # a tensor or module that is known to be
DOUBLE = "float64"  # a tensor or array that is known to be
WEIGHT = "of a model"  # a parameter, or computed of parameters alone: where its model is
BATCH = "batch"  # came out of a loader
SETTINGS = "read from a file"  # of what is GIVEN: no option of this script's own
GIVEN = "from outside"  # command line, environment, configuration: a string that the user chose


class Value(NamedTuple):
    """`kinds` with structure: of a tuple its `items`, of an iterable its `element`, of a dict or namespace its
    `fields`; of a local function, class or instance its `definition`.
    """

    kinds: frozenset[str] = frozenset()
    items: tuple[Value, ...] | None = None
    element: Value | None = None
    fields: dict[str, Value] | None = None
    definition: ast.ClassDef | FunctionNode | None = None

    def has(self, kind: str) -> bool:
        """True if `kind` is among the kinds."""
        return kind in self.kinds

    def item(self, index: int) -> Value:
        """What unpacking or a constant subscript takes out."""
        if self.items is not None and -len(self.items) <= index < len(self.items):
            return self.items[index]
        if self.element is not None:
            return self.element
        if TENSOR in self.kinds or BATCH in self.kinds:
            return Value(self.kinds)
        return UNKNOWN

    def iterated(self) -> Value:
        """One element of iterating it: nothing is known of the keys of a dict."""
        if self.fields is not None:
            return UNKNOWN
        if self.element is not None:
            return self.element
        if self.items is not None:
            return join(*self.items)
        if TENSOR in self.kinds:
            return Value(self.kinds - {BATCH})
        return UNKNOWN


# No kind: it may be anything.
UNKNOWN = Value()


def of(*kinds: str) -> Value:
    """A value of these kinds."""
    return Value(frozenset(kinds))


def join(*values: Value) -> Value:
    """What a value may be that is one of `values`."""
    known = [value for value in values if value != UNKNOWN and value.kinds != _ONLY_NONE]
    if not known:
        return UNKNOWN if UNKNOWN in values or not values else values[0]
    result = known[0]
    for value in known[1:]:
        result = _join(result, value)
    return result


_ONLY_NONE = frozenset({NONE})


def _join(a: Value, b: Value) -> Value:
    if a is b:
        return a
    items = None
    if a.items is not None and b.items is not None and len(a.items) == len(b.items):
        items = tuple(join(x, y) for x, y in zip(a.items, b.items))
    element = join(a.element, b.element) if a.element and b.element else a.element or b.element
    fields = None
    if a.fields is not None or b.fields is not None:
        fields = {**(b.fields or {}), **(a.fields or {})}
        for key in (a.fields or {}).keys() & (b.fields or {}).keys():
            fields[key] = join(a.fields[key], b.fields[key])  # type: ignore[index]
    definition = a.definition or b.definition
    if a.definition is not None and b.definition is not None and a.definition is not b.definition:
        definition = None  # which of the two is not known
    return Value(_join_kinds(a.kinds, b.kinds), items, element, fields, definition)


def _join_kinds(a: frozenset[str], b: frozenset[str]) -> frozenset[str]:
    """The union; but a place only where both sides say so, or one says nothing of its place."""
    kinds = a | b
    if ACCEL in kinds and HOST in kinds:
        kinds -= {ACCEL, HOST}
    elif (GIVEN in kinds or DEVICE in kinds) and (HOST in a) != (HOST in b):
        kinds -= {
            HOST
        }  # the user may have said another, or it is chosen: `xla_device(index) if cuda else "cpu"`
    return kinds


# What a value of another module can be: the kinds that say what to do with it by themselves.
_THINGS = frozenset(
    {ARGUMENTS, DATASET, DEVICE, LOADER, MODULE, OPTIMIZER, PARAMETERS, SAMPLER, SCHEDULER, TENSOR},
)
_TRAVELLING = _THINGS | {ACCEL, BATCH, HOST, SETTINGS, WEIGHT}


def for_others(value: Value) -> Value:
    """Return `value` as another module can use it: without the locations in the source that it comes from."""
    kinds = value.kinds & _TRAVELLING if value.kinds & _THINGS else frozenset()
    items = tuple(for_others(item) for item in value.items) if value.items is not None else None
    fields = None
    if value.fields is not None:
        fields = {name: for_others(field) for name, field in value.fields.items()}
    element = for_others(value.element) if value.element is not None else None
    return Value(kinds, items, element, fields)
