"""What the probe found, judged: a check each for versions, device, training step, collectives and cache."""

from __future__ import annotations

from .doctor import FAULT, NOTE, OK, Check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The outcome of `verify.probe.training_step`: loss, two weights, bias.
ANSWER = [13.25, 2.9375, 1.0, 1.34375]
_NAMES = ("loss", "weight 0", "weight 1", "bias")


def judge(found: dict[str, Any], env: dict[str, str]) -> list[Check]:
    """All checks that can be made of what was found."""
    checks = [_versions(found)]
    if not found.get("imported"):
        return [*checks, _not_imported(found)] if checks[0].status == OK else checks
    checks.append(_device(found, env))
    if "device" in found:
        checks.append(_step(found))
        checks.append(_collectives(found))
    checks.append(_cache(found))
    return checks


def _versions(found: dict[str, Any]) -> Check:
    name = "versions"
    known = found.get("versions")
    if not known:
        return Check(
            name,
            FAULT,
            "the probe did not start" + _last_words(found),
            "run doctor with the Python that trains",
        )
    torch, torch_xla = known.get("torch"), known.get("torch_xla")
    shown = ", ".join(f"{k} {v}" for k, v in known.items() if v)
    if torch is None:
        return Check(name, FAULT, f"no torch ({shown})", "pip install 'xla-migrate[xla]'")
    if torch_xla is None:
        same = ".".join(torch.split("+")[0].split(".")[:2])
        return Check(
            name,
            FAULT,
            f"no torch_xla ({shown}): migrated scripts run eagerly, on CUDA or the CPU",
            f"pip install 'torch_xla=={same}.*' (on a TPU: 'torch_xla[tpu]=={same}.*'; the last is 2.9)",
        )
    if _minor(torch) != _minor(torch_xla):
        same = ".".join(map(str, _minor(torch_xla)))
        return Check(
            name,
            FAULT,
            f"torch {torch} and torch_xla {torch_xla} do not match",
            f"pip install 'torch=={same}.*' 'torch_xla=={same}.*' (and torchvision to go with it)",
        )
    return Check(name, OK, shown)


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("+")[0].split(".")[:2])


def _last_words(found: dict[str, Any]) -> str:
    if "error" in found:
        return f": {found['error']}"
    if "hung" in found:
        return f": nothing for {found['hung']:g} s"
    lines = [line for line in found.get("stderr", "").splitlines() if line.strip()]
    code = f" (exit code {found['code']})" if found.get("code") else ""
    return f": {lines[-1][:300]}{code}" if lines else code


def _not_imported(found: dict[str, Any]) -> Check:
    return Check(
        "torch_xla",
        FAULT,
        "cannot be imported" + _last_words(found),
        "reinstall torch and torch_xla from the same source and of the same version",
    )


def _device(found: dict[str, Any], env: dict[str, str]) -> Check:
    name = "device"
    asked = env.get("PJRT_DEVICE", "")
    if "device" not in found:
        what = f"PJRT_DEVICE={asked}" if asked else "no PJRT_DEVICE"
        advice = "another process may hold the device: end it; see its log for the rest"
        if "hung" in found:
            advice = (
                "a TPU slice waits for all of its hosts: run on every host"
                " (one chip alone: TPU_PROCESS_BOUNDS=1,1,1 TPU_VISIBLE_CHIPS=0), or end the process"
                " that holds the device"
            )
        elif "libtpu" in _last_words(found):
            advice = _LIBRARY["TPU"]
        elif "libneuronxla" in _last_words(found):
            advice = _LIBRARY["NEURON"]
        elif "unknown" in _last_words(found).lower() or asked not in ("", "CPU", "TPU", "NEURON"):
            advice = "PJRT_DEVICE is TPU, NEURON or CPU"
        return Check(name, FAULT, f"torch_xla has no device ({what}){_last_words(found)}", advice)
    kind = found["device_type"]
    count = f"{found['local_devices']} of {found['all_devices']} devices here"
    there = _accelerator(found)
    if kind == "CPU" and there is not None:
        title, chips, wanted = there
        why = "PJRT_DEVICE=CPU" if asked == "CPU" else f"PJRT_DEVICE={asked or 'not set'}"
        return Check(
            name,
            FAULT,
            f"{chips} {title} here, but torch_xla computes on the CPU ({why}): training would work,"
            " a hundred times too slow",
            f"export PJRT_DEVICE={wanted}; {_LIBRARY[wanted]}",
        )
    named = [f"{name}={env[name]}" for name in _OF_A_TPU if env.get(name)]
    if kind == "CPU" and asked != "CPU" and named:
        return Check(
            name,
            FAULT,
            f"{', '.join(named)}: the environment is a TPU's, but torch_xla sees no chip and computes on"
            " the CPU",
            "a container has to be given /dev/accel* or /dev/vfio (privileged); on a machine without a"
            " TPU, unset these variables or export PJRT_DEVICE=CPU",
        )
    if asked and kind != asked:
        return Check(
            name,
            FAULT,
            f"PJRT_DEVICE={asked}, but torch_xla computes on {kind}",
            _LIBRARY.get(asked, "PJRT_DEVICE is TPU, NEURON or CPU"),
        )
    if kind == "CPU":
        advice = (
            "" if asked else "export PJRT_DEVICE=CPU to say so; on a TPU machine, PJRT_DEVICE=TPU"
        )
        return Check(name, NOTE if not asked else OK, f"CPU, {count}: for rehearsals", advice)
    return Check(name, OK, f"{kind}, {count}")


_OF_A_TPU = ("TPU_ACCELERATOR_TYPE", "TPU_NAME", "TPU_WORKER_HOSTNAMES")

_LIBRARY = {
    "TPU": "is libtpu there? pip install 'torch_xla[tpu]' of torch's version",
    "NEURON": "is torch-neuronx there? It comes from the vendor's package index",
    "CPU": "unset PJRT_DEVICE",
}


def _accelerator(found: dict[str, Any]) -> tuple[str, int, str] | None:
    """What the machine has, how many, and its PJRT_DEVICE."""
    if found.get("tpu_chips"):
        return "TPU chips are", found["tpu_chips"], "TPU"
    if found.get("neuron_nodes"):
        return "Neuron devices are", found["neuron_nodes"], "NEURON"
    return None


def _step(found: dict[str, Any]) -> Check:
    name = "training step"
    got = found.get("step")
    if got is None:
        return Check(
            name,
            FAULT,
            "did not run" + _last_words(found),
            "the device is there but does not compute: restart it, or the machine; free its memory",
        )
    wrong = [
        f"{what} {mine:g}, not {right:g}"
        for what, mine, right in zip(_NAMES, got, ANSWER, strict=True)
        if not abs(mine - right) <= 1e-4 * abs(right)
    ]
    if wrong:
        return Check(
            name,
            FAULT,
            f"wrong numbers: {', '.join(wrong)}",
            "unset XLA_USE_BF16, XLA_DOWNCAST_BF16 and XLA_FLAGS; then the device or its library is at fault",
        )
    return Check(name, OK, f"as known, in {found['step_seconds']:.1f} s with its compilation")


def _collectives(found: dict[str, Any]) -> Check:
    name = "collectives"
    if found["local_devices"] <= 1:
        return Check(name, OK, "one device: none are needed")
    if found["device_type"] == "CPU":
        return Check(
            name,
            NOTE,
            "XLA:CPU has none between processes; rehearsals reduce through gloo",
            "unset CPU_NUM_DEVICES, unless for SPMD",
        )
    n = found.get("together_replicas")
    reduced = found.get("together_reduced")
    if n is None or reduced != n * (n + 1) / 2:
        words = {
            k.removeprefix("together_"): v for k, v in found.items() if k.startswith("together_")
        }
        seen = f"the sum of {n} ranks is {reduced:g}" if n and reduced else "did not come back"
        return Check(
            name,
            FAULT,
            seen + _last_words(words),
            "every device must be free, and on several hosts the same command has to run on each",
        )
    return Check(name, OK, f"all-reduce over {n} replicas")


def _cache(found: dict[str, Any]) -> Check:
    name = "compile cache"
    path = found.get("cache")
    if path is None:
        return Check(
            name,
            NOTE,
            "none: every start compiles anew",
            "export XLA_PERSISTENT_CACHE_PATH=FOLDER, on a disk that outlives the job",
        )
    if not found.get("cache_writable"):
        return Check(
            name, FAULT, f"{path} cannot be written", "choose a folder that this user may write"
        )
    entries = found.get("cache_entries", 0)
    if found.get("device_type") == "CPU":
        return Check(name, NOTE, f"{path}, {entries} entries: XLA:CPU writes it but cannot read it")
    return Check(name, OK, f"{path}, {entries} entries")
