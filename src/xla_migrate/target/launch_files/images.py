"""Container images with CUDA in them, and what takes their place."""

from __future__ import annotations

import re

from .codes import NVIDIA_IMAGE
from .found import Edit, Found, Wanted

# In front may stand a registry; `nvidia/cuda` is also mirrored under other names of it.
_CUDA = re.compile(r"^(?:[\w.:-]+/)*nvidia/cuda(?P<tag>:[\w.-]+)?(?P<digest>@\S+)?$")
_DISTRIBUTION = re.compile(r"-(?P<name>ubuntu|rockylinux|oraclelinux)(?P<version>[\d.]+)$")
_NVIDIA = re.compile(r"^(?:[\w.:-]+/)*nvidia/[\w./-]+(?:[:@]\S+)?$")
_WITH_CUDA = re.compile(r"^\S+:[\w.-]*(?:cuda|cu1[0-9]|-gpu)[\w.-]*(?:@\S+)?$", re.IGNORECASE)


def in_image(image: str, start: int, wanted: Wanted) -> Found | None:
    """The finding in the name of an image at `start`, if it has CUDA in it."""
    if not (_NVIDIA.match(image) or _WITH_CUDA.match(image)):
        return None
    new = _instead(image, wanted)
    edits = (Edit(start, start + len(image), new),) if new else ()
    advice = f"`{new}` has the same without CUDA" if new and new != wanted.image else ""
    advice = advice or (f"the settings choose `{new}`" if new else _ADVICE)
    message = f"`{image}` contains CUDA, which an XLA host does not need: {advice}"
    return Found(NVIDIA_IMAGE, start, start + len(image), message, edits, effort="medium")


_ADVICE = "set the training image as `image` in [tool.xla-migrate.target]"


def _instead(image: str, wanted: Wanted) -> str:
    cuda = _CUDA.match(image)
    of = _DISTRIBUTION.search(cuda["tag"] or "") if cuda and not cuda["digest"] else None
    if of is not None:
        return f"{of['name']}:{of['version']}"
    name = re.split(r"[:@]", image.rpartition("/")[2])[0]
    trains = name in ("cuda", "pytorch") or not _NVIDIA.match(image)  # not what watches GPUs
    return wanted.image if trains else ""
