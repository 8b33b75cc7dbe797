"""XLA916: flex_attention, by itself and as the attention of a model."""

from __future__ import annotations

import pytest

from ...helpers import findings, migrated


@pytest.mark.parametrize(
    "source",
    [
        "from torch.nn.attention.flex_attention import flex_attention\nx = flex_attention(q, k, v)\n",
        "from torch.nn.attention.flex_attention import flex_attention as f\nx = f(q, k, v)\n",
        "import torch.nn.attention.flex_attention as fa\nx = fa.flex_attention(q, k, v)\n",
        "from torch.nn.attention import flex_attention as fa\nx = fa.flex_attention(q, k, v, score_mod=s)\n",
    ],
)
def test_calls_are_left_to_a_person(source: str) -> None:
    assert findings(source) == [(2, "XLA916")]
    assert migrated(source, unsafe=True) == source


@pytest.mark.parametrize("made", ["AutoModel.from_pretrained(n, ", "AutoModel.from_config(c, "])
def test_models_use_torchs_own(made: str) -> None:
    head = f"from transformers import AutoModel\nx = {made}attn_implementation="
    assert migrated(f'{head}"flex_attention")\n') == f'{head}"sdpa")\n'


@pytest.mark.parametrize(
    "line",
    [
        'config = LlamaConfig(attn_implementation="NAME")',
        'config._attn_implementation = "NAME"',
        'options["attn_implementation"] = "NAME"',
        'options = {"torch_dtype": "auto", "attn_implementation": "NAME"}',
        'model.set_attn_implementation("NAME")',
        'model = pipeline("text-generation", n, model_kwargs=dict(attn_implementation="NAME"))',
        'parser.add_argument("--attn_implementation", default="NAME")',
        'load = partial(AutoModel.from_pretrained, attn_implementation="NAME")',
        'def make(n, attn_implementation="NAME"): ...',
        'class Arguments: attn_implementation: str = field(default="NAME", metadata={})',
    ],
)
@pytest.mark.parametrize(
    "name",
    [
        "flex_attention",
        "flash_attention_2",
        "paged|flash_attention_3",
        "kernels-community/flash-attn3",
    ],
)
def test_wherever_an_implementation_is_named(line: str, name: str) -> None:
    head = "from transformers import AutoModel, LlamaConfig, pipeline\nloss.backward()\n"
    source = f"{head}{line}\n".replace("NAME", name)
    new = migrated(source)
    assert new.splitlines()[-1] == line.replace("NAME", "sdpa")


@pytest.mark.parametrize(
    "line",
    [
        'attn_implementation = "eager"',
        'name = "flex_attention"',
        'if config.attn_implementation == "flex_attention": pass',
        'model.set_attn_implementation("kernels-community/rotary")',
        'print("flash_attention_2")',
    ],
)
def test_other_names_stay(line: str) -> None:
    source = f"import transformers\n\n{line}\n"
    assert migrated(source) == source


def test_it_raises_on_xla_devices() -> None:
    """When this fails, torch has it for XLA devices, and the rule can go."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_xla")
    from torch.nn.attention.flex_attention import flex_attention

    q = torch.randn(1, 2, 16, 8).to("xla")
    with pytest.raises(ValueError, match="only supported on CUDA"):
        flex_attention(q, q, q)
