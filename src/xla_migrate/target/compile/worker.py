"""Compiles graphs for a TPU, one after another: JSON lines in, JSON lines out.

Run by the compiler's interpreter as a script. A request is `{"text": FILE, "topology": {...}, "devices": N, "level":
"O1"}`; the reply has `seconds`, `memory`, `cost`, `collectives`, or `error`. `{"versions": true}` is answered by the
versions. A request may end the process: whoever reads finds no reply.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import time
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
private: Any = importlib.import_module("jaxlib_private")

_COLLECTIVE = re.compile(
    r"\b(all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|collective-broadcast)(?:-start)?\("
)


def main() -> None:
    """Answer until the input ends. What libraries print goes to standard error."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        replies.write(json.dumps(_reply(json.loads(line))) + "\n")
        replies.flush()


def _reply(request: dict[str, Any]) -> dict[str, Any]:
    if request.get("versions"):
        found = private.versions()
        return {"jaxlib": found[0], "libtpu": found[1], "problem": private.problem(found)}
    try:
        return _compiled(request)
    except Exception as error:
        return {"error": str(error) or type(error).__name__}


def _compiled(request: dict[str, Any]) -> dict[str, Any]:
    topology = request["topology"]
    private.prepare(topology["accelerator"])
    with open(request["text"], encoding="utf-8") as file:
        text = file.read()
    chips = private.devices(topology["name"], topology["options"])[: request["devices"]]
    start = time.monotonic()
    executable = private.compile_text(text, chips, request["level"])
    seconds = time.monotonic() - start
    module = private.program(executable)
    return {
        "seconds": round(seconds, 3),
        "memory": private.memory(executable),
        "cost": private.cost(module),
        "collectives": collectives(module.to_string()),
    }


def collectives(hlo: str) -> dict[str, int]:
    """Return the number of collectives of each kind in the program."""
    counted: dict[str, int] = {}
    for name in _COLLECTIVE.findall(hlo):
        counted[name] = counted.get(name, 0) + 1
    return counted


if __name__ == "__main__":
    main()
