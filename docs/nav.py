"""A hook of MkDocs: the order of the pages. Pages that are not here stand at the end, by their own title."""

from __future__ import annotations

import os
from typing import Any

ORDER = {
    "index.md": "Home",
    "Guides": {
        "from-one-to-many.md": "From one device to many",
        "verify.md": "Verify",
        "pre-commit.md": "In a team: pre-commit and CI",
    },
    "Reference": {
        "command.md": "The command",
        "settings.md": "Settings",
        "runtime.md": "The runtime",
        "catalog.md": "The catalog",
    },
    "Rules": None,
    "Results": {
        "benchmarks.md": "Benchmarks",
        "sample.md": "A sample of findings, read by hand",
    },
    "Development": {
        "architecture.md": "Architecture",
        "writing-rules.md": "Writing a rule",
    },
}


def on_config(config: Any) -> Any:
    config["nav"] = _nav(config["docs_dir"])
    return config


def _nav(folder: str) -> list[Any]:
    there = {name for name in os.listdir(folder) if name.endswith(".md")}
    nav: list[Any] = []
    placed: set[str] = set()
    for title, pages in ORDER.items():
        if title.endswith(".md"):
            nav.append({pages: title})
            placed.add(title)
        elif title == "Rules":
            nav.append({title: _rules(folder)})
        elif pages:
            found = [{name: page} for page, name in pages.items() if page in there]
            placed.update(pages)
            nav += [{title: found}] if found else []
    return [*nav, *sorted(there - placed)]


def _rules(folder: str) -> list[str]:
    pages = sorted(os.listdir(os.path.join(folder, "rules")))
    return ["rules/index.md", *(f"rules/{page}" for page in pages if page.startswith("XLA"))]
