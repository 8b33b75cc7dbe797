"""Known errors: the table is consistent, logs are explained, and healthy logs are not."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from xla_codemods.rules import every_rule
from xla_migrate.cli import main
from xla_migrate.known_errors.explain import ERRORS, explained, find, last_known

ROOT = Path(__file__).parents[2]

HEALTHY = """\
Epoch: [1][10/50]  Time 0.512 ( 0.530)  Loss 2.3021e+00 (2.3188e+00)  Acc@1 12.50 ( 11.25)
step 100: train loss 1.2345, val loss 1.3456, lr 3.0e-04, grad norm 0.98
INFO:torch.distributed: waiting for rank 1
Saved checkpoint to runs/nanodet/last.pt
tokenizer: vocabulary without <nan> token; loss scale 1.0
{'loss': 0.6931, 'learning_rate': 5e-05, 'epoch': 0.1}
UserWarning: 'pin_memory' argument is set as true but no accelerator is found
Test set: Average loss: 0.0312, Accuracy: 9901/10000 (99%)
"""

# Errors of other machines, and one that leaves the device of a process unusable.
SEEN = {
    "accelerate-backend": "ValueError: Your assigned backend nccl is not available, please use xla",
    "mismatched-versions": "ImportError: /usr/lib/python3/_XLAC.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN5torch4lazy",
    "cpu-by-default": "WARNING:root:Defaulting to PJRT_DEVICE=CPU",
    "tpu-in-use": "RuntimeError: The TPU is already in use by process with pid 4711. Not attempting to load libtpu.so",
    "neuron-cores-in-use": "ERROR  NRT:nrt_allocate_neuron_cores  Logical Neuron Core(s) not available - Requested:32 Available:0",
    "neuron-compiler": "[ERROR] [NCC_EVRF007] Verification failure",
    "dynamic-shape": "RuntimeError: torch_xla/csrc/helpers.cpp:99 : Check failed: out_size <= size_at_dyndim / input_sizes[input_dynamic_dimension] (2 vs. 1)",
    "out-of-device-memory": "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm.",
    "cache-not-readable": "UNIMPLEMENTED: Deserializing serialized executable not supported.",
    "slow-compile": "E0000 slow_operation_alarm.cc:73] Very slow compile? If you want to file a bug, run with envvar",
    "profiler-compiles": "pt-xla-profiler: CompileTime too frequent: 21 counts during 11 steps",
    "profiler-reads": "pt-xla-profiler: TransferFromDeviceTime too frequent: 12 counts during 11 steps",
    "profiler-fallback": "pt-xla-profiler: Op(s) not lowered: aten::median,  Please open a GitHub issue",
    "deleted-buffer": "RuntimeError: torch_xla/csrc/runtime/pjrt_computation_client.cpp:806 : Check failed: !buffer->IsDeleted():",
    "execution-in-full-graph": "Unexpected Execution Analysis: Compilation Cause",
    "cannot-replicate": "RuntimeError: Cannot replicate if number of devices (1) is different from 8",
    "killed": "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGKILL",
    "nan": "step 30 loss: nan",
    "no-backend-for-xla": "RuntimeError: No backend type associated with device type xla",
    "xla-checkpoint": "NotImplementedError: Could not run 'aten::empty.memory_format' with arguments from the 'XLA' backend.",
    "operator-missing": "NotImplementedError: Could not run 'aten::median' with arguments from the 'PrivateUse1' backend.",
    "tpu-no-access": "TPU initialization failed: open(/dev/accel2): Operation not permitted: Couldn't open device",
    "tpu-not-found": "RuntimeError: Bad StatusOr access: UNKNOWN: TPU initialization failed: No ba16c7433 device found.",
    "tpu-other-hosts": "TPU initialization failed: Invalid --2a886c8_slice_builder_worker_addresses specified. Expected 4",
    "no-device-chosen": "No PjRtPlugin registered for: GPU. Make sure the environment variable PJRT_DEVICE is set",
    "nprocs": "ValueError: Unsupported nprocs (2). Please use nprocs=1 or None (default).",
    "process-pool": "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly",
    "neuron-runtime": "ERROR  TDRV:tdrv_get_dev_info      No neuron device available",
    "neuron-failed-before": "ERROR ||NCC_WRAPPER||: There was a compilation error for this graph in the previous run.",
    "half-precision-refused": "ValueError: fp16 mixed precision requires a GPU (not 'xla').",
    "bitsandbytes": "RuntimeError: The installed version of bitsandbytes was compiled without GPU support.",
    "system-library": "ImportError: libopenblas.so.0: cannot open shared object file: No such file or directory",
    "rendezvous": "DistNetworkError: The client socket has timed out after 600000ms while trying to connect to (10.0.0.2, 29500).",
    "collective-timeout": "RuntimeError: Timed out waiting 1800000ms for recv operation to complete",
    "autocast-device": "RuntimeError: User specified an unsupported autocast device_type 'xla:0'",
    "sync-batch-norm": "ValueError: SyncBatchNorm expected input tensor to be on cuda or hpu or xpu or privateuse1",
    "ddp-device-ids": "DistributedDataParallel device_ids and output_device arguments only work with single-device",
    "fsdp-device": "RuntimeError: FSDP needs a non-CPU accelerator device, but no accelerator device is detected.",
    "mixed-types": "RuntimeError: mat1 and mat2 must have the same dtype, but got Float and BFloat16",
    "compile-backend": "InvalidBackend: Invalid backend: 'xla', see `torch._dynamo.list_backends()` for available backends.",
}  # fmt: skip

# The same class in other words.
ALSO = {
    "RuntimeError: TPU initialization failed: open(/dev/vfio/0): Device or resource busy": "tpu-in-use",
    "ERROR ||NEURON_CC_WRAPPER||: Failed compilation with ['neuronx-cc', 'compile']: [TEN404]": "neuron-compiler",
    "Neuron runtime cannot be initialized; cannot determine the number of NeuronCores": "neuron-runtime",
    "ModuleNotFoundError: No module named 'torch_neuronx'": "no-torch-xla",
    "ModuleNotFoundError: No module named 'torch_xla.experimental.pjrt'": "removed-from-torch-xla",
    "OSError: /usr/lib/python3/torchaudio/lib/libtorchaudio.so: undefined symbol: _ZN5torch3jit17": "mismatched-extension",
    "flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDevice": "mismatched-extension",
    "train_loss=nan, step=12": "nan",
    "RuntimeError: 0 active drivers ([]). There should only be one.": "triton-without-gpu",
    "{'loss': nan, 'grad_norm': nan}": "nan",
    "Killed": "killed",
    "bash: line 1: 12345 Killed                  python train.py": "killed",
    "RuntimeError: Timed out initializing process group in store based barrier": "rendezvous",
}

# Errors that resemble a known one, and have another cause.
UNKNOWN = [
    "google.api_core.exceptions.DeadlineExceeded: 504 Deadline Exceeded while reading gs://bucket/a",
    "filelock._error.Timeout: Timed out waiting for lock /root/.cache/x.lock",
    "INFO ||NEURON_CC_WRAPPER||: Call compiler with cmd: neuronx-cc compile --target=trn1 model.pb",
    "Compiler status PASS",
    "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
    "Fatal Python error: Segmentation fault",
    "*** SIGTERM received by PID 89268 (TID 89268) on cpu 51 from PID 89123; stack trace: ***",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
    "torch.utils.checkpoint.CheckpointError: Recomputed values for the following tensors differ",
    "ERROR: (gcloud.alpha.compute.tpus) RESOURCE_EXHAUSTED: Quota limit 'TPUV5' has been exceeded",
    "grpc: RESOURCE_EXHAUSTED: Received message larger than max (5000000 vs. 4194304)",
    "FAILED_PRECONDITION: The program continuator has halted unexpectedly.",
]


def test_names_are_unique_and_there_are_enough() -> None:
    names = [error.name for error in ERRORS]
    assert len(names) == len(set(names))
    assert len(names) >= 60


def test_references_exist() -> None:
    codes = {rule.code for rule in every_rule()}
    for error in ERRORS:
        for word in error.see.split():
            if word.startswith("XLA"):
                assert word in codes or (ROOT / "docs" / "rules" / f"{word}.md").exists(), error
            else:
                assert (ROOT / "docs" / word).exists(), error


def test_patterns_match_within_a_line() -> None:
    for error in ERRORS:
        assert not re.search(error.pattern, ""), error
        assert error.cause.endswith("."), error
        assert error.fix.endswith("."), error


def test_a_healthy_log_has_no_known_error() -> None:
    assert find(HEALTHY.splitlines()) == []


@pytest.mark.parametrize("name", list(SEEN))
def test_an_error_of_another_machine_is_explained(name: str) -> None:
    assert [one.error.name for one in find([SEEN[name]])] == [name]


@pytest.mark.parametrize(("line", "name"), ALSO.items())
def test_other_words_of_a_known_error(line: str, name: str) -> None:
    assert [one.error.name for one in find([line])] == [name]


@pytest.mark.parametrize("line", UNKNOWN)
def test_an_error_that_resembles_a_known_one_is_unknown(line: str) -> None:
    assert find([line]) == []


def test_errors_are_counted_and_in_order() -> None:
    log = ["fine", "loss: nan", "fine", "loss: nan", "No CUDA GPUs are available"]
    found = [(one.error.name, one.line, one.times) for one in find(log)]
    assert found == [("nan", 2, 2), ("no-nvidia-driver", 5, 1)]


def test_a_traceback_is_explained_by_its_last_error() -> None:
    text = "No module named 'apex'\nDuring handling\nRuntimeError: Found no NVIDIA driver on your system."
    assert "CUDA call" in explained(last_known(text))[0]
    assert explained(last_known("ValueError: 3")) == []


OF_TORCH = """\
Traceback (most recent call last):
  File "/home/u/train.py", line 3, in <module>
    import helpers
  File "<frozen importlib._bootstrap>", line 241, in _call_with_frames_removed
ImportError: no such module

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/home/u/train.py", line 12, in <module>
    main()
  File "/home/u/engine.py", line 40, in main
    model = model.cuda()
  File "/usr/lib/python3.11/site-packages/torch/cuda/__init__.py", line 403, in _lazy_init
    raise AssertionError("Torch not compiled with CUDA enabled")
AssertionError: Torch not compiled with CUDA enabled
"""


def test_the_last_frame_outside_of_packages_is_named() -> None:
    (found,) = find(OF_TORCH.splitlines())
    assert found.called_at == "/home/u/engine.py:40"
    assert explained(found)[0] == "  at     /home/u/engine.py:40"


def test_no_frame_is_named_if_the_last_one_is_the_users_own() -> None:
    text = OF_TORCH.replace("/usr/lib/python3.11/site-packages/", "/home/u/")
    assert [one.called_at for one in find(text.splitlines())] == [""]


def test_a_long_line_is_shortened_visibly() -> None:
    (found,) = find(["loss: nan " + "x" * 200])
    assert len(found.text) == 160
    assert found.text.endswith("...")


def test_the_command_reads_files_and_standard_input(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(b"\xff\nloss: nan\n")
    assert main(["explain", "--log", str(log)]) == 0
    out = capfd.readouterr().out
    assert f"{log}:2: loss: nan\n  cause  " in out
    assert "  see    docs/guides/troubleshooting.md" in out
    log.write_text("loss 1.0\n")
    with log.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert main(["explain", "--log", "-"]) == 1
    assert capfd.readouterr().out == "No known error in 1 line.\n"


def test_a_file_that_is_missing_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--log", "nowhere.log"]) == 2
    assert "nowhere.log: No such file" in capfd.readouterr().err
