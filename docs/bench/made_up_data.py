"""Data that is made up, and packages that stand in for others: executed before the scripts of `printed.py`.

It runs in the script's folder, in both runs alike. What it makes is small, and the same each time.
"""

from __future__ import annotations

import importlib.util
import io
import os
import sys
import tarfile
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import torch
import torchvision
from PIL import Image
from torchvision import datasets, models, transforms

made = np.random.RandomState(0)
os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"


def module(name: str, **names: Any) -> Any:
    """A package of that name, which holds `names`."""
    found = sys.modules[name] = type(sys)(name)
    found.__dict__.update(names)
    return found


def is_missing(name: str) -> bool:
    """True if no such package is installed."""
    return name not in sys.modules and importlib.util.find_spec(name) is None


class Digits(datasets.FakeData):
    """In place of MNIST."""

    def __init__(
        self, root=None, train=True, transform=None, target_transform=None, download=False
    ):
        super().__init__(48 if train else 32, (1, 28, 28), 10, None, None)
        drawn = torch.Generator().manual_seed(int(train))
        self.data = torch.randint(0, 255, (self.size, 28, 28), generator=drawn, dtype=torch.uint8)
        self.targets = torch.arange(self.size) % 10
        self.made = transform

    def __getitem__(self, index):
        image = transforms.functional.to_pil_image(self.data[index])
        return (self.made(image) if self.made else image), int(self.targets[index])


datasets.MNIST = torchvision.datasets.mnist.MNIST = Digits
fake = datasets.FakeData.__init__


def small(self, size=1000, *args, **kwargs):
    """FakeData of 24 images at most."""
    fake(self, min(size, 24), *args, **kwargs)


datasets.FakeData.__init__ = small

if not hasattr(Image, "ANTIALIAS"):
    Image.ANTIALIAS = Image.LANCZOS  # its name until Pillow 10
vgg16 = models.vgg16
models.vgg16 = lambda weights=None, **kwargs: vgg16(**kwargs)  # the weights would be downloaded


def write_files() -> None:
    """Images, texts and curves."""
    Image.fromarray(made.randint(0, 255, (40, 40, 3), "uint8")).save("style.png")
    for kind in ("train", "test", "valid"):
        os.makedirs("words", exist_ok=True)
        with open(f"words/{kind}.txt", "w") as file:
            file.write(" ".join(f"word{k}" for k in made.randint(0, 40, 400)) + "\n")
        folder = f"dataset/BSDS300/images/{kind}"
        os.makedirs(folder, exist_ok=True)
        for k in range(4):
            Image.fromarray(made.randint(0, 255, (280, 280, 3), "uint8")).save(f"{folder}/{k}.png")
    os.makedirs("results", exist_ok=True)
    curves = np.sin(made.randint(-80, 80, (8, 1)) / 20 + np.arange(40) / 20)
    torch.save(curves, "traindata.pt")
    vectors = torch.randn(64, 16, generator=torch.Generator().manual_seed(0))
    torch.save(vectors[:WORDS], "vectors.pt")


WORDS = 30  # of SNLI's sentences


# The citation graph, which gcn and gat download.


def cora() -> bytes:
    """As a packed archive. The scripts validate and test on the first 1500 nodes."""
    nodes = 1700
    lines = [
        " ".join([str(k), *made.choice(["0", "1"], 24), f"class{k % 4}"]) for k in range(nodes)
    ]
    edges = [f"{a} {b}" for a, b in made.randint(0, nodes, (4000, 2))]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, rows in (("content", lines), ("cites", edges)):
            data = "\n".join(rows).encode()
            member = tarfile.TarInfo(f"cora/cora.{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()


class Answer:
    """Of a web server."""

    def __init__(self):
        self.raw = io.BytesIO(graph)

    def __enter__(self):
        return self

    def __exit__(self, *args):
        pass


write_files()
graph = cora()
requests = module("requests") if is_missing("requests") else importlib.import_module("requests")
requests.get = lambda *args, **kwargs: Answer()


# torchtext, of today and before.


class Words(dict):
    """A vocabulary."""

    def __call__(self, tokens):
        return [self[token] for token in tokens]

    def set_default_index(self, index):
        pass


def vocabulary(texts, specials=(), **kwargs):
    """All words of `texts`."""
    words = Words((word, k) for k, word in enumerate(specials))
    for text in texts:
        for word in text:
            words.setdefault(word, len(words))
    return words


def pairs(split, language_pair):
    """Sentences in two languages."""
    spoken = np.random.RandomState(len(split))
    return [
        tuple(" ".join(f"{end}{k % 9}" for k in spoken.randint(0, 9, 6)) for end in "ab")
        for _ in range(32 if split == "train" else 16)
    ]


class Vocabulary(list):
    """That vectors are given."""


class Field:
    """The words of SNLI's sentences, or its three answers."""

    def __init__(self, sequential=True, **kwargs):
        self.vocab = Vocabulary(range(WORDS if sequential else 4))
        self.build_vocab = lambda *args: None


class Batches:
    """What a BucketIterator gives: sentences of seven words as columns, on the device."""

    def __init__(self, count, size, device):
        self.drawn = np.random.RandomState(count)
        self.count, self.size, self.device = count, size, device
        self.init_epoch = lambda: None

    def __len__(self):
        return self.count

    def __iter__(self):
        for _ in range(self.count):
            words = [self.words(0, WORDS, (7, self.size)) for _ in range(2)]
            yield SimpleNamespace(
                premise=words[0],
                hypothesis=words[1],
                label=self.words(1, 4, self.size),
                batch_size=self.size,
            )

    def words(self, least, end, shape):
        return torch.from_numpy(self.drawn.randint(least, end, shape)).to(self.device)


def buckets(parts, batch_size, device):
    return [Batches(len(part) // batch_size, batch_size, device) for part in parts]


if is_missing("torchtext"):
    for name in ("torchtext", "torchtext.data"):
        module(name)
    module("torchtext.data.utils", get_tokenizer=lambda *args: str.split)
    module("torchtext.vocab", build_vocab_from_iterator=vocabulary)
    multi30k = module("torchtext.datasets.multi30k", URL={})
    module("torchtext.datasets", Multi30k=pairs, multi30k=multi30k)
    splits = SimpleNamespace(splits=lambda *args: [range(64), range(24), range(24)])
    module(
        "torchtext.legacy",
        data=SimpleNamespace(Field=Field, BucketIterator=SimpleNamespace(splits=buckets)),
        datasets=SimpleNamespace(SNLI=splits),
    )


# What minGPT reads its settings with.


def configured(version_base, config_path, config_name):
    """`hydra.main`: the settings of the file, smaller."""

    def decorated(function):
        def called():
            import yaml

            with open(f"{config_name}.yaml") as file:
                settings = yaml.safe_load(file)
            settings["data_config"].update(path="words/train.txt", block_size=16, truncate=0.1)
            settings["gpt_config"].update(n_layer=1, n_head=2, n_embd=16)
            settings["trainer_config"].update(
                max_epochs=2, batch_size=16, data_loader_workers=0, save_every=1, use_amp=False
            )
            function(settings)

        return called

    return decorated


if is_missing("hydra"):
    module("hydra", main=configured)
    module("omegaconf", DictConfig=dict)
if is_missing("boto3"):
    module("boto3")
if is_missing("six"):
    import urllib.request

    module("six")
    module("six.moves", urllib=urllib)
if is_missing("matplotlib"):
    sys.modules["matplotlib"] = sys.modules["matplotlib.pyplot"] = MagicMock()
