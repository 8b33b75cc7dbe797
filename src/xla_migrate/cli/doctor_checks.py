"""The probe's results as checks: versions, device, training step, collectives and cache."""

from __future__ import annotations

from dataclasses import dataclass

from ..known_errors.explain import last_known

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OK, FAULT, NOTE = "ok", "fault", "note"


@dataclass(frozen=True)
class DoctorCheck:
    """One check: how it came out, what was seen, and what to do about it."""

    name: str
    status: str
    detail: str
    advice: str = ""


# The outcome of `verify.probe.training_step`: loss, two weights, bias.
ANSWER = [13.25, 2.9375, 1.0, 1.34375]
_NAMES = ("loss", "weight 0", "weight 1", "bias")


def judge(found: dict[str, Any], env: dict[str, str]) -> list[DoctorCheck]:
    """All checks that can be made of what was found."""
    checks = [_versions(found)]
    if found.get("backend"):
        checks.append(_backend(found["backend"]))
    if found.get("backend", {}).get("absent"):
        return checks
    if not found.get("imported"):
        return [*checks, _not_imported(found)] if checks[0].status == OK else checks
    checks.append(_device(found, env))
    if "device" in found:
        checks.append(_step(found))
        checks.append(_collectives(found))
    if not found.get("backend", {}).get("native"):  # the cache is torch_xla's
        checks.append(_cache(found, env))
    return checks


def _backend(taken: dict[str, Any]) -> DoctorCheck:
    """Which backend scripts get, and why."""
    name = "backend"
    if taken["absent"]:
        return DoctorCheck(
            name,
            FAULT,
            f"eager on the CPU ({taken['why']}): {taken['absent']}",
            "run doctor on a host that has the device; to use the CPU, uninstall that package",
        )
    if taken["backend"] == "torch_xla":
        return DoctorCheck(name, OK, f"torch_xla: {taken['why']}")
    return DoctorCheck(
        name, OK if taken["native"] else NOTE, f"eager on {taken['device']}: {taken['why']}"
    )


def _versions(found: dict[str, Any]) -> DoctorCheck:
    name = "versions"
    known = found.get("versions")
    if not known:
        return DoctorCheck(
            name,
            FAULT,
            "the probe did not start" + _last_words(found),
            "run doctor with the Python that trains",
        )
    torch, torch_xla = known.get("torch"), known.get("torch_xla")
    shown = ", ".join(f"{k} {v}" for k, v in known.items() if v)
    if torch is None:
        return DoctorCheck(
            name, FAULT, f"no torch ({shown})", "pip install 'torch==2.9.*' 'torch_xla==2.9.*'"
        )
    taken = found.get("backend", {})
    if torch_xla is None and (taken.get("native") or taken.get("absent")):
        return DoctorCheck(name, OK, shown)
    if torch_xla is None:
        same = ".".join(torch.split("+")[0].split(".")[:2])
        return DoctorCheck(
            name,
            FAULT,
            f"no torch_xla ({shown}): migrated scripts run eagerly, on CUDA or the CPU",
            f"pip install 'torch_xla=={same}.*' (on a TPU: 'torch_xla[tpu]=={same}.*'; the last is 2.9)",
        )
    return mismatch(torch, torch_xla) or DoctorCheck(name, OK, shown)


def mismatch(torch: str, torch_xla: str) -> DoctorCheck | None:
    """Return a fault if the two versions do not match and cannot be imported together, else None."""
    if _minor(torch) == _minor(torch_xla):
        return None
    same = ".".join(map(str, _minor(torch_xla)))
    return DoctorCheck(
        "versions",
        FAULT,
        f"torch {torch} and torch_xla {torch_xla} do not match",
        f"pip install 'torch=={same}.*' 'torch_xla=={same}.*' (and the matching torchvision)",
    )


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("+")[0].split(".")[:2])


def _last_words(found: dict[str, Any]) -> str:
    if "error" in found:
        return f": {found['error']}"
    if "hung" in found:
        return f": no answer for {found['hung']:g} s"
    lines = [line for line in found.get("stderr", "").splitlines() if line.strip()]
    code = f" (exit code {found['code']})" if found.get("code") else ""
    return f": {lines[-1][:300]}{code}" if lines else code


def _advice(found: dict[str, Any], otherwise: str) -> str:
    """Return cause and fix of the last known error that the probe printed, or `otherwise`."""
    known = last_known(f"{found.get('stderr', '')}\n{found.get('error', '')}")
    return f"{known.error.cause} {known.error.fix}" if known is not None else otherwise


def _not_imported(found: dict[str, Any]) -> DoctorCheck:
    return DoctorCheck(
        "torch_xla",
        FAULT,
        "cannot be imported" + _last_words(found),
        _advice(
            found, "reinstall torch and torch_xla from the same source and of the same version"
        ),
    )


def _device(found: dict[str, Any], env: dict[str, str]) -> DoctorCheck:
    name = "device"
    asked = env.get("PJRT_DEVICE", "")
    if "device" not in found:
        what = f"PJRT_DEVICE={asked}" if asked else "no PJRT_DEVICE"
        advice = "another process may hold the device: end it; see its log for the rest"
        if "hung" in found:
            advice = (
                "a TPU slice waits for all of its hosts: run this on every host"
                " (for one chip alone, set TPU_PROCESS_BOUNDS=1,1,1 TPU_VISIBLE_CHIPS=0), or end the process"
                " that holds the device"
            )
        elif "libtpu" in _last_words(found):
            advice = _LIBRARY["TPU"]
        elif "libneuronxla" in _last_words(found):
            advice = _LIBRARY["NEURON"]
        elif "unknown" in _last_words(found).lower() or asked not in ("", "CPU", "TPU", "NEURON"):
            advice = "set PJRT_DEVICE to TPU, NEURON or CPU"
        return DoctorCheck(
            name, FAULT, f"torch_xla has no device ({what}){_last_words(found)}", advice
        )
    kind = found["device_type"]
    count = f"{found['local_devices']} of {found['all_devices']} devices here"
    there = _accelerator(found)
    if kind == "CPU" and there is not None:
        title, chips, wanted = there
        why = "PJRT_DEVICE=CPU" if asked == "CPU" else f"PJRT_DEVICE={asked or 'not set'}"
        return DoctorCheck(
            name,
            FAULT,
            f"{chips} {title} present, but torch_xla computes on the CPU ({why}): training would run,"
            " but far too slowly",
            f"export PJRT_DEVICE={wanted}; {_LIBRARY[wanted]}",
        )
    named = [f"{name}={env[name]}" for name in _OF_A_TPU if env.get(name)]
    if kind == "CPU" and asked != "CPU" and named:
        return DoctorCheck(
            name,
            FAULT,
            f"{', '.join(named)}: set as on a TPU machine, but torch_xla finds no chip and computes on"
            " the CPU",
            "give the container access to /dev/accel* or /dev/vfio (privileged); on a machine without a"
            " TPU, unset these variables or export PJRT_DEVICE=CPU",
        )
    if asked and kind != asked:
        return DoctorCheck(
            name,
            FAULT,
            f"PJRT_DEVICE={asked}, but torch_xla computes on {kind}",
            _LIBRARY.get(asked, "set PJRT_DEVICE to TPU, NEURON or CPU"),
        )
    if kind == "CPU":
        advice = (
            ""
            if asked
            else "export PJRT_DEVICE=CPU if you want the CPU; on a TPU machine, PJRT_DEVICE=TPU"
        )
        return DoctorCheck(name, NOTE if not asked else OK, f"CPU, {count}: for rehearsals", advice)
    return DoctorCheck(name, OK, f"{kind}, {count}")


_OF_A_TPU = ("TPU_ACCELERATOR_TYPE", "TPU_NAME", "TPU_WORKER_HOSTNAMES")

_LIBRARY = {
    "TPU": "libtpu may be missing: pip install 'torch_xla[tpu]' of torch's version",
    "NEURON": "torch-neuronx may be missing: it comes from the vendor's package index",
    "CPU": "unset PJRT_DEVICE",
}


def _accelerator(found: dict[str, Any]) -> tuple[str, int, str] | None:
    """Return the kind of accelerator of the machine, how many there are, and their PJRT_DEVICE."""
    if found.get("tpu_chips"):
        return "TPU chips are", found["tpu_chips"], "TPU"
    if found.get("neuron_nodes"):
        return "Neuron devices are", found["neuron_nodes"], "NEURON"
    return None


def _step(found: dict[str, Any]) -> DoctorCheck:
    name = "training step"
    got = found.get("step")
    if got is None:
        return DoctorCheck(
            name,
            FAULT,
            "did not run" + _last_words(found),
            _advice(
                found,
                "the device exists but does not compute: free its memory, or restart the device or the machine",
            ),
        )
    wrong = [
        f"{what} {mine:g}, not {right:g}"
        for what, mine, right in zip(_NAMES, got, ANSWER, strict=True)
        if not abs(mine - right) <= 1e-4 * abs(right)
    ]
    if wrong:
        return DoctorCheck(
            name,
            FAULT,
            f"wrong numbers: {', '.join(wrong)}",
            "unset XLA_USE_BF16, XLA_DOWNCAST_BF16 and XLA_FLAGS; if that does not help, the device or its library is faulty",
        )
    return DoctorCheck(name, OK, f"correct, in {found['step_seconds']:.1f} s including compilation")


def _collectives(found: dict[str, Any]) -> DoctorCheck:
    name = "collectives"
    if found["local_devices"] <= 1:
        return DoctorCheck(name, OK, "one device: none are needed")
    if found.get("backend", {}).get("native"):
        return DoctorCheck(
            name,
            NOTE,
            f"not tried between the {found['local_devices']} devices of a native backend",
            "start the script with torchrun, a process for each device, for a few steps",
        )
    if found["device_type"] == "CPU":
        return DoctorCheck(
            name,
            NOTE,
            "XLA:CPU has none between processes; rehearsals reduce through gloo",
            "unset CPU_NUM_DEVICES, unless the script uses SPMD",
        )
    n = found.get("together_replicas")
    reduced = found.get("together_reduced")
    if n is None or reduced != n * (n + 1) / 2:
        words = {
            k.removeprefix("together_"): v for k, v in found.items() if k.startswith("together_")
        }
        seen = f"the sum of {n} ranks is {reduced:g}" if n and reduced else "no answer"
        return DoctorCheck(
            name,
            FAULT,
            seen + _last_words(words),
            _advice(
                words,
                "every device must be free, and on several hosts the same command has to run on each",
            ),
        )
    return DoctorCheck(name, OK, f"all-reduce over {n} replicas")


def _cache(found: dict[str, Any], env: dict[str, str]) -> DoctorCheck:
    name = "compile cache"
    path = found.get("cache")
    if path is None and found.get("device_type") == "NEURON":
        return _cache_of_neuron(env)
    if path is None:
        return DoctorCheck(
            name,
            NOTE,
            "none: every start compiles again",
            "torch_xla 2.9 cannot read a cache on TPUs and on the CPU; `xla-migrate doctor --cache -- COMMAND` shows it",
        )
    if not found.get("cache_writable"):
        return DoctorCheck(
            name, FAULT, f"{path} cannot be written", "choose a folder that you can write to"
        )
    entries = found.get("cache_entries", 0)
    size = f"{found.get('cache_bytes', 0) / 2**20:.1f} MiB"
    detail = f"{path}, {entries} entries, {size}, {_shared(found.get('cache_file_system', ''))}"
    if found.get("device_type") in ("CPU", "TPU"):
        return DoctorCheck(name, NOTE, f"{detail}: torch_xla writes it but cannot read it")
    return DoctorCheck(name, OK, detail)


# Types of file systems that several hosts mount.
_NETWORK = (
    "nfs",
    "lustre",
    "fuse",
    "ceph",
    "gpfs",
    "beegfs",
    "9p",
    "cifs",
    "smb",
    "glusterfs",
    "afs",
)


def _shared(kind: str) -> str:
    if not kind:
        return "unknown whether other hosts share it"
    if kind.startswith(_NETWORK):
        return f"on {kind}: shared with the hosts that mount it"
    return f"on {kind}: this host's own"


def _cache_of_neuron(env: dict[str, str]) -> DoctorCheck:
    """Return the check of the Neuron compiler's cache, which is on by default."""
    from ..compiler.environment import flags
    from ..target.precompile import NEURON_CACHE, size_of

    name = "compile cache"
    told = dict(flags("NEURON_CC_FLAGS", env.get("NEURON_CC_FLAGS", "")))
    if "--no_cache" in told:
        advice = "remove --no_cache from NEURON_CC_FLAGS"
        return DoctorCheck(name, NOTE, "turned off: every start compiles again", advice)
    place = told.get("--cache_dir") or env.get("NEURON_COMPILE_CACHE_URL") or NEURON_CACHE
    if place.startswith("s3://"):
        return DoctorCheck(name, OK, f"{place}, shared with everyone who can read the bucket")
    from ..verify.probe import file_system

    files, size = size_of(place)
    kind = _shared(file_system(place))
    return DoctorCheck(name, OK, f"{place}, {files} files, {size / 2**20:.1f} MiB, {kind}")
