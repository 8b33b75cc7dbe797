"""What of transformers, accelerate, Lightning, timm, peft, diffusers and torch was run on XLA:CPU, and what it did: the
table of docs/frameworks.md.

    PJRT_DEVICE=CPU python docs/bench/frameworks.py > docs/frameworks.md

Each case runs in a separate process, forked from one that has imported the framework, and prints a line. If a
case raises, the line is its error.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

LIMIT = 600  # seconds of one case
PACKAGES = (
    "torch",
    "torch_xla",
    "transformers",
    "accelerate",
    "lightning",
    "timm",
    "peft",
    "diffusers",
    "torchmetrics",
    "pytorch-ignite",
    "fastai",
)
LLAMA = """
import torch, torch_xla
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
config = LlamaConfig(vocab_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
def train(model):
    x = torch.randint(0, 32, (2, 8)).to("xla")
    model(input_ids=x, labels=x).loss.backward()
    torch_xla.sync()
    print("trains")
data = [{"input_ids": torch.randint(0, 32, (8,)), "labels": torch.randint(0, 32, (8,))} for _ in range(8)]
"""
ATTENTION = "train(LlamaForCausalLM._from_config(config, attn_implementation='{}').to('xla'))"
MAPPED = """
import tempfile
folder = tempfile.mkdtemp()
LlamaForCausalLM(config).save_pretrained(folder)
model = LlamaForCausalLM.from_pretrained(folder, device_map={})
print("the model is on", next(model.parameters()).device)
"""
TRAINER = """
arguments = TrainingArguments({}output_dir="out", max_steps=1, report_to=[], save_strategy="no", disable_tqdm=True)
trainer = Trainer(LlamaForCausalLM(config), arguments, train_dataset=data)
trainer.train()
print("trains on", next(trainer.model.parameters()).device)
"""
FLEX = """
import torch, torch_xla
from torch.nn.attention.flex_attention import flex_attention
q = torch.randn(1, 2, 16, 8).to("xla")
print(flex_attention(q, q, q).shape)
"""
SHARDED = (
    """
import torch_xla.runtime as xr
xr.use_spmd()
"""
    + LLAMA
    + TRAINER
    + """
weight = trainer.model.model.embed_tokens.weight
print("trains on", xr.global_runtime_device_count(), "devices, weights",
      torch_xla._XLAC._get_xla_sharding_spec(weight))
"""
)
PATCHED = """
import transformers
from xla_migrate import runtime as xla
xla.patch_accelerate()
"""
SPLIT = """
weight = trainer.model.model.embed_tokens.weight
print("trains on", xla.data_parallel_size(), "devices, weights", torch_xla._XLAC._get_xla_sharding_spec(weight))
"""
PLUGGED = """
import torch, torch_xla
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from xla_migrate import runtime as xla
{}
accelerator = Accelerator(fsdp_plugin=FullyShardedDataParallelPlugin())
model = torch.nn.Linear(4, 4)
data = torch.utils.data.DataLoader(torch.ones(16, 4), batch_size=4)
model, optimizer, data = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), data)
for x in data:
    accelerator.backward(model(x).sum())
    optimizer.step()
    optimizer.zero_grad()
print("trains in", len(data), "steps, weights", torch_xla._XLAC._get_xla_sharding_spec(model.weight) or "on one device")
"""
ACCUMULATED = """
import torch
from accelerate import Accelerator
from xla_migrate import runtime as xla
{}
accelerator = Accelerator(gradient_accumulation_steps=3)
model = torch.nn.Linear(1, 1)
data = torch.utils.data.DataLoader(torch.ones(40, 1), batch_size=4)
model, optimizer, data = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), data)
steps = []
for epoch in range(2):
    for i, x in enumerate(data):
        with accelerator.accumulate(model):
            accelerator.backward(model(x).sum())
            optimizer.step()
            optimizer.zero_grad()
        steps += [10 * epoch + i + 1] if accelerator.sync_gradients else []
print("steps after batches", *steps)
"""
LAUNCHED = """
import os, subprocess, sys
open("train.py", "w").write('''
import torch
from accelerate import Accelerator
def main():
    accelerator = Accelerator()
    model = torch.nn.Linear(1, 1)
    data = torch.utils.data.DataLoader(torch.ones(8, 1), batch_size=4)
    model, optimizer, data = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), data)
    for x in data:
        accelerator.backward(model(x).sum())
        optimizer.step()
        optimizer.zero_grad()
    print("trains on", accelerator.device, "as", accelerator.process_index, "of", accelerator.num_processes)
if __name__ == "__main__":
    main()
''')
{}
"""
LAUNCH = """
done = subprocess.run([sys.executable, "-m", "accelerate.commands.accelerate_cli", "launch", {} "train.py"],
                      capture_output=True, text=True, env={{**os.environ, **{}}})
sys.stderr.write(done.stderr)
print(*(line for line in done.stdout.splitlines() if "trains" in line), sep="; ")
sys.exit(done.returncode)
"""
NOTEBOOK = """
sys.path.insert(0, ".")
from accelerate import notebook_launcher
import train
notebook_launcher(train.main, num_processes={})
"""
LIGHTNING = """
import logging, torch, lightning
logging.getLogger("lightning").setLevel(logging.ERROR)
class Fits(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
    def training_step(self, batch, index):
        self.on = self.layer.weight.device
        return self.layer(batch).sum()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
module = Fits()
trainer = lightning.Trainer(accelerator={}, max_steps=2, logger=False, enable_checkpointing=False,
                            enable_progress_bar=False, enable_model_summary=False)
trainer.fit(module, torch.utils.data.DataLoader(torch.ones(8, 1), batch_size=4))
print("trains on", module.on)
"""
FABRIC = """
import torch
from lightning.fabric import Fabric
from xla_migrate import runtime as xla
xla.patch_lightning()
fabric = Fabric(accelerator="gpu", devices=1, strategy="ddp", precision="16-mixed")
fabric.launch()
model = torch.nn.Linear(4, 4)
model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
loader = fabric.setup_dataloaders(torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=4))
for x in loader:
    y = model(x)
    fabric.backward(y.sum())
    fabric.clip_gradients(model, optimizer, max_norm=1.0)
    optimizer.step()
    optimizer.zero_grad()
print("trains on", model.weight.device)
"""
CHECKPOINTED = """
from xla_migrate import runtime as xla
xla.patch_accelerate()
"""
LORA = (
    LLAMA
    + """
import tempfile
from peft import LoraConfig, PeftModel, get_peft_model
from xla_migrate import runtime as xla
torch.manual_seed(0)
base = LlamaForCausalLM(config)
weights = {name: value.clone() for name, value in base.state_dict().items()}
model = get_peft_model(base, LoraConfig(r=2, target_modules=["q_proj"])).to("xla")
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)
x = torch.randint(0, 32, (2, 8)).to("xla")
for _ in range(3):
    optimizer.zero_grad()
    model(input_ids=x, labels=x).loss.backward()
    optimizer.step()
    torch_xla.sync()
folder = tempfile.mkdtemp()
"""
)
LOADED = """
again = LlamaForCausalLM(config)
again.load_state_dict(weights)
again = PeftModel.from_pretrained(again, folder{}).to("xla")
model.eval(), again.eval()
same = torch.equal(model(input_ids=x).logits.cpu(), again(input_ids=x).logits.cpu())
print("loads on", next(again.parameters()).device, "and computes the same" if same else "and computes something else")
"""
UNET = """
import torch, torch_xla, tempfile
from diffusers import DDPMScheduler, UNet2DModel
from xla_migrate import runtime as xla
model = UNet2DModel(sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8, 8),
                    norm_num_groups=4, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                    up_block_types=("AttnUpBlock2D", "UpBlock2D")).to("xla")
scheduler = DDPMScheduler(num_train_timesteps=10)
images, noise = torch.randn(2, 1, 8, 8), torch.randn(2, 1, 8, 8)
steps = torch.tensor([1, 7])
noisy = scheduler.add_noise(images, noise, steps).to("xla")
folder = tempfile.mkdtemp()
"""
UNET_CHECKPOINTS = "model.enable_gradient_checkpointing({})\n"
UNET_TRAINS = """
loss = torch.nn.functional.mse_loss(model(noisy, steps.to("xla")).sample, noise.to("xla"))
loss.backward()
torch_xla.sync()
print("trains")
"""
UNET_SAVED = """
again = UNet2DModel.from_pretrained(folder).to("xla")
print("loads", sum(p.numel() for p in again.parameters()) == sum(p.numel() for p in model.parameters()))
"""
UNET_LORA = """
import os, torch, torch_xla, tempfile
from diffusers import StableDiffusionPipeline, UNet2DConditionModel
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict
from safetensors.torch import load_file
from xla_migrate import runtime as xla
model = UNet2DConditionModel(sample_size=8, block_out_channels=(8,), layers_per_block=1, cross_attention_dim=8,
                             norm_num_groups=4, attention_head_dim=4, down_block_types=("CrossAttnDownBlock2D",),
                             up_block_types=("CrossAttnUpBlock2D",))
model.add_adapter(LoraConfig(r=2, target_modules=["to_q"], init_lora_weights="gaussian"))
state = get_peft_model_state_dict(model.to("xla"))
folder = tempfile.mkdtemp()
"""
UNET_LORA_SAVED = """
saved = load_file(os.path.join(folder, os.listdir(folder)[0]))
print("loads", len(saved) == len(state))
"""
COMMAND_LINE = """
import lightning, sys, torch
from lightning.pytorch.cli import LightningCLI
from xla_migrate import runtime as xla
{}
class CommandLine(LightningCLI):
    def after_fit(self):
        print("trains on", self.model.on)
class Fits(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
    def training_step(self, batch, index):
        self.on = self.layer.weight.device
        return self.layer(batch).sum()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
class Ones(lightning.LightningDataModule):
    def train_dataloader(self):
        return torch.utils.data.DataLoader(torch.ones(8, 1), batch_size=4)
options = dict(accelerator="gpu", max_steps=2, logger=False, enable_checkpointing=False, enable_progress_bar=False,
               enable_model_summary=False)
CommandLine(Fits, Ones, trainer_defaults=options, save_config_callback=None, args=["fit"])
"""
COLUMNS = """
import torch, torch_xla
x = torch.ones(2, 2).to("xla")
with torch.profiler.profile(activities=torch.profiler.supported_activities()) as trace:
    (x @ x).cpu()
trace.key_averages().table(sort_by={})
print("gives a table")
"""
TIMM = """
import timm, torch, torch_xla
model = timm.create_model("resnet10t", num_classes=2).to("xla")
model(torch.randn(2, 3, 32, 32).to("xla")).sum().backward()
torch_xla.sync()
print("trains")
"""
IGNITE = """
import torch
from ignite.engine import Engine, Events, create_supervised_trainer
from ignite.handlers import Checkpoint, DiskSaver
from ignite.metrics import Accuracy
from xla_migrate import runtime as xla
{}
model = torch.nn.Linear(4, 2).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
trainer = create_supervised_trainer(model, optimizer, torch.nn.CrossEntropyLoss(), device="xla"{})
Accuracy(device="xla", output_transform=lambda loss: (torch.tensor([0]), torch.tensor([0]))).attach(trainer, "accuracy")
trainer.add_event_handler(Events.COMPLETED, Checkpoint({{"model": model}}, DiskSaver(".", require_empty=False)))
trainer.run([(torch.ones(2, 4), torch.tensor([0, 1]))] * 3, max_epochs=1)
print("trains on", model.weight.device)
"""
METRIC = """
import torch, torchmetrics
import torch_xla.debug.metrics as met
metric = torchmetrics.Accuracy(task="binary"{}).to("xla")
for _ in range(3):
    metric.update(torch.tensor([0.1, 0.8, 0.3]).to("xla"), torch.tensor([0, 1, 1]).to("xla"))
reads = met.metric_data("TransferFromDeviceTime")
print(reads[0] if reads else 0, "reads in 3 updates, on the CPU:", *(n for n in met.counter_names() if "aten::" in n))
"""
EVALUATED = """
import torch, lightning
import torch_xla.debug.metrics as met
from lightning.fabric.accelerators import XLAAccelerator
from xla_migrate import runtime as xla
XLAAccelerator.is_available = staticmethod(lambda: True)
XLAAccelerator.auto_device_count = staticmethod(lambda: 1)
{}
class Fits(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
    def validation_step(self, batch, index):
        self.log("loss", self.layer(batch).sum())
trainer = lightning.Trainer(accelerator="tpu", devices=1, logger=False, enable_checkpointing=False,
                            enable_progress_bar=False, enable_model_summary=False)
trainer.validate(Fits(), torch.utils.data.DataLoader(torch.ones(24, 1), batch_size=2), verbose=False)
print("evaluates 12 batches in", met.metric_data("ExecuteTime")[0], "launches")
"""
GENERATED = """
import torch_xla.debug.metrics as met
model = LlamaForCausalLM(config).to("xla").eval()
x = torch.ones(2, 4, dtype=torch.long).to("xla")
counts = []
for _ in range(2):
    met.clear_all()
    model.generate(x, attention_mask=torch.ones_like(x), max_new_tokens=6, do_sample=False, pad_token_id=0).cpu()
    counts.append((met.metric_data("CompileTime") or [0])[0])
print("6 tokens compile", counts[0], "graphs, the second time", counts[1])
"""
FASTAI = """
import torch
from fastai.learner import Learner
from fastai.data.core import DataLoaders
import fastai.callback.fp16
data = torch.utils.data.TensorDataset(torch.randn(8, 4), torch.randint(0, 2, (8,)))
model = torch.nn.Linear(4, 2)
seen = set()
model.register_forward_hook(lambda m, i, o: seen.add(str(o.dtype)))
learn = Learner(DataLoaders.from_dsets(data, data, bs=4, device=torch.device("xla")), model.to("xla"),
                loss_func=torch.nn.CrossEntropyLoss()).to_fp16()
with learn.no_bar(), learn.no_logging():
    learn.fit(1)
print("trains on", model.weight.device, "in", *seen)
"""
XLA_FSDP = "fsdp_config={'xla': True, 'xla_fsdp_v2': True}, optim='adamw_torch', "

# What is shown, the finding that is about it, the code, and how many devices.
CASES = [
    *(
        (f'transformers: `attn_implementation="{name}"`', code, LLAMA + ATTENTION.format(name), 1)
        for name, code in (
            ("eager", ""),
            ("sdpa", ""),
            ("flash_attention_2", "XLA904"),
            ("flex_attention", "XLA916"),
        )
    ),
    ("torch: `flex_attention`", "XLA916", FLEX, 1),
    ('transformers: `device_map="auto"`', "XLA807", LLAMA + MAPPED.format('"auto"'), 1),
    ("transformers: `device_map={'': 0}`", "XLA807", LLAMA + MAPPED.format("{'': 0}"), 1),
    ('transformers: `device_map="xla"`', "", LLAMA + MAPPED.format('"xla"'), 1),
    ("Trainer: default arguments", "XLA801", LLAMA + TRAINER.format(""), 1),
    ('Trainer: `optim="adamw_torch"`', "", LLAMA + TRAINER.format("optim='adamw_torch', "), 1),
    (
        "Trainer: `use_cpu=True`",
        "XLA801",
        LLAMA + TRAINER.format("use_cpu=True, optim='adamw_torch', "),
        1,
    ),
    (
        "Trainer: `warmup_ratio=0.1`",
        "XLA813",
        LLAMA + TRAINER.format("warmup_ratio=0.1, "),
        1,
    ),
    (
        "Trainer: `fsdp` with FSDPv2 in `fsdp_config`",
        "XLA814",
        SHARDED.replace("{}", "fsdp='full_shard', " + XLA_FSDP),
        2,
    ),
    ("Trainer: FSDPv2 in `fsdp_config` alone", "", SHARDED.replace("{}", XLA_FSDP), 2),
    (
        'Trainer: `fsdp="full_shard"` after `xla.patch_accelerate()`',
        "",
        PATCHED + LLAMA + TRAINER.format("fsdp='full_shard', optim='adamw_torch', ") + SPLIT,
        2,
    ),
    (
        "accelerate: an FSDP plugin",
        "XLA814",
        PLUGGED.replace("{}", ""),
        2,
    ),
    (
        "the same after `xla.patch_accelerate()` and `xla.use_spmd(batch_per_device=True)`",
        "",
        PLUGGED.replace("{}", "xla.use_spmd(batch_per_device=True); xla.patch_accelerate()"),
        2,
    ),
    (
        "accelerate: a window of 3, 10 batches, 2 epochs",
        "XLA814",
        ACCUMULATED.format(""),
        1,
    ),
    (
        "the same after `xla.patch_accelerate()`",
        "",
        ACCUMULATED.format("xla.patch_accelerate()"),
        1,
    ),
    (
        "accelerate: `accelerate launch`",
        "",
        LAUNCHED.replace("{}", LAUNCH.format("", "{}")),
        1,
    ),
    (
        "accelerate: `accelerate launch --num_processes 2`",
        "XLA956",
        LAUNCHED.replace("{}", LAUNCH.format('"--num_processes", "2",', "{}")),
        1,
    ),
    (
        "accelerate: `accelerate launch --tpu --num_processes 1 --main_training_function main`",
        "",
        LAUNCHED.replace(
            "{}",
            LAUNCH.format(
                '"--tpu", "--num_processes", "1", "--main_training_function", "main",', "{}"
            ),
        ),
        1,
    ),
    (
        "accelerate: `notebook_launcher(train, num_processes=1)`",
        "",
        LAUNCHED.replace("{}", NOTEBOOK.format(1)),
        1,
    ),
    (
        "accelerate: `notebook_launcher(train, num_processes=2)`",
        "XLA802",
        LAUNCHED.replace("{}", NOTEBOOK.format(2)),
        1,
    ),
    *(
        (
            f'Lightning: `accelerator="{name}"`',
            code,
            LIGHTNING.replace("{}", f'"{name}"'),
            1,
        )
        for name, code in (("auto", "XLA815"), ("tpu", ""), ("gpu", "XLA803"), ("cpu", ""))
    ),
    *(
        (
            f"the same after `xla.patch_lightning()`, with `{options}`",
            "",
            "import lightning\nfrom xla_migrate import runtime as xla\nxla.patch_lightning()\n"
            + LIGHTNING.replace("accelerator={}", options),
            1,
        )
        for options in (
            'accelerator="auto"',
            'accelerator="gpu", devices=-1, strategy="ddp"',
            'accelerator="gpu", precision="16-mixed"',
            'accelerator="gpu", precision="bf16-true"',
        )
    ),
    (
        'Lightning: Fabric with `accelerator="gpu", strategy="ddp", precision="16-mixed"` after'
        " `xla.patch_lightning()`",
        "",
        FABRIC,
        1,
    ),
    (
        "Lightning: a class of the script that derives from LightningCLI, with `accelerator: gpu`",
        "XLA815",
        COMMAND_LINE.replace("{}", ""),
        1,
    ),
    (
        "the same after `xla.patch_lightning()`, derived from LightningCLI",
        "",
        COMMAND_LINE.replace("{}", "xla.patch_lightning()"),
        1,
    ),
    (
        "Trainer: `gradient_checkpointing=True`",
        "XLA801",
        LLAMA + TRAINER.format("gradient_checkpointing=True, optim='adamw_torch', "),
        1,
    ),
    (
        "the same after `xla.patch_accelerate()`",
        "",
        LLAMA + CHECKPOINTED + TRAINER.format("gradient_checkpointing=True, optim='adamw_torch', "),
        1,
    ),
    ("Lightning: an evaluation, one device", "XLA815", EVALUATED.replace("{}", ""), 1),
    (
        "the same after `xla.patch_lightning()` (an evaluation)",
        "",
        EVALUATED.replace("{}", "xla.patch_lightning()"),
        1,
    ),
    ("transformers: `generate`", "", LLAMA + GENERATED, 1),
    ("torchmetrics: `Accuracy(task='binary')`", "XLA819", METRIC.format(""), 1),
    (
        "torchmetrics: `Accuracy(task='binary', validate_args=False)`",
        "",
        METRIC.format(", validate_args=False"),
        1,
    ),
    ("ignite: a metric and `Checkpoint`", "XLA818", IGNITE.format("", ""), 1),
    (
        "the same after `xla.patch_ignite()`",
        "",
        IGNITE.format("xla.patch_ignite()", ""),
        1,
    ),
    (
        'the same with `amp_mode="amp"` (ignite)',
        "XLA818",
        IGNITE.format("xla.patch_ignite()", ', amp_mode="amp"'),
        1,
    ),
    ("fastai: a Learner, `to_fp16()`", "", FASTAI, 1),
    ("timm: a ResNet", "", TIMM, 1),
    (
        "peft: LoRA trained, `save_pretrained`",
        "XLA708",
        LORA + "model.save_pretrained(folder)" + LOADED.format(""),
        1,
    ),
    (
        "peft: LoRA trained, `xla.save_pretrained`, loaded",
        "",
        LORA + "xla.save_pretrained(model, folder)" + LOADED.format(""),
        1,
    ),
    (
        'peft: the same, loaded with `torch_device="xla"`',
        "",
        LORA + "xla.save_pretrained(model, folder)" + LOADED.format(', torch_device="xla"'),
        1,
    ),
    ("diffusers: a UNet", "", UNET + UNET_TRAINS, 1),
    (
        "diffusers: `enable_gradient_checkpointing()`",
        "XLA509",
        UNET + UNET_CHECKPOINTS.format("") + UNET_TRAINS,
        1,
    ),
    (
        "diffusers: `enable_gradient_checkpointing` with `xla.checkpoint`",
        "",
        UNET
        + UNET_CHECKPOINTS.format(
            "lambda module, *args: xla.checkpoint(module, *args, use_reentrant=False)"
        )
        + UNET_TRAINS,
        1,
    ),
    (
        "diffusers: `save_pretrained`",
        "XLA708",
        UNET + "model.save_pretrained(folder)" + UNET_SAVED,
        1,
    ),
    (
        "diffusers: `xla.save_pretrained`",
        "",
        UNET + "xla.save_pretrained(model, folder)" + UNET_SAVED,
        1,
    ),
    (
        "diffusers: `save_lora_weights`",
        "XLA708",
        UNET_LORA
        + "StableDiffusionPipeline.save_lora_weights(folder, unet_lora_layers=state)"
        + UNET_LORA_SAVED,
        1,
    ),
    (
        "diffusers: `xla.save_lora` with `save_lora_weights`",
        "",
        UNET_LORA
        + "xla.save_lora(StableDiffusionPipeline.save_lora_weights, folder, unet_lora_layers=state)"
        + UNET_LORA_SAVED,
        1,
    ),
    (
        "diffusers: `xla.save_lora` with `save_lora_adapter`",
        "",
        UNET_LORA + "xla.save_lora(model.save_lora_adapter, folder)" + UNET_LORA_SAVED,
        1,
    ),
    (
        'torch: the profiler\'s `table(sort_by=f"self_{x.device.type}_time_total")`',
        "XLA127",
        COLUMNS.format('f"self_{x.device.type}_time_total"'),
        1,
    ),
    (
        'the same with `.replace("xla", "device")` (profiler)',
        "",
        COLUMNS.format('f"self_{x.device.type}_time_total".replace("xla", "device")'),
        1,
    ),
]


# What a process has imported that forks one for each case of a kind, by a word of the case's code.
KINDS = (
    ("subprocess.run", ""),  # starts programs itself
    ("device_map={'': 0}", ""),  # CUDA tells of the fork
    ("diffusers", "torch torch_xla transformers peft diffusers"),
    ("lightning", "torch torch_xla lightning lightning.pytorch.cli lightning.fabric"),
    ("transformers", "torch torch_xla transformers.trainer accelerate peft"),
    ("accelerate", "torch torch_xla accelerate"),
    ("timm", "torch torch_xla timm"),
    ("", "torch torch_xla"),
)
FORKING = """
import json, os, signal, sys, time, traceback
for name in sys.argv[1].split():
    __import__(name)
def run(code, folder, env):
    os.setsid()
    os.chdir(folder)
    os.environ.update(env)
    for number, name in ((1, "stdout.txt"), (2, "stderr.txt")):
        os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY), number)
    sys.argv = ["-c"]
    status = 1
    try:
        exec(compile(code, "<case>", "exec"), vars(sys.modules["__main__"]))
        status = 0
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
for line in sys.stdin:
    case = json.loads(line)
    child = os.fork()
    if not child:
        run(case["code"], case["folder"], case["env"])
    ends, done = time.monotonic() + case["limit"], (0, 0)
    while not done[0] and time.monotonic() < ends:
        done = os.waitpid(child, os.WNOHANG)
        time.sleep(0.05)
    if not done[0]:
        os.killpg(child, signal.SIGKILL)  # with what it has started
        os.waitpid(child, 0)
    print(json.dumps(os.waitstatus_to_exitcode(done[1]) if done[0] else None), flush=True)
"""
_forking: dict[str, subprocess.Popen[str]] = {}


def forking(code: str) -> subprocess.Popen[str]:
    """The process that has imported what the code needs."""
    imported = next(names for word, names in KINDS if word in code)
    if imported not in _forking:
        env = {**os.environ, "PJRT_DEVICE": "CPU", "OMP_NUM_THREADS": "1", "LOCAL_RANK": "0"}
        _forking[imported] = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", FORKING, imported],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    return _forking[imported]


def outcome(code: str, devices: int) -> str:
    """The last line that the code prints, or its error."""
    process = forking(code)
    assert process.stdin is not None
    assert process.stdout is not None
    env = {"CPU_NUM_DEVICES": str(devices)} if devices > 1 else {}
    with tempfile.TemporaryDirectory() as folder:
        case = {"code": code, "folder": folder, "env": env, "limit": LIMIT}
        print(json.dumps(case), file=process.stdin, flush=True)
        status = json.loads(process.stdout.readline())
        if status is None:
            return f"hangs: not over after {LIMIT} s"
        if status == 0:
            return Path(folder, "stdout.txt").read_text().splitlines()[-1]
        errors = Path(folder, "stderr.txt").read_text()
    lines = [line for line in errors.splitlines() if line[:1].isalpha() and ": " in line]
    kind, _, text = (lines or ["?: "])[-1].partition(": ")
    return f"raises {kind.rpartition('.')[2]}: {text[:90].rstrip()}"


def versions() -> str:
    """Of the packages that are installed."""
    installed = importlib.metadata.distributions()
    found = {d.metadata["Name"].replace("_", "-"): d.version for d in installed}
    named = ((name, found.get(name.replace("_", "-"))) for name in PACKAGES)
    return ", ".join(f"{name} {version}" for name, version in named if version)


def main() -> None:
    """All cases; with words, only the rows of those whose title has one of them."""
    words = sys.argv[1:]
    if words:
        print_rows([case for case in CASES if any(word in case[0] for word in words)])
        return
    print("# Frameworks, as they were run\n")
    print(
        f"With {versions()}, on XLA:CPU, {datetime.date.today()}. Written by `docs/bench/frameworks.py`; each case ran in"
        " a separate process.\n"
    )
    print("| case | on XLA | finding |\n| --- | --- | --- |")
    print_rows(CASES)


def print_rows(cases: list[tuple[str, str, str, int]]) -> None:
    for title, code, source, devices in cases:
        link = f"[{code}](rules/{code}.md)" if code else ""
        print(f"| {title} | {outcome(source, devices)} | {link} |", flush=True)


if __name__ == "__main__":
    main()
