"""What scripts would download from the Hugging Face Hub, made up, and small data files: executed before the scripts.

Models are built from small configurations, with random weights. It runs in the script's folder, in both runs alike.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image
from transformers import BatchEncoding, BertConfig, LlamaConfig, T5Config

made = np.random.RandomState(0)
WORDS = 64
_BERT = {
    "vocab_size": WORDS,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 64,
}
CONFIGS = {
    "AutoModelForSequenceClassification": BertConfig(**_BERT),
    "AutoModelForCausalLM": LlamaConfig(
        vocab_size=WORDS, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    ),
    "AutoModelForSeq2SeqLM": T5Config(
        vocab_size=WORDS, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, decoder_start_token_id=0
    ),
}  # fmt: skip


class Tokenizer:
    """Words of a text as numbers from 3 on."""

    pad_token_id, bos_token_id, eos_token_id, pad_token, eos_token = 0, 1, 2, "<pad>", "</s>"
    padding_side, model_max_length = "right", 32

    def __call__(self, texts: Any, pairs: Any = None, **kwargs: Any) -> BatchEncoding:
        rows = [texts] if isinstance(texts, str) else list(texts)
        if pairs is not None:
            rows = [f"{a} {b}" for a, b in zip(rows, pairs, strict=True)]
        ids = [[1, *(3 + hash_of(word) for word in row.split()), 2] for row in rows]
        encoded = {"input_ids": ids, "attention_mask": [[1] * len(row) for row in ids]}
        if kwargs.get("return_tensors") == "pt" or kwargs.get("padding") == "max_length":
            return self.pad(encoded, **kwargs)
        return BatchEncoding(encoded)

    def pad(self, examples: Any, return_tensors: Any = None, **kwargs: Any) -> BatchEncoding:
        if isinstance(examples, list):
            examples = {key: [row[key] for row in examples] for key in examples[0]}
        longest = max(map(len, examples["input_ids"]))
        if kwargs.get("padding") == "max_length":
            longest = kwargs.get("max_length") or longest
        every = kwargs.get("pad_to_multiple_of") or 1
        longest = -(-longest // every) * every
        padded = {
            key: [row + [0] * (longest - len(row)) for row in rows]
            if isinstance(rows[0], list)
            else rows
            for key, rows in examples.items()
        }
        return BatchEncoding(padded, tensor_type=return_tensors)

    def batch_decode(self, rows: Any, **kwargs: Any) -> list[str]:
        return [" ".join(map(str, np.asarray(row).tolist())) for row in rows]

    def save_pretrained(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __len__(self) -> int:
        return WORDS


def hash_of(word: str) -> int:
    """Return a number below 60 that is the same in each process."""
    return sum(map(ord, word)) % 60


def sentences(count: int) -> list[str]:
    """Return texts of 4 to 9 words."""
    return [
        " ".join(f"w{k}" for k in made.randint(0, 50, made.randint(4, 10))) for _ in range(count)
    ]


def load_dataset(*names: Any, **kwargs: Any) -> Any:
    """Return pairs of sentences with labels, and tweets, in the splits of the Hub's data sets."""
    import datasets

    def split(count: int) -> Any:
        labels = made.randint(0, 2, count).tolist()
        columns = {
            "sentence1": sentences(count),
            "sentence2": sentences(count),
            "label": labels,
            "idx": list(range(count)),
        }
        return datasets.Dataset.from_dict(columns)

    found = datasets.DatasetDict(train=split(64), validation=split(24), test=split(24))
    chosen = kwargs.get("split")
    return found if chosen is None else found[chosen.partition("[")[0]]


def write_files() -> None:
    """The texts of nanoGPT as numbers, and photographs of two kinds of pets."""
    os.makedirs("data/made_up", exist_ok=True)
    for name in ("train", "val"):
        made.randint(0, 60, 4000).astype(np.uint16).tofile(f"data/made_up/{name}.bin")
    os.makedirs("made_up_pets", exist_ok=True)
    for kind in ("cat", "dog"):
        for k in range(40):
            image = made.randint(0, 255, (240, 240, 3), "uint8")
            Image.fromarray(image).save(f"made_up_pets/{kind}_{k}.jpg")


def from_configuration(name: str) -> Any:
    """Return the replacement of `from_pretrained` of the class `name`."""

    def from_pretrained(*args: Any, **kwargs: Any) -> Any:
        return getattr(transformers, name).from_config(CONFIGS[name])

    return from_pretrained


write_files()
for name in CONFIGS:
    getattr(transformers, name).from_pretrained = from_configuration(name)
transformers.AutoTokenizer.from_pretrained = lambda *args, **kwargs: Tokenizer()
try:
    import datasets

    datasets.load_dataset = load_dataset
except ImportError:
    pass
try:
    import timm

    create_model = timm.create_model
    timm.create_model = lambda *args, **kwargs: create_model(
        "test_resnet", **{**kwargs, "pretrained": False}
    )
except ImportError:
    pass
torch.manual_seed(0)
