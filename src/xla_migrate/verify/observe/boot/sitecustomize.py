"""Attaches the harness to a Python process of a verified run, or the module that XLA_MIGRATE_ATTACH names.

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
    package = here
    for _ in ("boot", "observe", "verify", "xla_migrate"):
        package = os.path.dirname(package)
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    _next_sitecustomize(here)
    verified = os.environ.get("XLA_MIGRATE_VERIFY")
    attached = "" if verified else os.environ.get("XLA_MIGRATE_ATTACH", "")
    if not (verified or attached):
        return
    if package not in sys.path:
        sys.path.append(package)  # the interpreter may be one without xla-migrate
    if attached:
        from importlib import import_module

        import_module(attached).attach()
        return
    from xla_migrate.verify.observe import start

    start.attach(_redirect)


def _redirect(device_count: int) -> None:
    from xla_migrate.verify import redirect

    redirect.install(device_count=device_count)


_attach()
