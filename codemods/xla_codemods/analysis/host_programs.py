"""Programs and tests that train on the CPU, because they name no device and nothing that could choose one, and programs
without torch.
"""

from __future__ import annotations

import ast
import builtins
import os
import re
import sys
from collections.abc import Iterable

from ..finding import Finding
from ..patterns import Pattern
from .parsed_file import ParsedFile
from .projects.files import imports_in
from .script import Script
from .syntax import imported_modules, unparsed, walk_body
from .training.tensors.losses import losses
from .training.turns import in_each_step

_DEVICES = Pattern(
    r"device|gpu|accelerat|\b(?:torch_)?xla(?:\b|_)"
    r"|\.to\((?!\s*(?:\w+\.)?(?:dtype|b?float\d*|double|half|int\d*|long|bool)\b)",  # not to a type
    re.IGNORECASE,
)
_TEST_FILE = Pattern(r"test_.*\.py|.*_test\.py")
_TEST_LIBRARIES = frozenset({"pytest", "unittest"})
# Of `_KNOWN` those that are not torch's.
_PLAIN = frozenset("PIL cv2 matplotlib numpy pandas scipy skimage sklearn tqdm".split())
_BUILTINS = frozenset(dir(builtins)) | {"__file__", "__name__"}
# Libraries that do not move tensors.
_KNOWN = frozenset(
    """
    PIL cv2 gym gymnasium matplotlib mpl_toolkits numpy pandas requests scipy skimage sklearn tensorboardX torch torchaudio torchtext
    torchvision tqdm yaml
    """.split()
)
# Libraries of programs that pass an option on, write code, or read settings.
_OF_PROGRAMS = frozenset(
    """
    absl attr attrs boto3 botocore click colorama configargparse docker dotenv environs fire github hydra invoke jinja2 mako
    omegaconf packaging paramiko psutil pydantic pytest requests rich ruamel setuptools sh simple_parsing slurm submitit tap
    tabulate toml tomli tomllib typer typing_extensions tyro ujson urllib3 yaml
    """.split()
)
# Frameworks that train without torch: `optimizer.step(grad)` and `loss.item()` are their own there.
_OTHER_FRAMEWORKS = frozenset(
    "chainer flax haiku jax megengine mindspore mlx mxnet oneflow optax paddle tinygrad".split()
)
# Libraries that load without torch.
WITHOUT_TORCH = _OF_PROGRAMS | _PLAIN | _OTHER_FRAMEWORKS
_ASKS_FOR_TORCH = Pattern(r"\btorch\b|\btransformers\b|\blightning\b|\baccelerate\b")


def is_program_without_torch(script: ParsedFile) -> bool:
    """True if the file is a program by itself that computes nothing with torch, and no module of one that does.

    To a code generator or a launcher the name of a device is a word, that others read.
    """
    if any(not _is_without_torch(script, name) for name in _imported(script)):
        return False
    project = script.project
    if project.is_alone:
        return _runs(script)
    return not project.in_its_programs(project.modules.matching(_ASKS_FOR_TORCH)) and (
        _runs(script) or not project.programs
    )


def _is_without_torch(script: ParsedFile, module: str) -> bool:
    root = module.partition(".")[0]
    if root in _OF_PROGRAMS or root in _PLAIN or root in sys.stdlib_module_names:
        return True
    # One of the project's own is looked into with the others.
    return script.project.has(module)


def without_training_on_the_host(
    script: Script, found: list[Finding], of_any_training: frozenset[str]
) -> list[Finding]:
    """Return `found`; nothing if the file is a program or a test that trains on the CPU, also on an XLA host, and
    nothing about training in a file of a framework that is not torch.

    Args:
        script: the file.
        found: its findings.
        of_any_training: codes of what is found in any training, whatever it runs on. Any other finding speaks of an
            accelerator, or of a library that takes one by itself.
    """
    if found and _trains_without_torch(script):
        return [f for f in found if f.code not in of_any_training]
    if found and all(f.code in of_any_training or _is_about_remote_calls(f) for f in found):
        if _is_one(script) or _is_a_test(script) or _calls_other_hosts(script):
            return []
        if _reads_without_a_copy(script):
            return []
    return found


def _trains_without_torch(script: Script) -> bool:
    """Return True if the file imports another framework that trains, and nothing of torch."""
    roots = {found.home.partition(".")[0] for found in imports_in(script.source.text)}
    return not roots.isdisjoint(_OTHER_FRAMEWORKS) and not any("torch" in root for root in roots)


def _reads_without_a_copy(script: Script) -> bool:
    """True if the file trains where numpy can look at the loss: `loss.detach().numpy()` raises on any other device."""
    text = script.source.text
    if ".numpy()" not in text or ".cpu(" in text:
        return False
    trained = {(script.function(loss), unparsed(loss)) for loss in losses(script)}
    return any(
        call in in_each_step(script) and (script.function(call), _looked_at(call)) in trained
        for call, _ in script.index.calls_of("numpy")
    )


def _looked_at(node: ast.expr) -> str:
    """`loss`, of `loss.detach().mean().numpy()` and `loss.data.numpy()`."""
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=inner), args=[]):
                node = inner
            case ast.Attribute(value=inner, attr="data"):
                node = inner
            case _:
                return unparsed(node)


def _calls_other_hosts(script: Script) -> bool:
    """True if the file trains by remote calls, which take tensors of the CPU alone, and names no device."""
    text = script.source.text
    return (
        script.trains
        and "torch.distributed.rpc" in text
        and _DEVICES.search(text) is None
        and not script.runs_accelerated
    )


def _is_about_remote_calls(finding: Finding) -> bool:
    return "torch.distributed.rpc" in finding.message


def _is_one(script: Script) -> bool:
    return (
        _DEVICES.search(script.source.text) is None
        and _runs(script)
        and all(map(_is_known, _imported(script)))
        and not script.runs_accelerated  # last: the answer depends on other modules
    )


def _is_a_test(script: Script) -> bool:
    """True if pytest or unittest runs the file, and it names no device: what it tests is made and run on the CPU.

    A function that is called `test_epoch` makes no test of a module: a program runs that.
    """
    return (
        _DEVICES.search(script.source.text) is None
        and (
            _TEST_FILE.fullmatch(os.path.basename(script.path)) is not None
            or not _TEST_LIBRARIES.isdisjoint(_imported(script))
        )
        and any(
            isinstance(node, ast.FunctionDef) and node.name.startswith("test")
            for statement in script.tree.body
            for node in (statement, *getattr(statement, "body", ()))
        )
        and not script.runs_accelerated  # last: the answer depends on other modules
    )


def _runs(script: ParsedFile) -> bool:
    """True if the file does something when it is run: `if __name__ == "__main__":`, or loops over what it has made."""
    body = script.tree.body
    if any(isinstance(s, ast.If) and "__name__" in ast.unparse(s.test) for s in body):
        return True
    return any(isinstance(s, (ast.For, ast.While)) for s in body) and not any(
        node.id not in script.module.bindings and node.id not in _BUILTINS
        for node in walk_body(body)
        if isinstance(node, ast.Name)
    )


def _imported(script: ParsedFile) -> Iterable[str]:
    return (name for node in walk_body(script.tree.body) for name in imported_modules(node))


def _is_known(module: str) -> bool:
    root = module.partition(".")[0]
    return root in _KNOWN or root in sys.stdlib_module_names
