"""Do scripts print the same lines after migration, and how often do they wait for the device?

    python docs/bench/printed.py EXAMPLES [--kept] [--default] [NAME ...]
    python docs/bench/printed.py --fixtures [--kept] [--default] [NAME ...]

EXAMPLES is a checkout of github.com/pytorch/examples, run on data that is made up; `--fixtures` are those of fixtures/train
that have one process. Each script that needs nothing from the network, or whose data can be
made up, runs twice to its end: as it is, its CUDA sent to the CPU as `verify` does, and migrated, on XLA:CPU. Times and
rates are masked, progress bars and warnings left out. Prints a line for each: how many lines it printed, how many
are the same to the last digit, how many but for one unit of the last digit that is printed, and the first that differs.
`--kept` compares with the migrated script that reads where the original does (without XLA503), on XLA:CPU too: what
differs there comes of reading later.

The migrated script's reads are told by step, as the median and the mean over its steps (evaluations that follow a step are that step's). `--default`
leaves out the options by which scripts log at each step here, so that they log as often as by default.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from statistics import mean, median

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, migrate
from xla_migrate.verify.experiments.run import run

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT)]

from tests.e2e.fixtures import SINGLE  # noqa: E402

# Folder, script, arguments.
SCRIPTS = {
    "mnist": ("mnist", "main.py", "--epochs 1 --batch-size 8 --test-batch-size 16 --log-interval 2"),
    "mnist_rnn": ("mnist_rnn", "main.py", "--epochs 1 --batch-size 8 --test-batch-size 16 --log-interval 2"),
    "mnist_forward_forward": ("mnist_forward_forward", "main.py", "--epochs 2 --train_size 32 --test_size 16"),
    "siamese_network": ("siamese_network", "main.py", "--epochs 1 --lr 0.01 --batch-size 8 --test-batch-size 8 --log-interval 2"),
    "vae": ("vae", "main.py", "--epochs 1 --batch-size 8 --log-interval 2"),
    "dcgan": ("dcgan", "main.py", "--dataset fake --niter 1 --dry-run --batchSize 4 --workers 0 --ngf 8 --ndf 8"),
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
    "ddp": ("distributed/ddp", "example.py", ""),
}  # fmt: skip
# Of scripts that train in several processes.
PROCESSES = {"multigpu": 2, "multigpu_torchrun": 2, "ddp": 2}
# Stands in for what the scripts would download; executed before them.
SHIM = """
import os, sys
from unittest.mock import MagicMock
import numpy as np, torch, torchvision
from PIL import Image
from torchvision import datasets, transforms

class Digits(datasets.FakeData):
    def __init__(self, root=None, train=True, transform=None, target_transform=None, download=False):
        super().__init__(48 if train else 32, (1, 28, 28), 10, None, None)
        made = torch.Generator().manual_seed(int(train))
        self.data = torch.randint(0, 255, (self.size, 28, 28), generator=made, dtype=torch.uint8)
        self.targets = torch.arange(self.size) % 10
        self.made = transform
    def __getitem__(self, index):
        image = transforms.functional.to_pil_image(self.data[index])
        return (self.made(image) if self.made else image), int(self.targets[index])

datasets.MNIST = torchvision.datasets.mnist.MNIST = Digits
fake = datasets.FakeData.__init__
def small(self, size=1000, *args, **kwargs):
    fake(self, min(size, 24), *args, **kwargs)
datasets.FakeData.__init__ = small

from torchvision import models
if not hasattr(Image, "ANTIALIAS"):
    Image.ANTIALIAS = Image.LANCZOS  # its name until Pillow 10
vgg16 = models.vgg16
models.vgg16 = lambda weights=None, **kwargs: vgg16(**kwargs)  # the weights would be downloaded

made = np.random.RandomState(0)
Image.fromarray(made.randint(0, 255, (40, 40, 3), "uint8")).save("style.png")
for kind in ("train", "test", "valid"):
    os.makedirs("words", exist_ok=True)
    with open(f"words/{kind}.txt", "w") as file:
        file.write(" ".join(f"word{k}" for k in made.randint(0, 40, 400)) + "\\n")
    os.makedirs(f"dataset/BSDS300/images/{kind}", exist_ok=True)
    for k in range(4):
        Image.fromarray(made.randint(0, 255, (280, 280, 3), "uint8")).save(f"dataset/BSDS300/images/{kind}/{k}.png")
os.makedirs("results", exist_ok=True)
torch.save(np.sin(made.randint(-80, 80, (8, 1)) / 20 + np.arange(40) / 20), "traindata.pt")
os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"
import io, tarfile
nodes = 1700  # the script validates and tests on the first 1500
lines = [" ".join([str(k), *made.choice(["0", "1"], 24), f"class{k % 4}"]) for k in range(nodes)]
edges = [f"{a} {b}" for a, b in made.randint(0, nodes, (4000, 2))]
packed = io.BytesIO()
with tarfile.open(fileobj=packed, mode="w:gz") as archive:
    for name, rows in (("content", lines), ("cites", edges)):
        data = "\\n".join(rows).encode()
        member = tarfile.TarInfo(f"cora/cora.{name}")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
class Answer:
    def __init__(self):
        self.raw = io.BytesIO(packed.getvalue())
    def __enter__(self):
        return self
    def __exit__(self, *args):
        pass
def module(name, **names):
    made = sys.modules[name] = type(sys)(name)
    made.__dict__.update(names)
    return made
try:
    import torchtext
except ImportError:
    class Words(dict):
        def __call__(self, tokens):
            return [self[token] for token in tokens]
        def set_default_index(self, index):
            pass
    def vocabulary(texts, specials=(), **kwargs):
        words = Words((word, k) for k, word in enumerate(specials))
        for text in texts:
            for word in text:
                words.setdefault(word, len(words))
        return words
    def pairs(split, language_pair):
        spoken = np.random.RandomState(len(split))
        return [
            tuple(" ".join(f"{end}{k % 9}" for k in spoken.randint(0, 9, 6)) for end in "ab")
            for _ in range(32 if split == "train" else 16)
        ]
    for name in ("torchtext", "torchtext.data"):
        module(name)
    module("torchtext.data.utils", get_tokenizer=lambda *args: str.split)
    module("torchtext.vocab", build_vocab_from_iterator=vocabulary)
    multi30k = module("torchtext.datasets.multi30k", URL={})
    module("torchtext.datasets", Multi30k=pairs, multi30k=multi30k)
try:
    import requests
except ImportError:
    requests = sys.modules["requests"] = type(sys)("requests")
requests.get = lambda *args, **kwargs: Answer()
try:
    import six.moves
except ImportError:
    import urllib.request
    sys.modules["six"] = sys.modules["six.moves"] = type(sys)("six")
    sys.modules["six"].urllib = urllib
try:
    import matplotlib
except ImportError:
    sys.modules["matplotlib"] = sys.modules["matplotlib.pyplot"] = MagicMock()
"""
_CHANGING = re.compile(
    r"redirected CUDA device \(CPU\)|XLA:CPU|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+|[\d.]+ MiB|(?:Time|Data) +[\d.]+ \( *[\d.]+\)|(?:Time|Speed)\s+[\d.]+|(?:\d+m )?\d+(?:\.\d+)? ?(?:s|sec|seconds|ms|it/s)\b|time: +[\d.]+s?|ms/(?:batch|window) +[\d.]+|\b(?:cuda|cpu|xla)(?::\d+)?\b|^\[\d+\]|'MASTER_PORT': '\d+'|\bbackend=\w+"
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
    """The lines that a person reads."""
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
    folder: Path, script: str, words: list[str], place: Path, *, kept: bool, processes: int
) -> tuple[list[str], list[str], list[int]]:
    """What the script prints, as it is (`kept`: migrated, but for its reads) and migrated; the reads of its steps."""
    sides = {
        "reference": migrated(folder, Options(ignore=("XLA503",))) if kept else None,
        "target": migrated(folder, Options()),
    }
    shim = place / "shim.py"
    shim.write_text(SHIM)
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
            data_shim=shim,
            timeout=600,
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
    flags = {word for word in sys.argv[1:] if word in ("--kept", "--default")}
    words = [word for word in sys.argv[1:] if word not in flags]
    differing = 0
    for name, (folder, script, arguments) in chosen_scripts(words).items():
        if "--default" in flags:
            arguments = by_default(arguments)
        with tempfile.TemporaryDirectory() as place:
            try:
                before, after, reads = outputs(
                    folder,
                    script,
                    arguments,
                    Path(place),
                    kept="--kept" in flags,
                    processes=PROCESSES.get(name, 1),
                )
            except (RuntimeError, OSError) as error:
                print(f"{name:26} not run: {error}", flush=True)
                continue
        pairs = list(zip(before, after, strict=False))
        same = sum(a == b for a, b in pairs)
        close = sum(a != b and is_close(a, b) for a, b in pairs)
        other = next(((a, b) for a, b in pairs if a != b and not is_close(a, b)), None)
        fits = len(before) == len(after) and other is None
        differing += not fits
        print(
            f"{name:26} {len(before)} lines, {len(after)} after; {same} the same, {close} but for the last digit; "
            f"{len(reads)} steps, reads a step: median {median(reads):g}, mean {mean(reads):.2f}",
            flush=True,
        )
        if other is not None:
            print("    ", *other, sep="\n    - ", flush=True)
    return differing


if __name__ == "__main__":
    sys.exit(main())
