"""Arguments of TrainingArguments that transformers 5 no longer has: two versions, compared by their sources.

    python docs/bench/transformers_arguments.py OLD_SITE_PACKAGES NEW_SITE_PACKAGES

Each is a folder that holds the package, such as `pip install --no-deps --target OLD "transformers==4.57.*"` makes.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path


def fields(folder: str) -> set[str]:
    """The annotated names of the class, which are its arguments."""
    source = Path(folder, "transformers", "training_args.py").read_text(encoding="utf-8")
    classes = {n.name: n for n in ast.parse(source).body if isinstance(n, ast.ClassDef)}
    return {
        statement.target.id
        for statement in classes["TrainingArguments"].body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    }


def version(folder: str) -> str:
    """As the package says."""
    text = Path(folder, "transformers", "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.*)"', text, re.MULTILINE)
    return found.group(1) if found else "?"


if __name__ == "__main__":
    old, new = sys.argv[1:3]
    gone = sorted(fields(old) - fields(new))
    print(f"{len(gone)} arguments of {version(old)} that {version(new)} does not have:")
    print(" ".join(gone))
