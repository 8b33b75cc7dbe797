"""Attaches the tracing to a Python process of `xla-migrate compile`.

Its folder leads PYTHONPATH there, so that Python executes this at every start of the script and of what it starts.
"""

import os
import sys


def _next_sitecustomize(here: str) -> None:
    """Another sitecustomize, of the distribution or the user, has its turn too."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    others = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


def _attach() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    source = here
    for _ in range(4):  # boot, compile, target, xla_migrate
        source = os.path.dirname(source)
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    _next_sitecustomize(here)
    if not os.environ.get("XLA_MIGRATE_COMPILE"):
        return
    if source not in sys.path:
        sys.path.append(source)  # the interpreter may be one without xla-migrate
    from xla_migrate.target.compile.child import start

    start.attach()


_attach()
