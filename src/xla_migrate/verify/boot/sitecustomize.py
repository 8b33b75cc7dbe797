"""Attaches the harness to a Python process of a verified run.

Its folder leads PYTHONPATH in such runs, so that Python executes this at every start: of the script,
of what torchrun, mp.spawn or subprocess start from it. The script itself then runs as it always
does, as `__main__`, with its own arguments, folder and sys.path[0].
"""

import os
import sys


def _next_sitecustomize(here: str) -> None:
    """Another sitecustomize, of the distribution or the user, has its turn too."""
    from importlib.machinery import PathFinder

    others = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        spec.loader.exec_module(module_from_spec(spec))


def _attach() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    package = os.path.dirname(os.path.dirname(os.path.dirname(here)))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    _next_sitecustomize(here)
    if not os.environ.get("XLA_MIGRATE_VERIFY"):
        return
    if package not in sys.path:
        sys.path.append(package)  # the interpreter may be one without xla-migrate
    from xla_migrate.verify.child import start

    start.attach()


_attach()
