"""Kubernetes manifests and Compose files, read line by line: keys, images, variables."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .codes import GPU_RESOURCE
from .found import Edit, Found, Wanted
from .images import in_image
from .shell_commands import is_of_cuda, variable

_IMAGE = re.compile(r"^[ \t]*(?:-[ \t]+)?image:[ \t]*[\"']?(?P<image>[^\s\"'#]+)", re.MULTILINE)
_GPU = re.compile(
    r"^[ \t]*[\"']?(?P<key>nvidia\.com/(?:gpu|mig-[\w.-]+))[\"']?:[ \t]*[\"']?(?P<count>[^\s\"'#]*)",
    re.MULTILINE,
)
_VARIABLE = re.compile(
    r"^[ \t]*-[ \t]+name:[ \t]*[\"']?(?P<name>(?:CUDA|NCCL|NVIDIA)_\w+)[\"']?[ \t]*\r?\n"
    r"[ \t]*value:[ \t]*(?P<value>[^\r\n#]*)",
    re.MULTILINE,
)
# Everything else that asks for GPUs, and what is said of it.
_OTHERS = (
    (r"runtimeClassName:[ \t]*[\"']?nvidia", "the runtime class of GPUs: XLA devices need none"),
    (r"runtime:[ \t]*[\"']?nvidia", "NVIDIA's runtime is not there on an XLA host"),
    (r"driver:[ \t]*[\"']?nvidia", "a reservation of GPUs: give the container the XLA devices"),
    (r"key:[ \t]*[\"']?nvidia\.com/\S+", "a taint of GPU nodes: name that of the XLA nodes"),
    (r"[\"']?nvidia\.com/gpu\.\w+[\"']?:", "a label of GPU nodes: select the XLA nodes"),
    (
        r"[\"']?cloud\.google\.com/gke-accelerator[\"']?:[ \t]*[\"']?nvidia",
        "selects GPU nodes: select those of a TPU",
    ),
    (
        r"[\"']?k8s\.\w+\.com/accelerator[\"']?:[ \t]*[\"']?nvidia",
        "selects GPU nodes: select those of Trainium",
    ),
)
_OTHER = tuple(
    (re.compile(rf"^[ \t]*(?:-[ \t]+)?(?P<what>{form})", re.M), said) for form, said in _OTHERS
)


def check(text: str, wanted: Wanted) -> Iterator[Found]:
    """Findings in the text of a manifest, or of a Compose file."""
    for found in _IMAGE.finditer(text):
        image = in_image(found["image"], found.start("image"), wanted)
        yield from [image] if image else []
    for found in _GPU.finditer(text):
        yield _resource(found, wanted)
    for found in _VARIABLE.finditer(text):
        name, value = found["name"], found["value"].strip().strip("\"'")
        if is_of_cuda(name):
            yield variable(name, value, *found.span("name"), wanted)
    for form, said in _OTHER:
        for found in form.finditer(text):
            yield Found(GPU_RESOURCE, *found.span("what"), said)


def _resource(found: re.Match[str], wanted: Wanted) -> Found:
    start, end = found.start("key"), found.end("count")
    message = f"`{found['key']}` asks for GPUs: a pod that trains on XLA devices asks for those"
    edits: tuple[Edit, ...] = ()
    if wanted.kind == "neuron" and wanted.devices and found["count"].isdigit():
        key = Edit(*found.span("key"), "aws.amazon.com/neuroncore")
        edits = (key, Edit(*found.span("count"), str(wanted.devices)))
    return Found(GPU_RESOURCE, start, end, message, edits)
