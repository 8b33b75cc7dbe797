"""Kubernetes manifests and Compose files, as YAML in either of its forms: keys, images, variables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import yaml

from xla_codemods.analysis.commands.launchers import Word, of_words

from .codes import GPU_RESOURCE
from .found import Edit, Found, Wanted
from .images import in_image
from .shell_commands import in_command, is_named, variable
from .yaml_mappings import mappings

_GPU = re.compile(r"nvidia\.com/(?:gpu|mig-[\w.-]+)")
_GPU_LABEL = re.compile(r"nvidia\.com/gpu\.\w+")
# key, value (as regular expressions), and the message for both.
_OTHERS = tuple(
    (re.compile(key), re.compile(value), said)
    for key, value, said in (
        (
            "runtimeClassName",
            "nvidia",
            "the runtime class is for GPUs: remove it, XLA devices need none",
        ),
        ("runtime", "nvidia", "an XLA host does not have NVIDIA's runtime"),
        ("driver", "nvidia", "a reservation of GPUs: give the container the XLA devices"),
        ("key", r"nvidia\.com/\S+", "a taint of GPU nodes: use the taint of the XLA nodes"),
        (_GPU_LABEL.pattern, ".*", "a label of GPU nodes: select the XLA nodes"),
        (
            r"cloud\.google\.com/gke-accelerator",
            "nvidia.*",
            "selects GPU nodes: select TPU nodes",
        ),
        (
            r"k8s\.\w+\.com/accelerator",
            "nvidia.*",
            "selects GPU nodes: select Trainium nodes",
        ),
    )
)
# A label's value that selects GPU nodes: by their name, or by AWS's and Azure's types of instances.
_SELECTED_GPU = re.compile(
    r".*nvidia.*|(.*[-_./])?gpu([-_./].*)?|(p[2-6]|g[3-6])\w*\.\w+|standard_n[cdv]\w+",
    re.IGNORECASE,
)
# A template's braces: alone on their line they are no YAML, elsewhere they stand for a scalar.
_TEMPLATE = re.compile(r"(?P<alone>^[ \t]*\{\{.*\}\}[ \t]*$)|\{\{.*?\}\}", re.MULTILINE)


class Pair(NamedTuple):
    """`key: value` of a mapping, below the key `under`."""

    key: yaml.ScalarNode
    value: yaml.Node
    under: str

    @property
    def text(self) -> str:
        """Return the value if it is a scalar, else ""."""
        return str(self.value.value) if isinstance(self.value, yaml.ScalarNode) else ""


def check(text: str, wanted: Wanted) -> Iterator[Found]:
    """Findings in the text of a manifest, or of a Compose file."""
    blank = _TEMPLATE.sub(lambda m: (" " if m["alone"] else "x") * len(m[0]), text)
    for mapping, under in mappings(blank):
        pairs = [
            Pair(key, value, under)
            for key, value in mapping.value
            if isinstance(key, yaml.ScalarNode)
        ]
        for pair in pairs:
            yield from _in_pair(pair, wanted)
        named = {str(pair.key.value): pair for pair in pairs}
        yield from _environment_entry(named, wanted)
        yield from _command(named, text, wanted)


def _in_pair(pair: Pair, wanted: Wanted) -> Iterator[Found]:
    key = pair.key.value
    if key == "image" and pair.text:
        image = in_image(pair.text, _start(pair.value), wanted)
        yield from [image] if image else []
    elif _GPU.fullmatch(key):
        yield _resource(pair, wanted)
    elif key == "environment":
        yield from _compose_environment(pair.value, wanted)
    elif key == "devices" and isinstance(pair.value, yaml.SequenceNode):
        yield from _reservations(pair.value)
    else:
        start, end = _start(pair.key), pair.value.end_mark.index
        for name, value, said in _OTHERS:
            if name.fullmatch(key) and value.fullmatch(pair.text):
                yield Found(GPU_RESOURCE, start, end, said)
                return
        if pair.under == "nodeSelector" and _SELECTED_GPU.fullmatch(pair.text):
            yield Found(GPU_RESOURCE, start, end, "selects GPU nodes: select the XLA nodes")


def _start(node: yaml.Node) -> int:
    """Return where the characters of a scalar begin, after its quote."""
    quoted = isinstance(node, yaml.ScalarNode) and node.style in ("'", '"')
    return int(node.start_mark.index) + quoted


def _end(node: yaml.ScalarNode) -> int:
    return int(node.end_mark.index) - (node.style in ("'", '"'))


def _environment_entry(pairs: dict[str, Pair], wanted: Wanted) -> Iterator[Found]:
    """`{name: NCCL_DEBUG, value: INFO}` of a container."""
    name, value = pairs.get("name"), pairs.get("value")
    if name is not None and value is not None and is_named(name.text):
        assert isinstance(name.value, yaml.ScalarNode)
        yield from variable(name.text, value.text, _start(name.value), _end(name.value), wanted)


def _command(pairs: dict[str, Pair], text: str, wanted: Wanted) -> Iterator[Found]:
    """`command` and `args` of a container: one command, whose words keep their places."""
    nodes = [
        item
        for key in ("command", "args")
        if key in pairs and isinstance(pairs[key].value, yaml.SequenceNode)
        for item in pairs[key].value.value
    ]
    words = []
    for node in nodes:
        start = _start(node)
        if not isinstance(node, yaml.ScalarNode) or not text.startswith(node.value, start):
            return  # written with escapes, or as a block
        words.append(Word(node.value, start, start + len(node.value)))
    for command in of_words(words, text):
        for found in in_command(command, text, wanted):
            within = all(
                any(w.start <= e.start and e.end <= w.end for w in words) for e in found.edits
            )
            yield found if within else found._replace(edits=())


def _compose_environment(node: yaml.Node, wanted: Wanted) -> Iterator[Found]:
    """`environment:` of a Compose service: a mapping, or a list of `NAME=value`."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and is_named(key.value):
                yield from variable(key.value, str(value.value), _start(key), _end(key), wanted)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            name, _, value = str(item.value).partition("=")
            if isinstance(item, yaml.ScalarNode) and is_named(name):
                yield from variable(name, value, _start(item), _end(item), wanted)


def _reservations(node: yaml.SequenceNode) -> Iterator[Found]:
    """`capabilities: [gpu]` of a Compose device without the `driver` that tells of it already."""
    for device in node.value:
        if not isinstance(device, yaml.MappingNode):
            continue
        named = {str(key.value): (key, value) for key, value in device.value}
        if "driver" in named or "capabilities" not in named:
            continue
        key, value = named["capabilities"]
        if isinstance(value, yaml.SequenceNode) and any(n.value == "gpu" for n in value.value):
            message = "a reservation of GPUs: give the container the XLA devices"
            yield Found(GPU_RESOURCE, key.start_mark.index, value.end_mark.index, message)


def _resource(pair: Pair, wanted: Wanted) -> Found:
    message = f"`{pair.key.value}` requests GPUs: request XLA devices instead"
    edits: tuple[Edit, ...] = ()
    if wanted.kind == "neuron" and wanted.devices and pair.text.isdigit():
        assert isinstance(pair.value, yaml.ScalarNode)
        key = Edit(_start(pair.key), _end(pair.key), "aws.amazon.com/neuroncore")
        edits = (key, Edit(_start(pair.value), _end(pair.value), str(wanted.devices)))
    return Found(GPU_RESOURCE, _start(pair.key), pair.value.end_mark.index, message, edits)
