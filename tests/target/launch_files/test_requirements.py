"""requirements.txt, conda's environments and pyproject.toml."""

from __future__ import annotations

import sys

import pytest
import yaml
from packaging.requirements import InvalidRequirement, Requirement

from .helpers import codes, rewritten, verdict

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REQUIREMENTS = """\
# training
--extra-index-url https://wheels.example/whl/cu121
torch==2.9.0+cu128  # pinned
apex @ git+https://example.org/NVIDIA/apex.git
git+https://example.org/NVIDIA/apex.git@master
flash_attn>=2.5 ; sys_platform == "linux"
nvidia-cublas-cu12==12.1.3.1 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
nvidia-ml-py
numpy>=1.26
tqdm
"""


def test_what_is_built_for_cuda_goes_and_all_else_stays() -> None:
    assert (
        rewritten(REQUIREMENTS, "requirements.txt")
        == """\
# training
--extra-index-url https://wheels.example/whl/cpu
torch==2.9.0  # pinned
nvidia-ml-py
numpy>=1.26
tqdm
"""
    )


def test_the_result_still_parses() -> None:
    for line in rewritten(REQUIREMENTS, "requirements.txt").splitlines():
        text = line.partition(" #")[0]
        if text and not text.startswith(("#", "-")):
            Requirement(text)
    with pytest.raises(InvalidRequirement):
        Requirement("torch==2.9.0+cu128  # pinned")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_and_strange_bytes_stay(end: str) -> None:
    before = f"caf\u00e9{end}flash-attn{end}numpy".encode("latin-1")
    assert verdict(before, "requirements.txt").data == f"caf\u00e9{end}numpy".encode("latin-1")
    before = f"numpy{end}flash-attn".encode()
    assert verdict(before, "requirements.txt").data == b"numpy"
    before = f"numpy{end}flash-attn{end}".encode()
    assert verdict(before, "requirements.txt").data == f"numpy{end}".encode()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("torch==2.4.0", ["XLA958"]),
        ("torch>=2.0", []),
        ("torchvision==0.24.0", []),
        ("cupy-cuda12x", ["XLA953"]),
        ("nvidia-dali-cuda120", ["XLA953"]),
        ("nvidia-nccl-cu12==2.21", ["XLA952"]),
        ("nvidia-modelopt", []),
        ("apex-legends-stats", []),
        ("xformers", ["XLA953"]),
        ("transformers[torch]", []),
        ("-r other-cu121.txt", []),
        ("flash-attn  # xla-migrate: ignore[XLA953]", []),
        ("flash-attn  # xla-migrate: ignore[XLA952]", ["XLA953"]),
        ("# flash-attn", []),
    ],
)
def test_one_line(line: str, found: list[str]) -> None:
    assert codes(line + "\n", "requirements.txt") == found


def test_places_count_from_one_and_in_characters() -> None:
    row = verdict("# é\n  torch==2.9.1+cu128\n", "requirements.txt", rewriting=False).left[0]
    assert (row.line, row.column, row.end_line, row.end_column) == (2, 15, 2, 21)
    assert (row.text, row.safety, row.severity) == ("torch==2.9.1+cu128", "safe", "error")


CONDA = """\
name: train  # ours
channels:
  - pytorch
  - nvidia
  - conda-forge
dependencies:
  - python=3.11
  - pytorch-cuda=12.4
  - cudatoolkit=11.8
  - cuda-python
  - pip:
    - flash-attn
    - "torch==2.9.0+cu128"
    - --extra-index-url https://wheels.example/whl/cu128
    - transformers
"""


def test_conda_environments() -> None:
    new = rewritten(CONDA, "environment.yml")
    assert (
        new
        == """\
name: train  # ours
channels:
  - pytorch
  - conda-forge
dependencies:
  - python=3.11
  - cuda-python
  - pip:
    - "torch==2.9.0"
    - --extra-index-url https://wheels.example/whl/cpu
    - transformers
"""
    )
    before, after = yaml.safe_load(CONDA), yaml.safe_load(new)
    assert after["name"] == before["name"]
    assert set(after["channels"]) == set(before["channels"]) - {"nvidia"}


def test_a_list_is_never_left_empty() -> None:
    text = "channels:\n  - nvidia\ndependencies:\n  - pytorch-cuda=12.4\n"
    assert rewritten(text, "environment.yml") == text
    assert codes(text, "environment.yml") == ["XLA952", "XLA952"]


def test_other_yaml_is_not_read() -> None:
    assert codes("jobs:\n  - nvidia-smi\n  - flash-attn\n", "ci.yml") == []


PYPROJECT = """\
[project]
name = "x"
dependencies = [
  "torch==2.9.0",
  "flash-attn>=2", # fast
  'numpy',
  "apex"
]
[project.optional-dependencies]
gpu = ["nvidia-nccl-cu12", "cupy-cuda12x", "apex"]
only = ["flash-attn"]
[dependency-groups]
train = [{include-group = "x"}, "flash-attn"]
[tool.other]
dependencies = ["flash-attn"]
[[tool.uv.index]]
url = "https://wheels.example/whl/cu128"
"""


def test_pyproject() -> None:
    new = rewritten(PYPROJECT, "pyproject.toml")
    expected = tomllib.loads(PYPROJECT)
    expected["project"]["dependencies"] = ["torch==2.9.0", "numpy"]
    expected["project"]["optional-dependencies"] = {"gpu": ["cupy-cuda12x"], "only": []}
    expected["dependency-groups"]["train"] = [{"include-group": "x"}]
    expected["tool"]["uv"]["index"][0]["url"] = "https://wheels.example/whl/cpu"
    assert tomllib.loads(new) == expected
    kept = [line for line in new.splitlines() if line in PYPROJECT.splitlines()]
    assert len(kept) == len(PYPROJECT.splitlines()) - 6  # two lines gone, four changed


def test_pyproject_that_is_no_toml_is_left_alone() -> None:
    assert codes('dependencies = ["flash-attn"', "pyproject.toml") == []


@pytest.mark.parametrize(
    ("line", "new"),
    [
        (
            "torch-scatter -f https://data.example/whl/torch-2.9.0+cu128.html",
            "torch-scatter -f https://data.example/whl/torch-2.9.0+cpu.html",
        ),
        (
            "-f https://data.example/whl/torch-2.9.0+cu128.html",
            "-f https://data.example/whl/torch-2.9.0+cpu.html",
        ),
        (
            "torch @ https://w.example/whl/cu128/torch-2.9.0%2Bcu128-cp311",
            "torch @ https://w.example/whl/cpu/torch-2.9.0%2Bcpu-cp311",
        ),
        (
            "--extra-index-url https://w.example/whl/cu92",
            "--extra-index-url https://w.example/whl/cpu",
        ),
        ("torch==2.9.0+cu128  # from x://whl", "torch==2.9.0  # from x://whl"),
    ],
)
def test_addresses_of_cuda_wheels(line: str, new: str) -> None:
    assert rewritten(f"{line}\n", "requirements.txt") == f"{new}\n"


@pytest.mark.parametrize(
    "name", ["faiss-gpu", "faiss-gpu-cu12", "onnxruntime-gpu==1.19", "spconv-cu118", "dgl-cu113"]
)
def test_packages_that_are_built_for_cuda(name: str) -> None:
    assert codes(f"{name}\n", "requirements.txt") == ["XLA953"]
    assert rewritten(f"{name}\n", "requirements.txt") == f"{name}\n"


def test_pyproject_with_long_words_is_read_at_once() -> None:
    """A line that begins with a long name and has no `=` is no key, and took for ever to tell."""
    words = "\n".join(f"a-long.name_{k}-{'x' * 60}" for k in range(20))
    text = f'[tool.docs]\nintro = """\n{words}\n"""\n[project]\ndependencies = ["flash-attn"]\n'
    assert codes(text, "pyproject.toml") == codes(PYPROJECT_OF_ONE, "pyproject.toml")


PYPROJECT_OF_ONE = '[project]\ndependencies = ["flash-attn"]\n'
