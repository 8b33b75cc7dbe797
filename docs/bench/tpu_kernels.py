"""List the kernels of torch_tpu: `python docs/bench/tpu_kernels.py`, in an environment with torch_tpu and the torch that it needs.

No TPU is needed: importing torch_tpu registers its kernels. Writes the table that `xla-migrate compile --ops tpu` reads.
"""

from __future__ import annotations

import datetime
import os
from importlib.metadata import version
from pathlib import Path

TABLE = Path(__file__).parents[2] / "src" / "xla_migrate" / "target" / "kernels" / "torch_tpu.txt"
# Autograd kernels replace a composite operator with all its parts.
KEYS = ("PrivateUse1", "AutogradPrivateUse1")


def registered() -> set[str]:
    """Return the operators with a kernel for PrivateUse1, of whoever registered it."""
    import torch

    return {
        name
        for key in KEYS
        for name in torch._C._dispatch_get_registrations_for_dispatch_key(key)  # type: ignore[attr-defined]
    }


def main() -> None:
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    before = registered()
    __import__("torch_tpu")
    names = sorted(registered() - before)
    today = datetime.datetime.now(datetime.timezone.utc).date()
    head = f"# torch_tpu {version('torch_tpu')}, torch {version('torch').partition('+')[0]}, {today}; written by docs/bench/tpu_kernels.py"
    TABLE.write_text("\n".join([head, *names, ""]), encoding="utf-8")
    print(f"{TABLE}: {len(names)} kernels")


if __name__ == "__main__":
    main()
