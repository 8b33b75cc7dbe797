"""From a profile and a machine to the environment variables that a training must be started with, and why."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import NamedTuple

from .machines import CPU, NEURON, TPU, Machine
from .options import ALIASES, FLAGS, TABLE, Becomes, Option, Value
from .profile import Given, OptionError, Profile

_CC = FLAGS[0]
# Worlds that Neuron's collectives can be placed in on one trn1 host (ENV, NEURON_RT_VISIBLE_CORES).
_WORLDS_OF_TRN1 = (1, 2, 8, 32)


class Part(NamedTuple):
    """One flag, or the whole value of a variable; the option it is from, and why it is set."""

    variable: str
    text: str
    key: str
    why: str
    source: str


class EnvironmentPlan(NamedTuple):
    """The variables to set (`parts`), a prefix for the command if needed, and omissions with reasons."""

    machine: Machine
    parts: tuple[Part, ...]
    launcher: str
    notes: tuple[str, ...]

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """The variables to set in an environment that has `env`: flags stand behind those that are there."""
        out: dict[str, str] = {}
        for part in self.parts:
            if part.variable not in FLAGS:
                out[part.variable] = part.text
                continue
            before = out.get(part.variable, env.get(part.variable, "").strip())
            if part.text not in before.split():
                before = f"{before} {part.text}".strip()
            out[part.variable] = before
        return out


def plan(machine: Machine, profile: Profile, env: Mapping[str, str]) -> EnvironmentPlan:
    """Return the environment for `profile` on `machine`, if `env` is set already.

    Raises:
        OptionError: options contradict one another, the machine or `env`.
    """
    parts = [Part("PJRT_DEVICE", machine.pjrt, "for", "torch_xla takes this device", "torch_xla")]
    notes: list[str] = []
    if machine.compiles_for:
        why = "names the machine to compile for, so that it also works on a host without the device"
        parts.append(Part(_CC, f"--target={machine.compiles_for}", "for", why, "NCC"))
    for key, given in profile.items():
        row = TABLE[key]
        reason = _unused(row, machine)
        if reason and given.own:
            raise OptionError(key, f"not for {machine.name}: {reason}")
        if reason:
            notes.append(f"{key} = {shown(given.value)} is not used: {reason}")
            continue
        _needed(row, profile)
        parts += _parts(row, given, machine)
    more, launcher, said = _devices(machine, profile)
    parts += more
    notes += said
    for part in parts:
        _agree(part, env)
    if machine.kind == NEURON and "cache" in profile:
        _one_cache(profile["cache"].value, env)
    return EnvironmentPlan(machine, tuple(parts), launcher, tuple(notes))


def _unused(row: Option, machine: Machine) -> str:
    if machine.kind in row.absent:
        return row.absent[machine.kind]
    if row.only and machine.name not in row.only:
        names = ", ".join(row.only)
        return f"only {names} has it" if len(row.only) == 1 else f"only {names} have it"
    return ""


def _needed(row: Option, profile: Profile) -> None:
    if row.needs is None:
        return
    key, values = row.needs
    if key not in profile or profile[key].value not in values:
        wanted = " or ".join(shown(value) for value in values)
        has = shown(profile[key].value) if key in profile else "not set"
        raise OptionError(row.key, f"does nothing unless {key} is {wanted}; it is {has}")


def _parts(row: Option, given: Given, machine: Machine) -> list[Part]:
    parts = []
    for becomes in row.becomes.get(machine.kind, ()):
        value = given.value
        if becomes.values and value not in becomes.values:
            listed = ", ".join(shown(v) for v in becomes.values)
            raise OptionError(
                row.key, f"{shown(value)} is not a value for {machine.name}; valid values: {listed}"
            )
        if becomes.text(value):
            parts.append(_part(row, becomes, given))
    return parts


def _part(row: Option, becomes: Becomes, given: Given) -> Part:
    default = f"; without it {becomes.default}" if becomes.default else ""
    why = f"{row.key} = {shown(given.value)} ({given.origin}): {row.help}{default}"
    return Part(becomes.variable, becomes.text(given.value), row.key, why, becomes.source)


def _devices(machine: Machine, profile: Profile) -> tuple[list[Part], str, list[str]]:
    """Variables, launcher and notes for the number of devices."""
    given = profile.get("devices")
    launcher = str(profile["launcher"].value) if "launcher" in profile else "torchrun"
    if given is None:
        if "launcher" in profile and profile["launcher"].own:
            raise OptionError("launcher", "does nothing unless devices is set")
        return [], "", []
    count = int(given.value)
    if machine.kind == TPU:
        return _of_tpu(count, given, launcher)
    notes = []
    if machine.name in ("trn1", "trn1n") and count not in _WORLDS_OF_TRN1:
        listed = ", ".join(map(str, _WORLDS_OF_TRN1))
        notes.append(f"devices = {count}: collectives on one trn1 host are documented for {listed}")
    if launcher == "torchrun":
        return [], f"torchrun --nproc_per_node={count}", notes
    variable, source = {
        (NEURON, "spawn"): ("NEURONCORE_NUM_DEVICES", "ENV: for spawn, not for torchrun"),
        (NEURON, "spmd"): ("NEURON_RT_NUM_CORES", "NRT"),
        (CPU, "spawn"): ("CPU_NUM_DEVICES", "torch_xla"),
        (CPU, "spmd"): ("CPU_NUM_DEVICES", "torch_xla"),
    }[machine.kind, launcher]
    why = f"devices = {count} ({given.origin}), started by {launcher}"
    return [Part(variable, str(count), "devices", why, source)], "", notes


def _of_tpu(count: int, given: Given, launcher: str) -> tuple[list[Part], str, list[str]]:
    if launcher == "torchrun":
        note = "torchrun needs `init_method='xla://'` on a TPU; `xla.launch` does without"
        return [], f"torchrun --nproc_per_node={count}", [note]
    if count > 1:
        return (
            [],
            "",
            [f"devices = {count}: {launcher} takes all chips of the host, nothing is set"],
        )
    why = f"devices = 1 ({given.origin}): one chip of the host"
    bounds = Part("TPU_PROCESS_BOUNDS", "1,1,1", "devices", why, "libtpu")
    return [bounds, Part("TPU_VISIBLE_CHIPS", "0", "devices", why, "libtpu")], "", []


def _agree(part: Part, env: Mapping[str, str]) -> None:
    """Fail if a variable is already set to something else."""
    there = env.get(part.variable, "")
    if not there:
        return
    if part.variable not in FLAGS:
        if there != part.text:
            raise OptionError(
                part.key,
                f"the environment has {part.variable}={there}, and this setting needs {part.text}: unset one of them",
            )
        return
    name, _, value = part.text.partition("=")
    for other, set_to in flags(part.variable, there):
        if other == name and set_to != value:
            raise OptionError(
                part.key,
                f"{part.variable} has {other}{set_to and '=' + set_to} already, and this setting needs"
                f" {part.text}: remove one of them",
            )
        if _opposite(name, other):
            raise OptionError(
                part.key, f"{part.variable} has {other} already, the opposite of {part.text}"
            )


def _opposite(one: str, other: str) -> bool:
    return {one.replace("--enable-", "--disable-"), one.replace("--disable-", "--enable-")} == {
        one,
        other,
    } and one != other


def _one_cache(place: Value, env: Mapping[str, str]) -> None:
    for name, value in flags(_CC, env.get(_CC, "")):
        if name == "--no_cache":
            raise OptionError("cache", f"{_CC} has --no_cache: remove one of them")
        if name == "--cache_dir" and value != place:
            raise OptionError(
                "cache",
                f"{_CC} has --cache_dir={value}, which would win over {place}: remove one of them",
            )


def flags(variable: str, text: str) -> list[tuple[str, str]]:
    """The flags in `text`, the value of `variable`, as (name, value): `-O1`, `-O 1` and `--optlevel=1` are one."""
    aliases = ALIASES.get(variable, {})
    found: list[tuple[str, str]] = []
    for word in _words(text):
        if not word.startswith("-") and found and not found[-1][1]:
            found[-1] = (found[-1][0], word)
            continue
        name, _, value = word.partition("=")
        for short, long in aliases.items():
            if name.startswith(short) and not name.startswith("--"):
                name, value = long, value or name[len(short) :]
        found.append((name, value))
    return found


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # an open quote: the compiler will say so
        return text.split()


def shown(value: Value) -> str:
    """`value` as it stands in TOML."""
    return str(value).lower() if isinstance(value, bool) else str(value)
