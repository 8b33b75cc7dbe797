"""Requirements that want CUDA: which they are, and what becomes of them.

Sources: the packages' own installation pages; `nvidia-*-cu12` are what torch's CUDA wheels depend on. Rows whose package
installs without CUDA, and then does nothing or computes on the CPU, need manual changes: the code that uses them is
found by the rules for Python.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ...results import ERROR, INFO, WARNING
from .codes import CUDA_PACKAGE, CUDA_WHEEL, TORCH_VERSION
from .found import Edit, Found

# The torch that the last torch_xla fits.
TORCH = "2.9"


class Package(NamedTuple):
    """The verdict on a requirement: `goes` if the line can be deleted, and the message."""

    goes: bool
    message: str
    severity: str = ERROR
    effort: str = "low"


_UNBUILT = "is built by nvcc, which an XLA host does not have: the installation fails"
_ABSENT = "is CUDA-only"
PACKAGES = {
    "apex": Package(True, f"apex {_UNBUILT}"),
    "nvidia-apex": Package(True, f"apex {_UNBUILT}"),
    "flash-attn": Package(True, f"flash-attn {_UNBUILT}"),
    "causal-conv1d": Package(False, f"causal-conv1d {_UNBUILT}", effort="high"),
    "mamba-ssm": Package(False, f"mamba-ssm {_UNBUILT}", effort="high"),
    "transformer-engine": Package(False, f"transformer-engine {_UNBUILT}", effort="medium"),
    "deepspeed": Package(
        False,
        "DeepSpeed needs CUDA: migrated scripts have the engine of `xla_migrate.runtime.compat.deepspeed`; remove it",
        effort="high",
    ),
    "bitsandbytes": Package(
        False, "bitsandbytes has no XLA kernels: its optimizers become torch's", WARNING, "medium"
    ),
    "xformers": Package(
        False, "xformers has no XLA kernels: use torch's attention", WARNING, "medium"
    ),
    "horovod": Package(False, "horovod has no XLA collectives: use torchrun", effort="medium"),
    "pynvml": Package(False, "NVML sees no XLA device", WARNING),
    "nvidia-ml-py": Package(False, "NVML sees no XLA device", WARNING),
    "nvidia-ml-py3": Package(False, "NVML sees no XLA device", WARNING),
    "gputil": Package(False, "GPUtil sees no XLA device", WARNING),
    "nvitop": Package(False, "nvitop sees no XLA device", WARNING),
    "tensorrt": Package(False, f"TensorRT {_ABSENT}", effort="medium"),
    "torch-tensorrt": Package(False, f"TensorRT {_ABSENT}", effort="medium"),
    "triton": Package(False, "Triton compiles no kernels for XLA devices", WARNING, "medium"),
    "liger-kernel": Package(False, "its kernels are Triton's", WARNING, "medium"),
    "sageattention": Package(False, f"sageattention {_ABSENT}", effort="medium"),
    "pycuda": Package(False, f"PyCUDA {_ABSENT}", effort="high"),
    "minkowskiengine": Package(False, f"MinkowskiEngine {_UNBUILT}", effort="high"),
    "onnxruntime-gpu": Package(
        False, "onnxruntime-gpu is built for CUDA: install onnxruntime", WARNING
    ),
    "tensorflow-gpu": Package(False, "tensorflow-gpu is built for CUDA: install tensorflow-cpu"),
}
# A family by its pattern: matched against the whole normalised name.
FAMILIES = (
    (
        re.compile(r"nvidia-(?!dali)[a-z0-9-]+-cu1\d"),
        CUDA_WHEEL,
        Package(True, "a part of CUDA, which torch's CUDA wheels need and an XLA host does not"),
    ),
    (
        re.compile(r"nvidia-dali-cuda\d+"),
        CUDA_PACKAGE,
        Package(False, "DALI decodes on GPUs only: read with torchvision", effort="high"),
    ),
    (
        re.compile(r"cupy(-cuda\d+x?)?"),
        CUDA_PACKAGE,
        Package(False, "CuPy is CUDA-only: use torch or NumPy", effort="medium"),
    ),
    (
        re.compile(r"(cudf|cuml|cugraph|rmm|raft-dask|dask-cudf)(-cu1\d)?"),
        CUDA_PACKAGE,
        Package(False, "RAPIDS is CUDA-only", effort="high"),
    ),
    (
        re.compile(r"faiss-gpu(-cu1\d)?"),
        CUDA_PACKAGE,
        Package(False, "faiss-gpu searches on CUDA devices: install faiss-cpu"),
    ),
    (
        re.compile(r"spconv-cu\d+|dgl-cu\d+"),
        CUDA_PACKAGE,
        Package(
            False, "its operators are compiled for CUDA, and have no XLA kernels", effort="high"
        ),
    ),
)
# name, extras, the rest: what stands in front of versions, markers, options and comments.
_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?P<extras>\[[^\]]*\])?\s*(?P<rest>[^#]*)"
)
_APEX = re.compile(
    r"^(-e\s+)?(git\+)?[a-z]+(://|@)[^\s]*/apex(\.git)?([@#][^\s]*)?\s*$", re.IGNORECASE
)
LOCAL = re.compile(r"(?<=[0-9a-z])\+cu(?:9|1\d)\d\b")
# Within an address: the folder of an index, and the name of a page or wheel.
_ADDRESSES = (
    re.compile(r"/whl/(?:nightly/|test/)?(?P<cuda>cu(?:9|1\d)\d)\b"),
    re.compile(r"://\S*(?:\+|%2B)(?P<cuda>cu(?:9|1\d)\d)\b", re.IGNORECASE),
)
_PINNED = re.compile(r"==\s*(\d+\.\d+)")


def name_of(text: str) -> str:
    """Return the normalised name of a requirement; empty if the text is not a requirement."""
    if _APEX.match(text.strip()):
        return "apex"
    found = _REQUIREMENT.match(text.strip())
    name = found["name"] if found else ""
    return re.sub(r"[-_.]+", "-", name).lower()


def row_of(text: str) -> tuple[str, Package] | None:
    """Code and row of a requirement that wants CUDA; None for any other."""
    name = name_of(text)
    if name in PACKAGES:
        return CUDA_PACKAGE, PACKAGES[name]
    return next(((code, row) for form, code, row in FAMILIES if form.fullmatch(name)), None)


def in_requirement(text: str, start: int, removal: Edit | None) -> list[Found]:
    """Findings in one requirement, which begins at `start` of the file; `removal` takes it away, if it can be."""
    end = start + len(text)
    found = row_of(text)
    if found is not None:
        code, row = found
        edits = (removal,) if row.goes and removal is not None else ()
        return [Found(code, start, end, row.message, edits, row.severity, row.effort)]
    out = []
    for local in LOCAL.finditer(text):
        if "://" in text[: local.start()].rpartition(" ")[2]:
            continue  # of an address, which `in_index` reads
        edit = Edit(start + local.start(), start + local.end(), "")
        message = f"`{local[0]}` is a build for CUDA: pin the version without the suffix"
        out.append(Found(CUDA_WHEEL, edit.start, edit.end, message, (edit,)))
    pinned = _PINNED.search(text)
    if name_of(text) == "torch" and pinned and pinned[1] != TORCH:
        message = f"torch {pinned[1]} does not match torch_xla, whose last release is {TORCH}"
        out.append(Found(TORCH_VERSION, start, end, message, severity=WARNING, effort="medium"))
    return out


def in_index(text: str, start: int) -> list[Found]:
    """Findings in addresses of CUDA wheels: beside each are the wheels for the CPU."""
    out = []
    for form in _ADDRESSES:
        for address in form.finditer(text):
            first, last = (start + place for place in address.span("cuda"))
            message = "an index of CUDA wheels: an XLA host needs the CPU wheels"
            out.append(Found(CUDA_WHEEL, first, last, message, (Edit(first, last, "cpu"),)))
    return out


__all__ = ["INFO", "TORCH", "Package", "in_index", "in_requirement", "name_of", "row_of"]
