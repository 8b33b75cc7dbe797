"""Which `save_pretrained` is a model's."""

from __future__ import annotations

import pytest

from ....each import each
from ...helpers import findings, migrated

HEAD = "import torch\nfrom transformers import AutoModel\n\ndef keep(model, args, device, kwargs, rest):\n    model.to(device)\n    "


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("model.save_pretrained(args.out)", "xla.save_pretrained(model, args.out)"),
        (
            "model.module.save_pretrained(*rest, **kwargs)",
            "xla.save_pretrained(model.module, *rest, **kwargs)",
        ),
        (
            "args.unet_lora.save_pretrained(f'{args.out}/x', safe_serialization=True)",
            "xla.save_pretrained(args.unet_lora, f'{args.out}/x', safe_serialization=True)",
        ),
        (
            "AutoModel.from_pretrained(args.name).to(device).save_pretrained(args.out)",
            "xla.save_pretrained(AutoModel.from_pretrained(args.name).to(device), args.out)",
        ),
        (
            "accelerator.unwrap_model(model).save_pretrained(args.out)",
            "xla.save_pretrained(accelerator.unwrap_model(model), args.out)",
        ),
    ],
)
def test_models(before: str, after: str) -> None:
    assert after in migrated(HEAD + before + "\n")


@pytest.mark.parametrize(
    "line",
    [
        "tokenizer.save_pretrained(args.out)",
        "model.config.save_pretrained(args.out)",
        "args.model_tokenizer.save_pretrained(args.out)",
        "AutoTokenizer.from_pretrained(args.name).save_pretrained(args.out)",
        "model.cpu().save_pretrained(args.out)",
        "image_processor.save_pretrained(args.out)",
        "noise_scheduler.save_pretrained(args.out)",
    ],
)
def test_others(line: str) -> None:
    assert line in migrated(HEAD + line + "\n")


def test_push_to_hub_fails_as_save_pretrained_does() -> None:
    source = HEAD + "model.push_to_hub(args.name)\n    tokenizer.push_to_hub(args.name)\n"
    assert "model.push_to_hub(args.name)" in migrated(source)
    assert [(line, code) for line, code in findings(source) if code == "XLA708"] == [(6, "XLA708")]


@each(
    "owns, found",
    [
        ("def save_pretrained(self, folder): ...", False),
        ("def _save_pretrained(self, folder): ...", False),
        ("def push_to_hub(self, name): ...", False),
        ("def save(self, folder): ...", True),
    ],
)
def test_push_to_hub_of_a_class_that_saves_by_itself(owns: str, found: bool) -> None:
    source = (
        f"import torch\nfrom torch import nn\nclass Model(nn.Module):\n    {owns}\n"
        "    def upload(self, name):\n        self.push_to_hub(name)\n"
        "model = Model().cuda()\nmodel.push_to_hub('a')\n"
    )
    codes = [code for _, code in findings(source) if code == "XLA708"]
    assert codes == ["XLA708", "XLA708"] * found


@pytest.mark.parametrize(
    ("stored", "found"),
    [
        ("param.detach().cpu()", False),
        ("param.to('cpu')", False),
        ("param.detach()", True),
        ("param.cpu() * scale", True),
    ],
)
def test_a_state_that_is_filled_on_the_host(stored: str, found: bool) -> None:
    source = f"""import torch
def save(model, folder, scale):
    model.cuda()
    state = {{}}
    for name, param in model.state_dict().items():
        state[name] = {stored}
    model.save_pretrained(folder, state_dict=state)
"""
    assert ("XLA708" in {code for _, code in findings(source)}) is found


@pytest.mark.parametrize(
    "owner", ["model_repo", "repo", "self.model_repository", "model_card", "model_dataset"]
)
def test_a_repository_is_no_model(owner: str) -> None:
    assert "XLA708" not in {code for _, code in findings(f"{HEAD}{owner}.push_to_hub()\n")}


@pytest.mark.parametrize(
    "made",
    [
        "peft_model.merge_and_unload()",
        "PeftModel.from_pretrained(b, 'a').merge_and_unload().eval()",
        "AutoModelForCausalLM.from_pretrained('gpt2').to(0)",
        "AutoModelForCausalLM.from_pretrained('gpt2')",
        "GPT2LMHeadModel(config)",
        "transformers.BertForMaskedLM(config).cuda()",
    ],
)
def test_what_a_library_makes_whatever_it_is_called(made: str) -> None:
    head = (
        "import torch\nimport transformers\nfrom peft import PeftModel\n"
        "from transformers import AutoModelForCausalLM, GPT2LMHeadModel\nx = torch.ones(2).cuda()\n"
    )
    new = migrated(f'{head}policy = {made}\npolicy.save_pretrained("out")\n')
    assert new.endswith('xla.save_pretrained(policy, "out")\n')


@pytest.mark.parametrize(
    "made",
    [
        "AutoTokenizer.from_pretrained('gpt2')",
        "GenerationConfig.from_pretrained('gpt2')",
        "GPT2Config()",
        "mylib.Policy.from_pretrained('a')",
        "make(config)",
    ],
)
def test_what_is_no_model_for_sure_is_saved_as_it_was(made: str) -> None:
    head = (
        "import mylib\nimport torch\nfrom transformers import AutoTokenizer, GenerationConfig, GPT2Config\n"
        "x = torch.ones(2).cuda()\n"
    )
    new = migrated(f'{head}policy = {made}\npolicy.save_pretrained("out")\n')
    assert new.endswith('\npolicy.save_pretrained("out")\n')


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "AutoModel.save_lora_weights(args.out, unet_lora_layers=rest, **kwargs)",
            "xla.save_lora(AutoModel.save_lora_weights, args.out, unet_lora_layers=rest, **kwargs)",
        ),
        (
            "args.pipe.save_lora_weights(args.out, transformer_lora_layers=rest, text_encoder_lora_layers=None)",
            "xla.save_lora(args.pipe.save_lora_weights, args.out, transformer_lora_layers=rest, text_encoder_lora_layers=None)",
        ),
        (
            "model.save_lora_adapter(args.out)",
            "xla.save_lora(model.save_lora_adapter, args.out)",
        ),
        (
            "args.pipe.save_lora_weights(args.out, unet_lora_layers={k: v.cpu() for k, v in rest.items()})",
            "    args.pipe.save_lora_weights(args.out, unet_lora_layers={k: v.cpu() for k, v in rest.items()})",
        ),
    ],
)
def test_weights_of_lora(before: str, after: str) -> None:
    assert after in migrated(HEAD + before + "\n")
