"""The copy of the runtime beside scripts that do without `xla_migrate` (`--style native`).

The package contains unchanged copies of the runtime modules that the scripts use; they import each other
relatively. Only its `__init__` is generated, with the names that the scripts use. It is for torch_xla: the
eager backend is not included.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable, Iterator

NAME = "xla_runtime"
_MARK = "# Written by `xla-migrate --style native`"
_RUNTIME = os.path.join(os.path.dirname(os.path.dirname(__file__)), "runtime")

# What is imported by a name that is made up when it is needed: the backend, and the patches that it applies.
_ALWAYS = ("_backend", "patches", "torch_xla.backend")
# It asks the command's own modules, and no migration writes it.
_WITHOUT = "compiler_options"
# Classes that are another backend's elsewhere.
_OF_TORCH_XLA = {
    "DistributedDataParallel": "replicas.data_parallel",
    "FullyShardedDataParallel": "torch_xla.fully_sharded",
    "LBFGS": "torch_xla.lbfgs",
    "SyncBatchNorm": "replicas.normalization",
    "fully_shard": "torch_xla.fully_sharded",
}
_NO_EAGER = '''\
"""Not here: this copy is for torch_xla. Migrate without `--style native` for a script that runs on CUDA, too."""

raise ImportError(__doc__)
'''


def is_ours(folder: str) -> bool:
    """True if `folder` is such a copy."""
    try:
        with open(os.path.join(folder, "__init__.py"), encoding="utf-8") as file:
            return file.readline().startswith(_MARK)
    except (OSError, ValueError):
        return False


def names_in(data: bytes) -> frozenset[str]:
    """The names of the copy that a source uses; empty where it imports none."""
    if NAME.encode() not in data:
        return frozenset()
    import ast

    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError):
        return frozenset()
    nodes = list(ast.walk(tree))
    imports = (a for n in nodes if isinstance(n, ast.Import) for a in n.names if a.name == NAME)
    local = {alias.asname or NAME for alias in imports}
    used = {n.attr for n in nodes if isinstance(n, ast.Attribute) and _name(n.value) in local}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == NAME and not node.level:
            used |= {alias.name for alias in node.names}
    # A file that only imports it has the fixed torch.
    return frozenset(used & homes().keys()) or frozenset({"xla_device"} if local else ())


def _name(node: ast.expr) -> str:
    return getattr(node, "id", "")


def homes() -> dict[str, str]:
    """Name of the runtime -> the module of its that has it."""
    if not _homes:
        _homes.update(_read_homes())
    return _homes


_homes: dict[str, str] = {}


def _read_homes() -> dict[str, str]:
    import ast

    tree = ast.parse(_source("__init__"))
    found: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
            found |= {alias.name: node.module for alias in node.names}
        if isinstance(node, ast.Assign) and _name(node.targets[0]) == "_LAZY":
            for home, names in ast.literal_eval(node.value).items():
                found |= dict.fromkeys(names.split(), home)
    del found[_WITHOUT]
    return {**found, **_OF_TORCH_XLA}


def files(names: Iterable[str]) -> dict[str, str]:
    """The copy for scripts that use these names: path in it, with `/` -> text."""
    names = sorted(names)
    modules = _closure([*_ALWAYS, *(homes()[name] for name in names)])
    out = {"__init__.py": _init(names), "eager/__init__.py": _NO_EAGER}
    for module in sorted(modules):
        path = _path(module)
        out[path] = _source(module)
        while "/" in path:
            path = path.rpartition("/")[0]
            out.setdefault(f"{path}/__init__.py", _source(path.replace("/", ".")))
    return out


def known_names(folder: str) -> frozenset[str]:
    """The names that the copy in `folder` has; none if there is no copy."""
    if not is_ours(folder):
        return frozenset()
    import ast

    with open(os.path.join(folder, "__init__.py"), "rb") as file:
        tree = ast.parse(file.read())
    found = (n.value for n in tree.body if isinstance(n, ast.Assign))
    listed: list[str] = next((ast.literal_eval(v) for v in found if isinstance(v, ast.List)), [])
    return frozenset(listed) & homes().keys()


def _init(names: list[str]) -> str:
    from .. import __version__

    by_home: dict[str, list[str]] = {}
    for name in names:
        by_home.setdefault(homes()[name], []).append(name)
    imports = "\n".join(
        f"from .{home} import {', '.join(of_home)}" for home, of_home in sorted(by_home.items())
    )
    listed = "".join(f'    "{name}",\n' for name in names)
    return f'''{_MARK}, xla-migrate {__version__} (Apache-2.0), with the parts that the scripts next to it use.
"""The parts of xla-migrate's runtime that the scripts next to this folder use, for torch_xla.

To add a missing name, run `xla-migrate --style native` on the script that needs it.
"""

# The patches to torch come before the modules that rely on them.
from . import patches
from ._backend import uses_torch_xla

patches.apply("import")
if uses_torch_xla():
    from .torch_xla import modules as _

    patches.apply("torch_xla")

{imports}

__all__ = [
{listed}]
'''


def _closure(modules: Iterable[str]) -> set[str]:
    """These modules of the runtime, and those that they import."""
    found: set[str] = set()
    stack = list(modules)
    while stack:
        module = stack.pop()
        if module not in found and not module.startswith("eager"):
            found.add(module)
            stack += _imported(module)
            if module == "patches":
                stack += _patches()
    return found


def _patches() -> Iterator[str]:
    """The modules below `patches`, also in its folders."""
    for folder, _, names in os.walk(os.path.join(_RUNTIME, "patches")):
        package = os.path.relpath(folder, _RUNTIME).replace(os.sep, ".")
        for name in names:
            if name.endswith(".py") and name != "__init__.py":
                yield f"{package}.{name[:-3]}"


def _imported(module: str) -> Iterator[str]:
    """The modules of the runtime that `module` imports, anywhere in it."""
    import ast

    package = module.split(".") if _is_package(module) else module.split(".")[:-1]
    for node in ast.walk(ast.parse(_source(module))):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = package[: len(package) - node.level + 1] + (node.module or "").split(".")
        home = ".".join(part for part in base if part)
        if home:
            yield home
        for alias in node.names:
            inner = f"{home}.{alias.name}" if home else alias.name
            if os.path.isfile(os.path.join(_RUNTIME, _path(inner))):
                yield inner


def _is_package(module: str) -> bool:
    return os.path.isdir(os.path.join(_RUNTIME, *module.split(".")))


def _path(module: str) -> str:
    parts = "/".join(module.split("."))
    return f"{parts}/__init__.py" if _is_package(module) else f"{parts}.py"


def _source(module: str) -> str:
    path = "__init__.py" if module == "__init__" else _path(module)
    with open(os.path.join(_RUNTIME, path), encoding="utf-8") as file:
        return file.read()
