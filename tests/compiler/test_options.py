"""The table against the documented options, which are written down here a second time, from their documentation."""

from __future__ import annotations

import pytest

from xla_migrate.compiler.environment import flags
from xla_migrate.compiler.machines import MACHINES
from xla_migrate.compiler.options import FLAGS, OPTIONS, Option
from xla_migrate.compiler.profile import known

# Neuron Compiler CLI reference (Neuron 2.32), `compile`: names and values; None: takes no value.
NEURONX_CC: dict[str, tuple[str, ...] | None] = {
    "--target": ("inf2", "trn1", "trn1n", "trn2"),
    "--model-type": ("generic", "transformer", "unet-inference"),
    "--auto-cast": ("none", "matmult", "all"),
    "--auto-cast-type": ("bf16", "fp16", "tf32", "fp8_e4m3"),
    "--distribution-strategy": ("llm-training",),
    "--logical-nc-config": ("1", "2"),
    "--optlevel": ("1", "2", "3"),
    "--enable-mixed-precision-accumulation": None,
    "--disable-mixed-precision-accumulation": None,
    "--enable-saturate-infinity": None,
    # Of the cache's wrapper around the compiler: Neuron Persistent Cache.
    "--retry_failed_compilation": None,
}
# OpenXLA, docs/effort_levels.md; libtpu refuses other spellings: "Supported values are: EFFORT_UNKNOWN, EFFORT_O0 ...".
EFFORTS = ("EFFORT_O0", "EFFORT_O1", "EFFORT_O2", "EFFORT_O3")
DOCUMENTED: dict[str, dict[str, tuple[str, ...] | None]] = {
    "NEURON_CC_FLAGS": NEURONX_CC,
    "LIBTPU_INIT_ARGS": {
        "--xla_optimization_level": EFFORTS,
        "--xla_memory_fitting_level": EFFORTS,
    },
    "XLA_FLAGS": {"--xla_backend_optimization_level": ("0", "1", "2", "3")},
}
# Neuron Runtime configuration, PyTorch NeuronX environment variables, Logical NeuronCores; torch_xla.
VARIABLES = {
    "NEURON_RT_STOCHASTIC_ROUNDING_EN",
    "NEURON_RT_STOCHASTIC_ROUNDING_SEED",
    "NEURON_LOGICAL_NC_CONFIG",
    "NEURON_COMPILE_CACHE_URL",
}


def values(option: Option) -> tuple[object, ...]:
    return (True, False) if option.type is bool else known(option) or (7,)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda o: o.key)
def test_every_flag_is_documented_with_exactly_these_values(option: Option) -> None:
    for parts in option.becomes.values():
        for becomes in parts:
            if becomes.variable not in FLAGS:
                assert becomes.variable in VARIABLES
                continue
            made: dict[str, set[str]] = {}
            for value in becomes.values or values(option):
                for name, text in flags(becomes.variable, becomes.text(value)):  # type: ignore[arg-type]
                    made.setdefault(name, set()).add(text)
            for name, texts in made.items():
                assert texts == set(DOCUMENTED[becomes.variable][name] or ("",))


def test_every_documented_flag_of_training_has_a_row() -> None:
    made = {
        name
        for option in OPTIONS
        for parts in option.becomes.values()
        for becomes in parts
        if becomes.variable in FLAGS
        for value in becomes.values or values(option)
        for name, _ in flags(becomes.variable, becomes.text(value))  # type: ignore[arg-type]
    }
    assert made == {name for flag in DOCUMENTED.values() for name in flag} - {"--target"}


def test_the_compiler_is_told_of_the_machines_it_knows() -> None:
    told = {machine.compiles_for for machine in MACHINES.values()} - {""}
    assert told == set(NEURONX_CC["--target"] or ())


@pytest.mark.parametrize("option", OPTIONS, ids=lambda o: o.key)
def test_every_option_says_what_it_is_on_every_kind_of_machine(option: Option) -> None:
    kinds = {machine.kind for machine in MACHINES.values()}
    if option.key not in ("devices", "launcher", "image", "instance"):
        assert set(option.becomes) | set(option.absent) == kinds
        assert not set(option.becomes) & set(option.absent)
    assert option.help
    assert set(option.only) <= set(MACHINES)
