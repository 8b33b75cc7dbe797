"""The settings that can be varied, and their environment variables and script arguments."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

# Of the runtime: name -> (variable, why its gain on XLA:CPU says nothing of a device).
RUNTIME = {
    "batches_per_execution": (
        "XLA_MIGRATE_BATCHES_PER_EXECUTION",
        "the cost of a launch on a device differs from the CPU's",
    ),
    "loader_prefetch": (
        "XLA_MIGRATE_LOADER_PREFETCH_SIZE",
        "on the CPU the loader and the training share the cores",
    ),
    "device_prefetch": (
        "XLA_MIGRATE_DEVICE_PREFETCH_SIZE",
        "on the CPU nothing is copied to another memory",
    ),
    "transfer_threads": (
        "XLA_MIGRATE_TRANSFER_THREADS",
        "on the CPU nothing is copied to another memory",
    ),
    "read_ahead": (
        "XLA_MIGRATE_READ_AHEAD",
        "on the CPU the loader and the training share the cores",
    ),
    "workers": ("XLA_MIGRATE_WORKERS", "on the CPU the loader and the training share the cores"),
    "precision": ("XLA_MIGRATE_PRECISION", "a device has units for bfloat16, XLA:CPU converts"),
    "torch_compile": (
        "XLA_MIGRATE_TORCH_COMPILE",
        "the cost of tracing and launching relative to a step differs on a device",
    ),
}
_OPTIMIZATION = "each compiler has its own levels"
_OPTION = "what a device computes fast depends on its memory and units (batch sizes above all)"
_ENV = "it is a setting of this machine"


class SettingError(ValueError):
    """A setting that there is not, or that this machine does not know; the message says what there is."""


@dataclass(frozen=True)
class Setting:
    """One choice: names and values, none for the baseline."""

    values: tuple[tuple[str, str], ...] = ()
    name: str = field(init=False)

    def __post_init__(self) -> None:
        text = ", ".join(f"{name.removeprefix('option:')}={value}" for name, value in self.values)
        object.__setattr__(self, "name", text or "as it is")

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that this setting adds to `env`."""
        out: dict[str, str] = {}
        for name, value in self.values:
            if name in RUNTIME:
                out[RUNTIME[name][0]] = value
            elif name.startswith("env:"):
                out[name[4:]] = value
            elif name == "optimization":
                out |= _compile_level(value, env)
        return out

    def arguments(self, args: Sequence[str]) -> list[str]:
        """The script's arguments, with its options of this setting in place of those given."""
        out = list(args)
        for name, value in self.values:
            if name.startswith("option:"):
                out = _with_option(out, "--" + name[7:].lstrip("-"), value)
        return out

    def command(self, script: str, args: Sequence[str], env: Mapping[str, str]) -> str:
        """Return the shell command that uses the setting."""
        variables = [f"{k}={shlex.quote(v)}" for k, v in self.environment(env).items()]
        return " ".join(
            [*variables, "python", shlex.quote(script), shlex.join(self.arguments(args))]
        )

    def not_carried_over(self) -> list[str]:
        """Per name, why a gain on XLA:CPU says nothing of another device."""
        out = []
        for name, _ in self.values:
            if name in RUNTIME:
                why = RUNTIME[name][1]
            else:
                why = {"optimization": _OPTIMIZATION}.get(
                    name, _ENV if name.startswith("env:") else _OPTION
                )
            out.append(f"{name.removeprefix('option:')}: {why}")
        return out


def _with_option(args: list[str], option: str, value: str) -> list[str]:
    """`value` "on" and "off" are a flag's."""
    out, skip = [], False
    for i, word in enumerate(args):
        if skip:
            skip = False
        elif word == option:
            skip = (
                i + 1 < len(args)
                and not args[i + 1].startswith("--")
                and value not in ("on", "off")
            )
        elif not word.startswith(f"{option}="):
            out.append(word)
    if value == "off":
        return out
    return [*out, option] if value == "on" else [*out, option, value]


def _compile_level(value: str, env: Mapping[str, str]) -> dict[str, str]:
    device = env.get("PJRT_DEVICE", "CPU")
    if device == "CPU":
        return {"XLA_FLAGS": _joined(env, "XLA_FLAGS", f"--xla_backend_optimization_level={value}")}
    if device == "NEURON":
        return {"NEURON_CC_FLAGS": _joined(env, "NEURON_CC_FLAGS", f"-O{value}")}
    raise SettingError(
        f"optimization: unknown for PJRT_DEVICE={device}: vary the compiler's variable with env:NAME=VALUES"
    )


def _joined(env: Mapping[str, str], name: str, more: str) -> str:
    return " ".join(filter(None, [env.get(name, ""), more]))


def parse(texts: Sequence[str]) -> list[tuple[str, list[str]]]:
    """`--vary NAME=A,B,C` each, as (name, values).

    Raises:
        SettingError: no such name, no values, or a name twice.
    """
    out: list[tuple[str, list[str]]] = []
    for text in texts:
        name, _, rest = text.partition("=")
        values = [value.strip() for value in rest.split(",") if value.strip()]
        known = name in RUNTIME or name == "optimization"
        if not known and not (name.startswith(("option:", "env:")) and name.partition(":")[2]):
            names = ", ".join([*RUNTIME, "optimization", "option:NAME", "env:NAME"])
            raise SettingError(f"--vary {name}: unknown setting; known settings: {names}")
        if not values:
            raise SettingError(f"--vary {name}: needs values: {name}=1,2")
        if name in dict(out):
            raise SettingError(f"--vary {name}: given twice")
        out.append((name, list(dict.fromkeys(values))))
    return out


def combinations(varied: Sequence[tuple[str, list[str]]], alone: bool = False) -> list[Setting]:
    """The baseline, then every combination; with `alone`, each value by itself."""
    if alone:
        return [Setting(), *(Setting(((name, v),)) for name, values in varied for v in values)]
    names = [name for name, _ in varied]
    products = itertools.product(*(values for _, values in varied))
    return [Setting(), *(Setting(tuple(zip(names, chosen, strict=True))) for chosen in products)]
