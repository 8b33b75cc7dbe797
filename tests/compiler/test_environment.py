"""What profiles become: written out in full for each kind of machine, and what is refused."""

from __future__ import annotations

import pytest

from xla_migrate.compiler.environment import EnvironmentPlan, flags, plan
from xla_migrate.compiler.machines import MACHINES
from xla_migrate.compiler.profile import OptionError, of_table, of_words

EVERYTHING = {
    "optimization": 1,
    "model-type": "transformer",
    "auto-cast": "matmult",
    "auto-cast-type": "fp8_e4m3",
    "distribution-strategy": "llm-training",
    "mixed-precision-accumulation": False,
    "stochastic-rounding": True,
    "stochastic-rounding-seed": 3,
    "cache": "/fsx/cache",
    "memory-fitting": 2,
    "retry-failed": True,
    "devices": 32,
    "trn1": {"saturate-infinity": True, "cache": "s3://bucket/cache"},
    "trn2": {"logical-cores": 1, "devices": 128},
    "v5e": {"devices": 1, "launcher": "spawn"},
    "cpu": {"devices": 2, "launcher": "spmd", "optimization": 0},
}


def of(
    table: dict[str, object], machine: str, env: dict[str, str] | None = None
) -> EnvironmentPlan:
    return plan(MACHINES[machine], of_table(table, machine, "pyproject.toml"), env or {})


GOLDEN = {
    "trn1": {
        "PJRT_DEVICE": "NEURON",
        "NEURON_CC_FLAGS": "--target=trn1 --optlevel=1 --model-type=transformer --auto-cast=matmult"
        " --auto-cast-type=fp8_e4m3 --distribution-strategy=llm-training"
        " --disable-mixed-precision-accumulation --retry_failed_compilation --enable-saturate-infinity",
        "NEURON_RT_STOCHASTIC_ROUNDING_EN": "1",
        "NEURON_RT_STOCHASTIC_ROUNDING_SEED": "3",
        "NEURON_COMPILE_CACHE_URL": "s3://bucket/cache",
    },
    "trn2": {
        "PJRT_DEVICE": "NEURON",
        "NEURON_CC_FLAGS": "--target=trn2 --optlevel=1 --model-type=transformer --auto-cast=matmult"
        " --auto-cast-type=fp8_e4m3 --distribution-strategy=llm-training"
        " --disable-mixed-precision-accumulation --retry_failed_compilation --logical-nc-config=1",
        "NEURON_RT_STOCHASTIC_ROUNDING_EN": "1",
        "NEURON_RT_STOCHASTIC_ROUNDING_SEED": "3",
        "NEURON_COMPILE_CACHE_URL": "/fsx/cache",
        "NEURON_LOGICAL_NC_CONFIG": "1",
    },
    "v5e": {
        "PJRT_DEVICE": "TPU",
        "LIBTPU_INIT_ARGS": "--xla_optimization_level=EFFORT_O1 --xla_memory_fitting_level=EFFORT_O2",
        "TPU_PROCESS_BOUNDS": "1,1,1",
        "TPU_VISIBLE_CHIPS": "0",
    },
    "cpu": {
        "PJRT_DEVICE": "CPU",
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
        "CPU_NUM_DEVICES": "2",
    },
}
LAUNCHERS = {
    "trn1": "torchrun --nproc_per_node=32",
    "trn2": "torchrun --nproc_per_node=128",
    "v5e": "",
    "cpu": "",
}


@pytest.mark.parametrize("machine", GOLDEN)
def test_one_profile_on_every_kind_of_machine(machine: str) -> None:
    found = of(EVERYTHING, machine)
    assert found.environment({}) == GOLDEN[machine]
    assert found.launcher == LAUNCHERS[machine]


def test_what_a_machine_lacks_is_said_and_not_set() -> None:
    notes = "\n".join(of(EVERYTHING, "cpu").notes)
    for key in ("model-type", "auto-cast", "stochastic-rounding", "cache", "memory-fitting"):
        assert f"{key} = " in notes
    assert "cannot read it back" in notes
    assert "cannot read it back" in "\n".join(of(EVERYTHING, "v5e").notes)


def test_every_part_says_why_and_by_which_source() -> None:
    for part in of(EVERYTHING, "trn1").parts:
        assert part.why
        assert part.source


def test_flags_stand_behind_those_that_are_there() -> None:
    env = {"NEURON_CC_FLAGS": "--verbose=info -O1", "XLA_FLAGS": "--xla_dump_to=/tmp/d"}
    found = of({"optimization": 1}, "trn1", env).environment(env)
    assert found["NEURON_CC_FLAGS"] == "--verbose=info -O1 --target=trn1 --optlevel=1"
    assert of({"optimization": 1}, "cpu", env).environment(env) == {
        "PJRT_DEVICE": "CPU",
        "XLA_FLAGS": "--xla_dump_to=/tmp/d --xla_backend_optimization_level=1",
    }


def test_twice_sets_nothing_twice() -> None:
    once = of(EVERYTHING, "trn1").environment({})
    assert of(EVERYTHING, "trn1", once).environment(once) == once


@pytest.mark.parametrize(
    "text", ["-O1", "-O 1", "-O=1", "--optlevel=1", "--optlevel 1", "-O1 --verbose info"]
)
def test_spellings_of_one_flag(text: str) -> None:
    assert flags("NEURON_CC_FLAGS", text)[0] == ("--optlevel", "1")


@pytest.mark.parametrize(
    ("table", "machine", "env", "words"),
    [
        ({"auto-cast-type": "bf16"}, "trn1", {}, "auto-cast-type: does nothing unless auto-cast"),
        ({"auto-cast": "none", "auto-cast-type": "bf16"}, "trn1", {}, "it is none"),
        ({"stochastic-rounding-seed": 1}, "trn1", {}, "unless stochastic-rounding is true"),
        ({"optimization": 0}, "trn1", {}, "0 is not a value for trn1; valid values: 1, 2, 3"),
        ({"trn2": {"saturate-infinity": True}}, "trn2", {}, "not for trn2: only trn1, trn1n"),
        ({"cpu": {"cache": "/x"}}, "cpu", {}, "not for cpu: torch_xla writes its cache"),
        ({"trn1": {"launcher": "spawn"}}, "trn1", {}, "launcher: does nothing unless devices"),
        ({"optimization": 1}, "trn1", {"NEURON_CC_FLAGS": "-O 2"}, "has --optlevel=2 already"),
        (
            {"mixed-precision-accumulation": False},
            "trn1",
            {"NEURON_CC_FLAGS": "--enable-mixed-precision-accumulation"},
            "the opposite of --disable-mixed-precision-accumulation",
        ),
        ({"cache": "/a"}, "trn1", {"NEURON_CC_FLAGS": "--no_cache"}, "has --no_cache"),
        ({"cache": "/a"}, "trn1", {"NEURON_CC_FLAGS": "--cache_dir=/b"}, "which would win over /a"),
        ({"cache": "/a"}, "trn1", {"NEURON_COMPILE_CACHE_URL": "/b"}, "the environment has"),
        ({}, "trn1", {"PJRT_DEVICE": "CPU"}, "PJRT_DEVICE=CPU, and this setting needs NEURON"),
    ],
)
def test_contradictions_are_one_clear_line(
    table: dict[str, object], machine: str, env: dict[str, str], words: str
) -> None:
    with pytest.raises(OptionError) as error:
        of(table, machine, env)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"optimisation": 1}, "optimisation: no such option; did you mean optimization?"),
        ({"optimization": "1"}, "optimization: must be a whole number, not '1'"),
        ({"optimization": True}, "optimization: must be a whole number, not True"),
        ({"optimization": 7}, "optimization: 7 is not a valid value; valid values: 0, 1, 2, 3"),
        ({"model-type": "bert"}, "valid values: generic, transformer, unet-inference"),
        ({"stochastic-rounding": 1}, "must be true or false, not 1"),
        ({"cache": ""}, "cache: must not be empty"),
        ({"devices": 0}, "devices: must be at least 1, not 0"),
        ({"trn1": {"model-typ": "x"}}, "trn1.model-typ: no such option; did you mean model-type?"),
        ({"trn1": 1}, "trn1: must be a table of options, not 1"),
        ({"for": "trn9"}, "for: unknown machine 'trn9'"),
    ],
)
def test_what_is_wrong_in_a_table_is_named(table: dict[str, object], words: str) -> None:
    with pytest.raises(OptionError) as error:
        of_table(table, "trn1", "x")
    assert words in str(error.value)


def test_words_of_a_command_line() -> None:
    found = of_words({"optimization": "2", "stochastic-rounding": "true"}, "command line")
    assert [given.value for given in found.values()] == [2, True]
    assert all(given.own for given in found.values())
    for key, text in (("optimization", "fast"), ("stochastic-rounding", "yes"), ("cash", "/x")):
        with pytest.raises(OptionError):
            of_words({key: text}, "command line")


@pytest.mark.parametrize(
    ("machine", "launcher", "expected"),
    [
        ("trn1", "spawn", {"NEURONCORE_NUM_DEVICES": "8"}),
        ("trn1", "spmd", {"NEURON_RT_NUM_CORES": "8"}),
        ("trn1", "torchrun", {}),
        ("cpu", "spawn", {"CPU_NUM_DEVICES": "8"}),
    ],
)
def test_the_number_of_devices_by_launcher(
    machine: str, launcher: str, expected: dict[str, str]
) -> None:
    found = of({"devices": 8, "launcher": launcher}, machine)
    said = {k: v for k, v in found.environment({}).items() if k.endswith(("_DEVICES", "_CORES"))}
    assert said == expected
    assert found.launcher == ("torchrun --nproc_per_node=8" if launcher == "torchrun" else "")
