"""Infer the value of a call: of a library's function, a builtin, a local function or class, a method."""

from __future__ import annotations

import ast

from ..loops import is_called_a_model
from ..nodes import walk
from ..scopes import Scope, resolve
from ..syntax import keyword, name_of, text_of, unparsed
from . import library_types
from .arrays import array, is_double, of_array
from .inference import Inference
from .members import attribute_of, is_settings, section
from .values import (
    ACCEL,
    ACCELERATOR,
    ARGUMENTS,
    ARRAY,
    BATCH,
    CLASS,
    DEVICE,
    DEVICE_LOADER,
    DISTRIBUTION,
    DOUBLE,
    DTYPE,
    GIVEN,
    HOST,
    ITERATOR,
    LOADER,
    MODULE,
    NONE,
    NUMBER,
    OPTIMIZER,
    PARAMETERS,
    SCHEDULER,
    STRING,
    TENSOR,
    UNKNOWN,
    WEIGHT,
    Value,
    join,
    of,
)

# Bases of classes whose objects are dictionaries.
_DICTIONARIES = frozenset({"dict", "OrderedDict", "UserDict"})
_TUPLE_RETURNING = frozenset("max min topk sort kthvalue median mode chunk split unbind".split())
_NAMED = Value(frozenset({PARAMETERS}), element=Value(items=(of(STRING), of(TENSOR, WEIGHT))))
_SAME_MODULE = frozenset("to cuda cpu train eval half float bfloat16 double requires_grad_".split())


def call(values: Inference, node: ast.Call, scope: Scope) -> Value:
    dotted = resolve(node.func, scope)
    if dotted is not None:
        return _library(values, dotted, node, scope)
    if isinstance(node.func, ast.Name) and scope.find(node.func.id) is None:
        return _builtin(values, node.func.id, node, scope)
    callee = values.value(node.func, scope)
    if isinstance(callee.definition, ast.ClassDef):
        home = values.scopes[callee.definition]
        if callee.has(CLASS):
            made = values.instance(callee.definition, home.parent or home)
            return _with_settings(values, made, node, scope)
        if not callee.has(MODULE):
            method = values.method(callee.definition, "__call__")
            return values.returned(*method) if method else UNKNOWN
    elif callee.definition is not None:
        home = values.scopes[callee.definition]
        return values.returned(callee.definition, home.parent or home, (node, scope))
    if callee.has(MODULE):
        return _forward(values, callee, node, scope)
    found = UNKNOWN
    if isinstance(node.func, ast.Attribute):
        found = _method(values, node.func, node, scope)
    if found == UNKNOWN and callee == UNKNOWN and is_called_a_model(node.func):
        if ACCEL in (place := _place(values, node, scope)):  # it computes there, then
            return Value(frozenset({TENSOR, *place}))
    return found


def _forward(values: Inference, module: Value, node: ast.Call, scope: Scope) -> Value:
    """What calling a module gives: tensors where its input is; of a local class what its `forward` returns."""
    place = _place(values, node, scope)
    if HOST in place and any(values.value(a, scope).has(BATCH) for a in node.args):
        place = frozenset()  # a batch that is not moved is on the module's device
    if isinstance(module.definition, ast.ClassDef):
        method = values.method(module.definition, "forward")
        returned = values.returned(*method) if method is not None else UNKNOWN
        if returned != UNKNOWN:
            return _placed(returned, place)
    return Value(frozenset({TENSOR, *place}))


def _placed(value: Value, place: frozenset[str]) -> Value:
    """`value` with `place` for the tensors of it that have none; what is unknown in a tuple is a tensor."""
    if value.items is not None:
        return value._replace(items=tuple(_placed(item, place) for item in value.items))
    if value.fields is not None:
        fields = {name: _placed(field, place) for name, field in value.fields.items()}
        return value._replace(fields=fields)
    if not value.kinds and value.definition is None and value.element is None:
        return Value(frozenset({TENSOR, *place}))
    if value.has(TENSOR) and not value.kinds & {ACCEL, HOST}:
        return value._replace(kinds=value.kinds | place)
    return value


def _library(values: Inference, dotted: str, node: ast.Call, scope: Scope) -> Value:
    if values.own is not None and (own := values.own(dotted)) is not None:
        return own
    if dotted in {"torch.device", f"{library_types.RUNTIME}.xla_device"}:
        return _device(values, node, scope)
    last = dotted.rpartition(".")[2]
    if dotted.startswith("torch.") and last in library_types.FACTORIES and dotted.count(".") == 1:
        return _factory(values, dotted, node, scope)
    if dotted in _WRAPPERS and node.args:
        return _wrapped(values, dotted, node, scope)
    if dotted in library_types.FUNCTIONAL_CALLS and len(node.args) > 2:
        given = node.args[2].elts if isinstance(node.args[2], ast.Tuple) else node.args[2:3]
        module = values.value(node.args[0], scope)
        return _forward(values, module, ast.Call(node.args[0], given, []), scope)
    if dotted == "torch.autograd.Variable" and node.args:  # a tensor, where its argument is
        return join(values.value(node.args[0], scope), of(TENSOR))
    if dotted == "collections.defaultdict" and len(node.args) == 1:
        made = values.value(node.args[0], scope).definition
        if isinstance(made, ast.ClassDef):
            return Value(fields={}, element=values.instance(made, scope))
        return UNKNOWN
    if dotted in library_types.SETTINGS_OF:
        return _settings(values, node, scope)
    if dotted in {"os.environ.get", "os.getenv"}:
        return _or_default(values, of(STRING, GIVEN), node, scope)
    value = library_types.result(dotted)
    if dotted == "torch.Tensor":
        return Value(frozenset({TENSOR, *_default_place(values, dotted)}))
    if value.has(ARRAY):
        return array(values, dotted, node, scope)
    if dotted == "torch.from_numpy" and node.args:
        return of_array(value, values.value(node.args[0], scope))
    if dotted.startswith("torch.distributions."):
        kind = DISTRIBUTION if last[:1].isupper() else TENSOR  # kl_divergence(p, q)
        return Value(frozenset({kind, *_place(values, node, scope)}))
    if dotted == "torch.autograd.grad":
        return Value(element=Value(frozenset({TENSOR, *_place(values, node, scope)})))
    if value.has(DEVICE_LOADER) and keyword(node, "host") is not None:
        return value._replace(element=_batch_with_parts_on_host(keyword(node, "host")))
    if value != UNKNOWN:
        return value
    if dotted in library_types.REARRANGING and node.args:  # of arrays, too
        is_tensor = values.value(node.args[0], scope).has(TENSOR)
        return Value(frozenset({TENSOR, *_place(values, node, scope)})) if is_tensor else UNKNOWN
    if library_types.is_tensor_function(dotted):
        value = Value(frozenset({TENSOR, *_place(values, node, scope)}))
        return Value(value.kinds, element=value) if last in _TUPLE_RETURNING else value
    return values.elsewhere(dotted) if values.elsewhere is not None else UNKNOWN


_KEPT = of(BATCH, HOST)  # a part of a batch that stays on the host: a tensor, texts, ...


def _batch_with_parts_on_host(host: ast.expr | None) -> Value:
    """Return the batches of `xla.MpDeviceLoader(loader, host=(1,))`, if numbers or names identify their parts."""
    given = host.elts if isinstance(host, ast.Tuple) else []
    parts = [e.value for e in given if isinstance(e, ast.Constant)]
    indices = [part for part in parts if isinstance(part, int) and part >= 0]
    names = [part for part in parts if isinstance(part, str)]
    if names and len(names) == len(given):  # they may be texts, and the other parts no tensors
        return UNKNOWN._replace(fields=dict.fromkeys(names, _KEPT))
    if not indices or len(indices) < len(given):
        return UNKNOWN
    moved, kept = of(TENSOR, BATCH, ACCEL), of(TENSOR, BATCH, HOST)
    items = [kept if k in indices else moved for k in range(max(indices) + 1)]
    return moved._replace(items=tuple(items))


def _settings(values: Inference, node: ast.Call, scope: Scope) -> Value:
    """`EasyDict(config)`, `Namespace(**config)`, `OmegaConf.create(config)`: settings where `config` is."""
    given = [*node.args, *(k.value for k in node.keywords if k.arg is None)]
    found = (values.value(argument, scope) for argument in given)
    return next(filter(is_settings, found), UNKNOWN)


def _with_settings(values: Inference, made: Value, node: ast.Call, scope: Scope) -> Value:
    """Return `made`, an object of a class of the file, as settings, too, if it has the entries of settings."""
    definition = made.definition
    if isinstance(definition, ast.ClassDef) and (node.args or node.keywords):
        if (given := _settings(values, node, scope)) != UNKNOWN:
            if any(map(_takes_entries, values.lineage(definition))):
                return made._replace(kinds=made.kinds | given.kinds)
    return made


def _takes_entries(definition: ast.ClassDef) -> bool:
    """Return True for a dictionary, and for a class whose objects get a dictionary's entries as attributes."""
    if any(name_of(base) in _DICTIONARIES for base in definition.bases):
        return True
    functions = (s for s in definition.body if getattr(s, "name", "") == "__init__")
    return any(_updates_itself(node) for f in functions for node in walk(f))


def _updates_itself(node: ast.AST) -> bool:
    """Return True for `self.__dict__.update(...)`, `self.__dict__ = ...`, and `setattr(self, name, ...)`."""
    match node:
        case ast.Call(func=ast.Name(id="setattr"), args=[ast.Name(id="self"), name, _]):
            return not isinstance(name, ast.Constant)
        case ast.Call(func=ast.Attribute(value=place, attr="update")) | ast.Assign(targets=[place]):
            return unparsed(place) == "self.__dict__"
    return False


def _or_default(values: Inference, given: Value, node: ast.Call, scope: Scope) -> Value:
    """`config.get("device", "cuda")`: what is `given`, or else the default."""
    default = values.value(node.args[1], scope) if len(node.args) > 1 else UNKNOWN
    return given._replace(kinds=given.kinds | (default.kinds - {HOST, NONE}))


def _device(values: Inference, node: ast.Call, scope: Scope) -> Value:
    argument = node.args[0] if node.args else keyword(node, "device") or keyword(node, "type")
    if argument is None:
        return of(DEVICE, ACCEL)
    place = values.value(argument, scope).kinds & {ACCEL, HOST}
    return Value(frozenset({DEVICE, *place}))


def _factory(values: Inference, dotted: str, node: ast.Call, scope: Scope) -> Value:
    device = keyword(node, "device")
    if device is not None:
        place = _moved_to(values, device, scope)
    elif any(k.arg is None for k in node.keywords):
        place = _unpacked_place(values, node, scope)
    else:
        place = _default_place(values, dotted)
    made = Value(frozenset({TENSOR, *(place or ())}))
    dtype = keyword(node, "dtype")
    if dtype is not None:
        return made._replace(kinds=made.kinds | {DOUBLE}) if is_double(dtype, scope) else made
    return of_array(made, values.value(node.args[0], scope)) if node.args else made


def _default_place(values: Inference, dotted: str) -> frozenset[str]:
    """Where `dotted` makes tensors without a `device`: on the host, unless the program makes an accelerator the default.

    `torch.Tensor(...)` asks for the default type alone.
    """
    if values.has_default is not None and values.has_default(dotted):
        return frozenset({ACCEL})
    types = (call.args[0] for call, _ in values.calls("set_default_tensor_type") if call.args)
    if any("cuda" in unparsed(given) for given in types):
        return frozenset({ACCEL})
    for call, scope in values.calls("set_default_device") if dotted != "torch.Tensor" else ():
        given = call.args[0] if call.args else keyword(call, "device")
        if given is not None and ACCEL in (_moved_to(values, given, scope) or ()):
            return frozenset({ACCEL})
    return frozenset({HOST})


def _unpacked_place(values: Inference, node: ast.Call, scope: Scope) -> frozenset[str]:
    """Return the accelerator if `**options` of `node` surely name it; an entry may be added or changed later."""
    options = [values.value(k.value, scope) for k in node.keywords if k.arg is None]
    return join(*((each.fields or {}).get("device", UNKNOWN) for each in options)).kinds & {ACCEL}


def _moved_to(values: Inference, device: ast.expr, scope: Scope) -> frozenset[str] | None:
    """Return the device after a move to `device`: None if unchanged, as with a data type; empty if unknown.

    A device that the script has chosen is the accelerator, and so is what is called a device.
    """
    value = values.value(device, scope)
    if value.has(DEVICE):
        return value.kinds & {ACCEL, HOST} or frozenset({ACCEL})
    if value.kinds & {DTYPE, TENSOR}:
        return None
    name = name_of(device)
    return frozenset({ACCEL}) if name.endswith("device") else frozenset()


def _wrapped(values: Inference, dotted: str, node: ast.Call, scope: Scope) -> Value:
    """Calls that hand their argument through: `tqdm(loader)`, `DistributedDataParallel(model)`, ..."""
    if dotted.endswith(".initialize"):
        model, optimizer = (values.value(a, scope) for a in (*node.args, *[None] * 2)[:2])
        if dotted.endswith("deepspeed.initialize"):
            return Value(items=(of(MODULE), of(OPTIMIZER), of(LOADER), of(SCHEDULER)))
        return Value(items=(model, optimizer)) if len(node.args) > 1 else model
    if dotted == "itertools.zip_longest":
        return _zip(values, node, scope)
    return values.value(node.args[0], scope)


def _builtin(values: Inference, name: str, node: ast.Call, scope: Scope) -> Value:
    arguments = node.args
    if name == "enumerate" and arguments:
        return Value(
            element=Value(items=(of(NUMBER), values.element(values.value(arguments[0], scope))))
        )
    if name == "zip":
        return _zip(values, node, scope)
    if name == "iter" and arguments:
        value = values.value(arguments[0], scope)
        return Value(frozenset({ITERATOR, *value.kinds}), element=values.element(value))
    if name == "next" and arguments:
        return values.element(values.value(arguments[0], scope))
    if name == "list" and not arguments:
        return Value(items=())
    if name in {"list", "tuple", "sorted", "reversed", "set"} and arguments:
        value = values.value(arguments[0], scope)
        return (
            Value(items=value.items, element=values.element(value))
            if not value.has(PARAMETERS)
            else value
        )
    if name == "vars":
        return _settings(values, node, scope)
    if name == "dict":
        return Value(fields={k.arg: values.value(k.value, scope) for k in node.keywords if k.arg})
    if name == "getattr" and len(arguments) > 1 and isinstance(arguments[1], ast.Constant):
        return attribute_of(values.value(arguments[0], scope), str(arguments[1].value))
    if name in {"sum", "max", "min", "abs"} and arguments:
        value = values.value(arguments[0], scope)
        return value if value.has(TENSOR) else value.iterated()
    if name == "super":
        around = values.file.class_around(node)
        if around is not None:
            return values.instance(around, values.scopes[around].parent or scope)
    return library_types.result(name)


def _zip(values: Inference, node: ast.Call, scope: Scope) -> Value:
    return Value(
        element=Value(items=tuple(values.element(values.value(a, scope)) for a in node.args))
    )


def _method(values: Inference, func: ast.Attribute, node: ast.Call, scope: Scope) -> Value:
    base = values.value(func.value, scope)
    name = func.attr
    if base.has(MODULE):
        return _module_method(values, base, name, node, scope)
    if base.has(TENSOR) and not (base.fields is not None and name in _OF_DICTS):
        return _tensor_method(values, base, name, node, scope)
    if base == _KEPT:
        return _tensor_method(values, of(TENSOR, *base.kinds), name, node, scope)
    if base.has(ACCELERATOR):
        return _accelerator_method(values, name, node, scope)
    if base.fields is not None:
        return _dict_method(values, base, name, node)
    if name == "get" and node.args and is_settings(base):
        return _or_default(values, section(base), node, scope)
    if name in {"parse_args", "parse_known_args"}:
        return of(ARGUMENTS) if name == "parse_args" else Value(items=(of(ARGUMENTS), UNKNOWN))
    if name == "items" and base.element is not None:
        return Value(element=Value(items=(of(STRING), base.element)))
    if base.has(BATCH) and name in {"values", "to"}:
        return base
    if base.has(DISTRIBUTION):
        return Value(base.kinds - {DISTRIBUTION} | {TENSOR})
    if base.has(ARRAY) and name in library_types.SAME_TYPE:
        return base
    if base == UNKNOWN and name in library_types.TENSORS_ALONE:
        return of(TENSOR)
    if base == UNKNOWN and name in {"parameters", "named_parameters"} and not node.args:
        return _NAMED if name == "named_parameters" else of(PARAMETERS)
    return base if library_types.is_of_others(base) else UNKNOWN


def _module_method(
    values: Inference, base: Value, name: str, node: ast.Call, scope: Scope
) -> Value:
    if name in _SAME_MODULE:
        return base
    if name in {"parameters", "buffers"}:
        return of(PARAMETERS)
    if name in {"named_parameters", "named_buffers"}:
        return _NAMED
    if name in library_types.CHECKPOINTS:
        return library_types.CHECKPOINTS[name]
    if name in {"forward", "__call__"}:
        return Value(frozenset({TENSOR, *_place(values, node, scope)}))
    if isinstance(base.definition, ast.ClassDef):
        method = values.method(base.definition, name)
        return values.returned(*method) if method is not None else UNKNOWN
    if name == "generate" and keyword(node, "return_dict_in_generate") is None:
        return Value(frozenset({TENSOR, *_place(values, node, scope)}))  # of transformers
    return UNKNOWN


def _tensor_method(
    values: Inference, base: Value, name: str, node: ast.Call, scope: Scope
) -> Value:
    kinds = base.kinds if name in library_types.SAME_TYPE else base.kinds - {DOUBLE}
    if name == "double":
        kinds |= {DOUBLE}
    if name in library_types.NUMBER_METHODS:
        return of(NUMBER)
    if name in library_types.ARRAY_METHODS:
        return of(ARRAY)
    if name in library_types.HOST_METHODS:
        return Value(kinds - {ACCEL} | {HOST})
    if name == "cuda" or (name == "type" and _is_cuda_type(node, scope)):
        return Value(kinds - {HOST} | {ACCEL})
    if name == "to":
        target = node.args[0] if node.args else keyword(node, "device")
        place = _moved_to(values, target, scope) if target is not None else None
        if target is None and node.keywords:
            place = _unpacked_place(values, node, scope) or None
        if place is None or len(node.args) > 1 or keyword(node, "dtype") is not None:
            kinds -= {DOUBLE}
        if place is None:
            return base if kinds == base.kinds else base._replace(kinds=kinds)
        return Value(kinds - {ACCEL, HOST} | place)
    if name == "type_as":  # it goes to the other's device, too
        return Value(kinds - {ACCEL, HOST, BATCH} | _place(values, node, scope))
    if name in {"backward", "get_device"}:
        return of(NUMBER)
    if name == "keys":  # no tensor has it: a dict of tensors
        return Value(element=of(STRING))
    if name == "items":
        return Value(element=Value(items=(of(STRING), Value(kinds))))
    if name in {"values", "get", "pop"} and BATCH in kinds:
        return base
    value = Value(kinds - {BATCH})
    return Value(value.kinds, element=value) if name in _TUPLE_RETURNING else value


def _is_cuda_type(node: ast.Call, scope: Scope) -> bool:
    """Return True for `x.type(torch.cuda.LongTensor)` and `x.type("torch.cuda.LongTensor")`."""
    given = node.args[0] if node.args else None
    named = text_of(given) or (resolve(given, scope) if given is not None else None)
    return (named or "").startswith("torch.cuda.")


def _accelerator_method(values: Inference, name: str, node: ast.Call, scope: Scope) -> Value:
    """Accelerate's `prepare` returns what it was given."""
    if name == "prepare":
        given = tuple(_prepared(values.value(argument, scope)) for argument in node.args)
        return given[0] if len(given) == 1 else Value(items=given)
    if name in {"unwrap_model", "gather", "gather_for_metrics", "reduce"} and node.args:
        return values.value(node.args[0], scope)
    return UNKNOWN


def _prepared(value: Value) -> Value:
    """Loaders move their batches afterwards."""
    return Value(frozenset({DEVICE_LOADER})) if value.has(LOADER) else value


def _place(values: Inference, node: ast.Call, scope: Scope) -> frozenset[str]:
    """On the accelerator if any operand is known to be; on the host if all known ones are."""
    places: set[str] = set()
    for argument in (*node.args, *(k.value for k in node.keywords)):
        value = values.value(
            argument.value if isinstance(argument, ast.Starred) else argument, scope
        )
        for part in (value, *(value.items or ()), value.element or UNKNOWN):
            if part.kinds & {TENSOR, DISTRIBUTION}:
                places |= part.kinds & {ACCEL, HOST, WEIGHT}
    return frozenset({ACCEL}) if ACCEL in places else frozenset(places)


_WRAPPERS = frozenset(
    {
        "tqdm.tqdm",
        "tqdm.auto.tqdm",
        "tqdm.notebook.tqdm",
        "tqdm.std.tqdm",
        "rich.progress.track",
        "itertools.islice",
        "itertools.cycle",
        "itertools.zip_longest",
        "torch.nn.DataParallel",
        "torch.nn.parallel.DataParallel",
        "torch.nn.parallel.DistributedDataParallel",
        "torch.nn.parallel.distributed.DistributedDataParallel",
        "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
        "apex.parallel.DistributedDataParallel",
        "apex.parallel.convert_syncbn_model",
        "torch.compile",
        f"{library_types.RUNTIME}.compile",
        f"{library_types.RUNTIME}.DataParallel",
        f"{library_types.RUNTIME}.DistributedDataParallel",
        "torch.jit.script",
        "apex.amp.initialize",
        "deepspeed.initialize",
        f"{library_types.RUNTIME}.compat.deepspeed.initialize",
        "copy.deepcopy",
        "copy.copy",
    }
)


_EMPTY = Value(fields={})
_OF_DICTS = frozenset({"get", "items", "keys", "pop", "setdefault", "values"})


def _dict_method(values: Inference, base: Value, name: str, node: ast.Call) -> Value:
    fields = base.fields or {}
    element = join(*fields.values(), *filter(None, [base.element]))
    match name, node.args:
        case "get" | "pop" | "setdefault", [ast.Constant(value=key), *_]:
            return fields.get(str(key), base.element or UNKNOWN)
        case "get" | "pop" | "setdefault", [_, *_]:
            assert isinstance(node.func, ast.Attribute)
            return values.entry(node.func.value)
        case "keys", _:
            return Value(element=of(STRING))
        case "values" | "items", _:
            if base == _EMPTY:
                assert isinstance(node.func, ast.Attribute)
                element = values.entry(node.func.value)
            return Value(
                element=element if name == "values" else Value(items=(of(STRING), element))
            )
    return UNKNOWN
