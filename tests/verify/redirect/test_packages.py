"""Packages of kernels for GPUs: in a redirected run, whoever can do without them does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ... import warm

SCRIPT = """
import importlib.util
import torch
from xla_migrate.verify import redirect

patches = redirect.install()
assert importlib.util.find_spec("triton") is None
assert importlib.util.find_spec("numpy") is not None
try:
    import triton
    print("found")
except ImportError:
    print("not found")
import triton
print(triton.__name__)
patches.undo()
assert importlib.util.find_spec("triton") is not None
"""


@pytest.mark.e2e
def test_triton_is_found_only_where_it_is_needed(tmp_path: Path) -> None:
    (tmp_path / "triton.py").write_text("")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    words = [sys.executable, str(script)]  # a warm one may have loaded it
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "not found\ntriton\n", done.stderr


ASKED = """
import importlib.util
import sys
from xla_migrate.verify import redirect
from xla_migrate.verify.observe.process import where

where.set_project(sys.argv[1])
sys.path.append(sys.argv[2])
redirect.install()
import library
print(importlib.util.find_spec("apex") is not None, library.HAS_APEX)
"""


@pytest.mark.e2e
def test_only_the_scripts_own_question_for_apex_is_answered(tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    project.mkdir()
    elsewhere.mkdir()
    asks = "import importlib.util\nHAS_APEX = importlib.util.find_spec('apex') is not None\n"
    (elsewhere / "library.py").write_text(asks)
    script = project / "train.py"
    script.write_text(ASKED)
    words = [sys.executable, str(script), str(project), str(elsewhere)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=project)
    assert done.stdout == "True False\n", done.stderr


FLASH = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from xla_migrate.verify import redirect

redirect.install()
small = dict(vocab_size=9, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2)
losses = []
for attention in ("flash_attention_2", "sdpa"):
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**small, attn_implementation=attention)).cuda()
    ids = torch.arange(8, device="cuda")[None]
    losses.append(model(input_ids=ids, labels=ids).loss.item())
print(losses[0] == losses[1], model.config._attn_implementation)
"""


@pytest.mark.e2e
def test_models_of_transformers_attend_without_flash_attn(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    script = tmp_path / "train.py"
    script.write_text(FLASH)
    words = [warm.for_side("reference"), str(script)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "True sdpa\n", done.stderr
