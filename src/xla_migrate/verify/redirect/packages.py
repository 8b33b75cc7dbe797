"""CUDA-only packages that a script imports: reference implementations in their place.

A stub answers only to the user's own code. A library that probes for an optional package
(`importlib.util.find_spec("flash_attn")`, `try: import apex` in transformers or timm) must go on
finding none, or it would change its path.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from ..observe.plan import CUDA_ONLY
from ..observe.process import where
from ..observe.process.imports import after, hide
from ..observe.process.patching import Patches

_HERE = Path(__file__).parent.parent / "stubs"
# deepspeed is more than its fused optimizers: an installed one is left alone.
WHEN_MISSING = ("deepspeed",)
# None of these computes anything without CUDA, installed or not.
ALWAYS = tuple(name for name in CUDA_ONLY if name not in WHEN_MISSING)
# Classes of diffusers that switch to xformers' kernels.
_SWITCHED = {
    "diffusers.models.modeling_utils": "ModelMixin",
    "diffusers.pipelines.pipeline_utils": "DiffusionPipeline",
}


class StubFinder:
    """A meta-path finder for the stubs' top-level names."""

    def find_spec(
        self, name: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The stub for `name`, when it is the user's code that imports it."""
        if name not in ALWAYS and not (name in WHEN_MISSING and PathFinder.find_spec(name) is None):
            return None
        if not _asked_by_user():
            return None
        folder = _HERE / name
        if folder.is_dir():
            return importlib.util.spec_from_file_location(
                name, folder / "__init__.py", submodule_search_locations=[str(folder)]
            )
        return importlib.util.spec_from_file_location(name, folder.with_suffix(".py"))


def _asked_by_user() -> bool:
    """Return True if the project imports or asks for the package, or other code that cannot do without it imports it."""
    if where.is_asked_in_project():
        return True
    frame = where.importer()
    if frame is None:
        return False
    file = frame.f_code.co_filename
    if "site-packages" in file or "dist-packages" in file:
        return False
    return where.is_in_project(file) or not _is_optional(file, frame.f_lineno)


def _is_optional(file: str, line: int) -> bool:
    """Return True if a failing import on this line is caught."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False
    return any(
        isinstance(node, ast.Try)
        and node.handlers
        and node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0)
        for node in ast.walk(tree)
    )


def _can_do_without() -> bool:
    """Return True if a package is only asked for, or imported where a failing import is caught."""
    frame = where.importer()
    return frame is None or _is_optional(frame.f_code.co_filename, frame.f_lineno)


def install(patches: Patches) -> None:
    """Let `import apex` and its like find the stubs, and diffusers keep torch's attention.

    Triton has no kernels for the CPU: whoever can do without it must not choose them for the redirected CUDA.
    """
    _keep_attention(patches)
    if "triton" not in sys.modules:
        patches.on_undo(hide("triton", _can_do_without))
    finder = StubFinder()
    sys.meta_path.insert(0, finder)
    patches.on_undo(lambda: sys.meta_path.remove(finder))

    def forget() -> None:
        for name in [n for n in sys.modules if n.partition(".")[0] in (*ALWAYS, *WHEN_MISSING)]:
            if str(_HERE) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]

    patches.on_undo(forget)


def _keep_attention(patches: Patches) -> None:
    """PyTorch's attention computes what xformers' and flash-attn's kernels would, which need CUDA."""

    def switched(module: ModuleType) -> None:
        name = "set_use_memory_efficient_attention_xformers"
        patches.put(getattr(module, _SWITCHED[module.__name__]), name, lambda *_: None)

    def without_flash(module: ModuleType) -> None:
        models = getattr(module, "PreTrainedModel", None)
        adjust = getattr(models, "_check_and_adjust_attn_implementation", None)

        def adjusted(self: Any, attn_implementation: str | None, *args: Any, **kwargs: Any) -> Any:
            if str(attn_implementation).startswith("flash_attention"):
                attn_implementation = "sdpa" if self._supports_sdpa else "eager"
            return adjust(self, attn_implementation, *args, **kwargs)  # type: ignore[misc]

        if adjust is not None:
            patches.put(models, "_check_and_adjust_attn_implementation", adjusted)

    called: dict[str, Callable[[ModuleType], None]] = dict.fromkeys(_SWITCHED, switched)
    patches.on_undo(after({**called, "transformers.modeling_utils": without_flash}))
