"""A hook of MkDocs: the order of the pages. Pages that are not here stand at the end, by their own title."""

from __future__ import annotations

import os
from typing import Any

ORDER = {
    "index.md": "Home",
    "get-started.md": "Get started",
    "gallery.md": "Gallery",
    "Guides": {
        "guides/plain.md": "A plain script",
        "guides/several-modules.md": "Several modules",
        "guides/hf-trainer.md": "HF Trainer",
        "guides/accelerate.md": "accelerate",
        "guides/lightning.md": "Lightning",
        "guides/timm.md": "timm",
        "guides/diffusers.md": "diffusers",
        "guides/notebook.md": "A notebook",
        "guides/ddp.md": "DDP",
        "guides/fsdp.md": "FSDP",
        "from-one-to-many.md": "From one device to many",
        "guides/after-migration.md": "Finish by hand, undo, install",
        "guides/record-on-gpu.md": "Record on the GPU, check on the accelerator",
        "hand-written.md": "Code written for torch_xla",
        "native-style.md": "Without the runtime installed",
        "pre-commit.md": "pre-commit and CI",
        "guides/my-machine.md": "My machine is ...",
        "guides/tpu-vm.md": "First hour on a TPU VM",
        "guides/trainium.md": "First hour on Trainium",
        "compile.md": "Compile for a TPU without one",
        "profile.md": "Profile",
        "tune.md": "Tune",
        "run.md": "Resume and retry",
        "sagemaker.md": "SageMaker",
        "guides/troubleshooting.md": "Troubleshooting",
        "guides/faq.md": "Questions",
    },
    "Concepts": {
        "concepts.md": "XLA and proofs",
    },
    "Reference": {
        "command.md": "The command",
        "settings.md": "Settings",
        "verify.md": "verify",
        "runtime.md": "The runtime",
        "host-reads.md": "Deferred values",
        "catalog.md": "The catalog",
        "launch-files.md": "Launch files",
        "target-options.md": "Compiler options of a target",
        "native-backends.md": "Native backends",
        "frameworks.md": "Results by framework",  # written by bench/frameworks.py
        "known-errors.md": "Known errors",
        "limitations.md": "Known limitations",
        "glossary.md": "Glossary",
    },
    "Rules": None,
    "Internals": {
        "benchmarks.md": "Benchmarks",
        "sample.md": "How many findings are right",
        "architecture.md": "Architecture",
        "value-flow.md": "Value flow",
        "rooms.md": "Where things are",
        "facts.md": "Facts about torch_xla",
        "contributing.md": "Contributing",
        "writing-rules.md": "Writing a rule",
        "rule-helpers.md": "What rules can ask",
        "releasing.md": "Releasing",
    },
}

# Of rules, by the first digit of their codes: docs/generate.py groups the index by them, too.
TOPICS = {
    "0": "The command itself, and code written for torch_xla by hand",
    "1": "Devices, services and memory",
    "2": "Precision",
    "3": "Optimizers",
    "4": "Data",
    "5": "Steps, laziness and shapes",
    "6": "Several devices",
    "7": "Checkpoints",
    "8": "Frameworks",
    "9": "CUDA-only, with no equivalent",
}


def on_config(config: Any) -> Any:
    config["nav"] = _nav(config["docs_dir"])
    return config


def _nav(folder: str) -> list[Any]:
    there = {name for name in os.listdir(folder) if name.endswith(".md")}
    guides = os.path.join(folder, "guides")
    there |= {f"guides/{name}" for name in os.listdir(guides) if name.endswith(".md")}
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


def _rules(folder: str) -> list[Any]:
    """The index, and the pages by topic: each by its title, which is the code with the name."""
    rules = os.path.join(folder, "rules")
    topics: dict[str, list[Any]] = {}
    for page in sorted(p for p in os.listdir(rules) if p.startswith("XLA")):
        title = _title(os.path.join(rules, page))
        topics.setdefault(page[3], []).append({title: f"rules/{page}"})
    return ["rules/index.md", *({TOPICS[number]: found} for number, found in topics.items())]


def _title(path: str) -> str:
    """The first heading; MkDocs itself takes the file's name where a comment stands before it."""
    with open(path, encoding="utf-8") as file:
        return next(line[2:].strip() for line in file if line.startswith("# "))
