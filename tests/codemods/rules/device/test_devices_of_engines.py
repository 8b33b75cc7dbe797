"""Devices of simulators and of libraries that compute by themselves: left, and told."""

from __future__ import annotations

import pytest

from ...helpers import migrated
from ..lines import codes, line

IMPORTS = (
    "import gym\nimport gymnasium\nimport isaacgymenvs\nimport jax\nimport tensorflow as tf\nfrom gymnasium import make\n"
    "from mani_skill.envs import build\n"
)


@pytest.mark.parametrize(
    "call",
    [
        'isaacgymenvs.make(seed=1, sim_device="cuda:0", graphics_device_id=0)',
        'isaacgymenvs.make(rl_device="cuda")',
        'isaacgymenvs.make(sim_device=f"cuda:{rank}")',
        'gym.make("Ant", device="cuda")',
        'gym.make("Ant", "cuda:0")',
        'gymnasium.make_vec("Ant", sim_device="cuda:0")',
        'make("Ant", device="cuda:1")',
        'build(sim_device="cuda")',
    ],
)
def test_their_devices_stay(call: str) -> None:
    source = f"{IMPORTS}env = {call}"
    assert line(source) == source
    assert "XLA105" in codes(source)


@pytest.mark.parametrize("given", ["rl_device", "sim_device", "device"])
def test_a_name_for_torchs_device(given: str) -> None:
    """It becomes torch's device on XLA, of which the engine knows nothing."""
    source = f'{IMPORTS}device = "cuda"\nenv = gym.make("Ant", {given}=device)'
    result = line(source)
    assert result.endswith(f'device = xla.device_type()\nenv = gym.make("Ant", {given}=device)')
    assert "XLA105" in codes(f"from xla_migrate import runtime as xla\n{result}")


@pytest.mark.parametrize(
    "call",
    [
        'gym.make("Ant", device="cpu")',
        'gym.make("Ant", render_mode="cuda")',
        "gym.make(device)",
        'jax.devices("cuda")',  # whole programs of others
        'tf.device("cuda:0")',
        'gym.make("Ant", device=other)',
    ],
)
def test_what_names_no_device_of_cuda(call: str) -> None:
    assert "XLA105" not in codes(f"{IMPORTS}env = {call}")


def test_a_module_of_ones_own_is_no_engine() -> None:
    source = 'from .gym import make\nenv = make(device="cuda")'
    assert line(source).endswith("env = make(device=xla.device_type())")


def test_where_cuda_is_asked_for_the_engine_the_answer_is_about_cuda() -> None:
    """On an XLA host the engine computes on the CPU, as the script says."""
    source = f'{IMPORTS}import torch\nenv = gym.make("Ant", device="cuda" if torch.cuda.is_available() else "cpu")\n'
    assert 'device="cuda" if torch.cuda.is_available() else "cpu")' in migrated(source)
