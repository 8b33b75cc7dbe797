"""Builds the stand-in for one Python's torch, and a folder from which that Python's torch loads it as a backend."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = HERE / "standin"
_WHERE = """
import json, sysconfig, torch
from torch.utils import cpp_extension as e
include = [*e.include_paths(), sysconfig.get_paths()["include"]]
abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
print(json.dumps([torch.__version__, include, e.library_paths(), abi]))
"""
# A warm interpreter has imported torch before the folder is on its path.
_IN_WARM = """
import sys
if "torch" in sys.modules:
    sys.modules["torch"]._import_device_backends()
"""


def site(python: str, cache: Path) -> Path:
    """A folder for PYTHONPATH: with STANDIN_NAME set, `import torch` then finds a device of that name.

    Args:
        python: whose torch it is built for; it needs g++ and torch's headers, which its wheels have.
        cache: where builds are kept, one for each torch and text of the sources.

    Raises:
        RuntimeError: the compiler's words.
    """
    version, include, libraries, abi = _torch_of(python)
    text = b"".join(
        path.read_bytes()
        for path in [*sorted(SOURCES.iterdir()), HERE / "losses.py"]
        if path.is_file()
    )
    key = hashlib.sha256(text + _IN_WARM.encode() + version.encode()).hexdigest()[:12]
    made = cache / f"standin-{version}-{key}"
    if made.exists():
        return made
    part = cache / f"{made.name}.{os.getpid()}"
    _package(part, "torch_standin", SOURCES / "backend.py")
    _package(part, "loss_recorder", HERE / "losses.py")
    shutil.copy(SOURCES / "kernels.py", part / "torch_standin")
    (part / "sitecustomize.py").write_text(_IN_WARM)
    _compile(part / "torch_standin" / "standin_device.so", include, libraries, abi)
    try:
        part.rename(made)
    except OSError:  # another process was first
        shutil.rmtree(part)
    return made


def recorder(folder: Path) -> Path:
    """A folder for PYTHONPATH that has no device in it, and only writes down losses and times."""
    if not (folder / "loss_recorder").exists():
        _package(folder, "loss_recorder", HERE / "losses.py")
    return folder


def _torch_of(python: str) -> tuple[str, list[str], list[str], int]:
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = subprocess.run(
        [python, "-c", _WHERE], env=env, capture_output=True, text=True, check=True
    )
    version, include, libraries, abi = json.loads(done.stdout.splitlines()[-1])
    return version, include, libraries, abi


def _package(site: Path, name: str, module: Path) -> None:
    """A package with one module, installed so far that torch finds its entry point."""
    (site / name).mkdir(parents=True)
    shutil.copy(module, site / name / "__init__.py")
    told = site / f"{name}-0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0\n")
    (told / "entry_points.txt").write_text(f"[torch.backends]\n{name} = {name}:load\n")


def _compile(target: Path, include: list[str], libraries: list[str], abi: int) -> None:
    # Unoptimized: what it does is move memory, and compiling is most of the time.
    options = ["-std=c++17", "-O0", "-w", "-fPIC", f"-D_GLIBCXX_USE_CXX11_ABI={abi}"]
    options += ["-DTORCH_EXTENSION_NAME=standin_device", *(f"-isystem{path}" for path in include)]
    found = [word for path in libraries for word in (f"-L{path}", f"-Wl,-rpath,{path}")]
    linked = ["-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]
    source = str(SOURCES / "module.cpp")
    command = ["g++", *options, "-shared", source, "-o", str(target), *found, *linked]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stdout}")
