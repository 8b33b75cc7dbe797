"""Do scripts print the same lines after migration, and how often do they wait for the device?

    python docs/bench/printed.py EXAMPLES [--kept] [--float64] [--default] [--cuda] [NAME ...]
    python docs/bench/printed.py --fixtures [--kept] [--float64] [--default] [--cuda] [NAME ...]

EXAMPLES is a checkout of github.com/pytorch/examples, run on made-up data; `--fixtures` runs the scripts of fixtures/train
that have one process. Each script that needs nothing from the network, or whose data can be
made up, runs twice to its end: the original with its CUDA redirected to the CPU as `verify` does, and the migrated script
on XLA:CPU. Times and rates are masked; progress bars and warnings are omitted. Prints a line for each: the number of
printed lines, of lines equal to the last digit, of lines equal up to one unit of the last printed digit, and the first
difference. `--float64` computes in float64 in both runs: differences only in float32 are rounding.
`--kept` compares with the migrated script that reads at the original's points (without XLA503), also on XLA:CPU:
any difference there comes from reading later.
`--cuda` runs both on the GPU with deterministic kernels, the migrated one on the eager backend; scripts of several
processes run as one, and nothing is counted.

The migrated script's reads per step are the median and the mean over its steps (an evaluation belongs to the step before it). `--default`
omits the options by which scripts log at each step here, so that they log as often as by default.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, median

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, migrate
from xla_migrate.script_environment import free_port
from xla_migrate.verify.experiments.run import run

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT)]

from tests.e2e.fixtures import SINGLE  # noqa: E402
from tests.runtime.native.building import recorder  # noqa: E402

# Folder, script, arguments.
SCRIPTS = {
    "mnist": ("mnist", "main.py", "--epochs 1 --batch-size 8 --test-batch-size 16 --log-interval 2"),
    "mnist_rnn": ("mnist_rnn", "main.py", "--accel --epochs 1 --batch-size 8 --test-batch-size 16 --log-interval 2"),
    "mnist_forward_forward": ("mnist_forward_forward", "main.py", "--epochs 2 --train_size 32 --test_size 16"),
    "siamese_network": ("siamese_network", "main.py", "--epochs 1 --lr 0.01 --batch-size 8 --test-batch-size 8 --log-interval 2"),
    "vae": ("vae", "main.py", "--epochs 1 --batch-size 8 --log-interval 2"),
    "dcgan": ("dcgan", "main.py", "--dataset fake --accel --niter 1 --dry-run --batchSize 4 --workers 0 --ngf 8 --ndf 8"),
    "imagenet": ("imagenet", "main.py", "--dummy --epochs 1 -a squeezenet1_0 --lr 0.001 -b 4 -j 0 -p 1 ."),
    "super_resolution": ("super_resolution", "main.py", "--accel --upscale_factor 3 --batchSize 2 --testBatchSize 2 --threads 0"),
    "regression": ("regression", "main.py", ""),
    "word_language_model": ("word_language_model", "main.py", "--accel --data words --epochs 2 --batch_size 4 --bptt 8 --emsize 8 --nhid 8 --log-interval 3"),
    "gcn": ("gcn", "main.py", "--epochs 6 --val-every 1 --dropout-p 0"),
    "gat": ("gat", "main.py", "--epochs 4 --val-every 1 --hidden-dim 8 --num-heads 2"),
    "time_sequence_prediction": ("time_sequence_prediction", "train.py", "--steps 1"),
    "fast_neural_style": ("fast_neural_style/neural_style", "neural_style.py", "train --accel --epochs 1 --batch-size 2 --dataset dataset/BSDS300/images --style-image style.png --save-model-dir {place} --image-size 32 --style-size 32 --log-interval 1"),
    "language_translation": ("language_translation", "main.py", "--epochs 2 --batch 8 --backend gpu --attn_heads 2 --enc_layers 1 --dec_layers 1 --embed_size 16 --dim_feedforward 16 --logging_dir {place}/"),
    "single_gpu": ("distributed/ddp-tutorial-series", "single_gpu.py", "2 1 --batch_size 256"),
    "multigpu": ("distributed/ddp-tutorial-series", "multigpu.py", "2 1 --batch_size 256"),
    "multigpu_torchrun": ("distributed/ddp-tutorial-series", "multigpu_torchrun.py", "2 1 --batch_size 256"),
    "multinode": ("distributed/ddp-tutorial-series", "multinode.py", "2 1 --batch_size 256"),
    "ddp": ("distributed/ddp", "example.py", ""),
    "mingpt": ("distributed/minGPT-ddp/mingpt", "main.py", ""),
    "snli": ("legacy/snli", "train.py", "--epochs 2 --batch_size 8 --d_embed 16 --d_proj 16 --d_hidden 16 --log_every 2 --dev_every 4 --save_every 100 --word_vectors made-up --vector_cache vectors.pt"),
}  # fmt: skip
# Of scripts that train in several processes.
PROCESSES = {"multigpu": 2, "multigpu_torchrun": 2, "multinode": 2, "ddp": 2, "mingpt": 2}
SPAWNING = {"multigpu"}  # starts them itself
# Stands in for what the scripts would download, and for packages that they import; executed before them.
SHIM = Path(__file__).with_name("made_up_data.py")
TIMEOUT = 1500  # seconds
_CHANGING = re.compile(
    r"redirected CUDA device \(CPU\)|XLA:CPU|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+|[\d.]+ MiB|(?:Time|Data) +[\d.]+ \( *[\d.]+\)|(?:Time|Speed)\s+[\d.]+|(?:\d+m )?\d+(?:\.\d+)? ?(?:s|sec|seconds|ms|it/s)\b|time: +[\d.]+s?|ms/(?:batch|window) +[\d.]+|\b(?:cuda|cpu|xla)(?::\d+)?\b|^\[\d+\]|^ +\d+(?= +\d+ +\d+ +\d+/)|'MASTER_PORT': '\d+'|\bbackend=\w+"
)
_BAR = re.compile(
    r".*\d%\|.*?\[\d\d:\d\d<[^\]]*\](?:\x1b\[A)?"
)  # a progress bar; log lines may follow
_LEFT_OUT = re.compile(
    r"\[Gloo\]|slow_operation_alarm|slow compile|^\*+$|^The operation took|it/s|s/it|\d%\||Warning|warn|\r|^\s*$|^\s+return |^W\d|^E\d"
)
_LOGS = re.compile(r"--?(?:p|[\w-]*(?:print|log)\w*-?\w*)$")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def printed(output: str) -> list[str]:
    """Return the lines without progress bars."""
    lines = [_BAR.sub("", line) for line in output.splitlines()]
    warned = [False, *("Warning:" in line for line in lines)]  # its source stands on the next line
    return [
        _CHANGING.sub("#", line.rstrip())
        for line, is_source in zip(lines, warned, strict=False)
        if not (is_source or _LEFT_OUT.search(line))
    ]


def is_close(line: str, other: str) -> bool:
    """True if only numbers differ, by one unit of their last digit at most, or 0.01 %."""
    if _NUMBER.sub("#", line) != _NUMBER.sub("#", other):
        return False
    for one, two in zip(_NUMBER.findall(line), _NUMBER.findall(other), strict=True):
        unit = 10.0 ** -len(one.partition(".")[2].partition("e")[0]) if "." in one else 0.0
        if abs(float(one) - float(two)) > max(1.01 * unit, 1e-4 * abs(float(one))):
            return False
    return True


def migrated(folder: Path, options: Options) -> dict[str, bytes]:
    """The scripts of `folder`."""
    modules = Modules(
        {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.py")}
    )
    return {
        name: migrate(data, options, name, Project(modules, name)).data
        for name, data in modules.files.items()
    }


def by_default(words: list[str]) -> list[str]:
    """Without `--log-interval 1`."""
    return [
        word
        for before, word in zip(["", *words], words)
        if not (_LOGS.match(word) or _LOGS.match(before))
    ]


def outputs(
    folder: Path, script: str, words: list[str], place: Path, *, flags: set[str], processes: int
) -> tuple[list[str], list[str], list[int]]:
    """Return the output of the original (`--kept`: migrated, except its reads) and of the migrated script, and the reads."""
    sides = {
        "reference": migrated(folder, Options(ignore=("XLA503",))) if "--kept" in flags else None,
        "target": migrated(folder, Options()),
    }
    found = []
    for side, new in sides.items():
        written = (
            place / f"{side}-writes"
        )  # each its own: a script goes on from what it finds there
        written.mkdir()
        seen = run(
            folder / script,
            [word.replace("{place}", str(written)) for word in words],
            side="reference" if new is None else "target",
            steps=None,
            cwd=folder,
            data_shim=SHIM,
            timeout=TIMEOUT,
            arithmetic="float64" if "--float64" in flags else "as it is",
            nproc=processes,
            replace=new,
            folder=place / side,
        )
        if seen.failure is not None:
            raise RuntimeError(f"{side}: {seen.failure.message.splitlines()[-1][:150]}")
        lines = printed(seen.output.replace(str(written), ""))
        found.append(sorted(lines) if processes > 1 else lines)  # they print in any order
        steps = [step for trace in seen.traces for step in trace.steps]
        reads = [step.host_reads for step in steps]
    return found[0], found[1], reads


# Executes what makes up the data, and then the script, as if it alone ran.
_LAUNCH = """import os, random, runpy, sys
import numpy, torch
del sys.argv[0]
shim = sys.argv.pop(0)
exec(compile(open(shim).read(), shim, "exec"), {"__name__": "shim", "__file__": shim})
for seed in (random.seed, numpy.random.seed, torch.manual_seed):
    seed(0)
sys.path.insert(0, os.getcwd())
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def output_of(words: list[str], folder: Path, name: str, **env: str) -> str:
    """Return what Python prints with these arguments, in the folder.

    Raises:
        RuntimeError: it failed; the last line that it printed, after `name`.
    """
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=TIMEOUT,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{name}: {(done.stdout.strip().splitlines() or [''])[-1][:150]}")
    return done.stdout


def outputs_on_cuda(
    folder: Path, script: str, words: list[str], place: Path, *, torchrun: bool
) -> tuple[list[str], list[str], list[int]]:
    """What the script prints on the GPU, as it is and migrated, each in a copy of its folder; no reads."""
    (place / "launch.py").write_text(_LAUNCH)
    launcher = ["-m", "torch.distributed.run", "--nproc_per_node=1", f"--master_port={free_port()}"]
    found = []
    for side, new in (("reference", None), ("target", migrated(folder, Options()))):
        copy = place / side
        shutil.copytree(folder, copy)
        for name, data in (new or {}).items():
            (copy / name).write_bytes(data)
        arguments = [word.replace("{place}", str(copy)) for word in words]
        output = output_of(
            [
                *(launcher if torchrun else []),
                str(place / "launch.py"),
                str(SHIM),
                script,
                *arguments,
            ],
            copy,
            side,
            PYTHONPATH=os.pathsep.join([str(recorder(place / "site")), f"{ROOT}/src"]),
            XLA_MIGRATE_BACKEND="eager",
            RECORD_DETERMINISTIC="1",
            CUBLAS_WORKSPACE_CONFIG=":4096:8",
        )
        found.append(printed(output.replace(str(copy), "")))
    return found[0], found[1], []


def chosen_scripts(words: list[str]) -> dict[str, tuple[Path, str, list[str]]]:
    """Folder, script and arguments."""
    if words[0] == "--fixtures":
        found = {
            f.name: (f.folder, f.script.name, f.args("float32", Path("{place}"))) for f in SINGLE
        }
    else:
        found = {
            name: (Path(words[0]) / folder, script, arguments.split())
            for name, (folder, script, arguments) in SCRIPTS.items()
        }
    return {name: found[name] for name in words[1:] or found}


def main() -> int:
    """The number of scripts of which a line differs."""
    flags = {
        word for word in sys.argv[1:] if word in ("--kept", "--float64", "--default", "--cuda")
    }
    words = [word for word in sys.argv[1:] if word not in flags]
    differing = 0
    for name, (folder, script, arguments) in chosen_scripts(words).items():
        if "--default" in flags:
            arguments = by_default(arguments)
        with tempfile.TemporaryDirectory() as place:
            try:
                processes = PROCESSES.get(name, 1)
                if "--cuda" in flags:
                    torchrun = processes > 1 and name not in SPAWNING
                    found = outputs_on_cuda(
                        folder, script, arguments, Path(place), torchrun=torchrun
                    )
                else:
                    found = outputs(
                        folder, script, arguments, Path(place), flags=flags, processes=processes
                    )
                before, after, reads = found
            except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
                print(f"{name:26} not run: {error}", flush=True)
                continue
        pairs = list(zip(before, after, strict=False))
        same = sum(a == b for a, b in pairs)
        close = sum(a != b and is_close(a, b) for a, b in pairs)
        other = next(((a, b) for a, b in pairs if a != b and not is_close(a, b)), None)
        fits = len(before) == len(after) and other is None
        differing += not fits
        print(
            f"{name:26} {len(before)} lines, {len(after)} after; {same} the same, {close} except the last digit; "
            f"{len(reads)} steps, reads a step: median {median(reads or [0]):g}, mean {mean(reads or [0]):.2f}",
            flush=True,
        )
        if other is not None:
            print("    ", *other, sep="\n    - ", flush=True)
    return differing


if __name__ == "__main__":
    sys.exit(main())
