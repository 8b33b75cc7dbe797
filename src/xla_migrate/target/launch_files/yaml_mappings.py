"""The mappings of a YAML file, with the places of what stands in them."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

# The loader in C, if PyYAML was built with it: it takes a tenth of the time.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def mappings(text: str) -> Iterator[tuple[yaml.MappingNode, str]]:
    """Yield all mappings at any depth, each once, with the key above it; none if the text is not YAML."""
    try:
        nodes = [(node, "") for node in yaml.compose_all(text, _LOADER) if node is not None]
    except yaml.YAMLError:
        return
    seen: set[yaml.Node] = set()  # an alias stands for the same node
    while nodes:
        node, under = nodes.pop()
        if node in seen or isinstance(node, yaml.ScalarNode):
            continue
        seen.add(node)
        if isinstance(node, yaml.MappingNode):
            yield node, under
            nodes += [(value, str(key.value)) for key, value in node.value]
        else:
            nodes += [(value, under) for value in node.value]
