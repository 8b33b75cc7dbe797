"""torch.cuda.*, torch.accelerator.* and torch.backends in a redirected run."""

from __future__ import annotations

import time

import pytest
import torch

from xla_migrate.verify import redirect

from ...each import each

pytestmark = pytest.mark.usefixtures("cuda")

# Every call of data/cuda_without_gpu_torch290.tsv: raising there, or silently 0, None and False.
ANSWERS = {
    "torch.cuda.is_available()": True,
    "torch.cuda.device_count()": 1,
    "torch.cuda.current_device()": 0,
    "torch.cuda.set_device(0)": None,
    "torch.cuda.get_device_name()": "redirected CUDA device (CPU)",
    "torch.cuda.get_device_name(0)": "redirected CUDA device (CPU)",
    "torch.cuda.get_device_capability()": (8, 0),
    "torch.cuda.get_device_properties(0).major": 8,
    "torch.cuda.synchronize()": None,
    "torch.cuda.empty_cache()": None,
    "torch.cuda.memory_allocated() > 0": True,
    "torch.cuda.max_memory_allocated() > 0": True,
    "torch.cuda.memory_reserved() > 0": True,
    "torch.cuda.max_memory_reserved() > 0": True,
    "torch.cuda.memory_cached() > 0": True,
    "torch.cuda.reset_peak_memory_stats()": None,
    "torch.cuda.reset_max_memory_allocated()": None,
    "torch.cuda.memory_stats()['allocated_bytes.all.peak'] > 0": True,
    "'MiB' in torch.cuda.memory_summary()": True,
    "torch.cuda.memory_snapshot()": [],
    "len(torch.cuda.mem_get_info())": 2,
    "torch.cuda.manual_seed(0)": None,
    "torch.cuda.manual_seed_all(0)": None,
    "torch.cuda.seed()": None,
    "torch.cuda.seed_all()": None,
    "torch.cuda.initial_seed() >= 0": True,
    "len(torch.cuda.get_rng_state_all())": 1,
    "torch.cuda.set_rng_state_all([])": None,
    "torch.cuda.is_bf16_supported()": True,
    "torch.cuda.is_initialized()": True,
    "torch.cuda.init()": None,
    "torch.cuda.current_stream().query()": True,
    "torch.cuda.default_stream().query()": True,
    "torch.cuda.Stream().synchronize()": None,
    "torch.cuda.Event().record()": None,
    "torch.cuda.ipc_collect()": None,
    "torch.cuda.set_per_process_memory_fraction(0.5)": None,
    "torch.cuda.get_arch_list()": ["sm_80"],
    "torch.cuda.get_gencode_flags()": "",
    "torch.cuda.can_device_access_peer(0, 0)": False,
    "torch.cuda.is_current_stream_capturing()": False,
    "torch.cuda.get_sync_debug_mode()": 0,
    "torch.cuda.set_sync_debug_mode(0)": None,
    "len(torch.cuda.default_generators)": 1,
    "torch.cuda.nvtx.range_push('a')": 0,
    "torch.cuda.nvtx.range_pop()": 0,
    "torch.cuda.nvtx.mark('a')": None,
    "torch.backends.cudnn.is_available()": True,
    "torch.backends.cuda.flash_sdp_enabled()": True,
    "torch.distributed.is_nccl_available()": True,
    "torch.accelerator.is_available()": True,
    "torch.accelerator.device_count()": 1,
    "torch.accelerator.current_accelerator()": torch.device("cuda"),
    "torch.accelerator.current_accelerator(check_available=True).type": "cuda",
    "torch.accelerator.current_device_index()": 0,
    "torch.accelerator.set_device_index(0)": None,
    "torch.accelerator.synchronize()": None,
    "torch.accelerator.empty_cache()": None,
    "torch.accelerator.memory_allocated() > 0": True,
}


@each("call", ANSWERS)
def test_services_answer(call: str) -> None:
    assert eval(call) == ANSWERS[call]


@pytest.mark.parametrize(
    "call",
    [
        "torch.cuda.CUDAGraph()",
        "torch.cuda.graph(None)",
        "torch.cuda.make_graphed_callables(None, ())",
        "torch.cuda.utilization()",
        "torch.cuda.temperature()",
        "torch.cuda.power_draw()",
        "torch.cuda.cudart()",
        "torch.cuda.current_blas_handle()",
    ],
)
def test_what_cannot_be_is_refused_by_name(call: str) -> None:
    with pytest.raises(redirect.Unsupported, match=call.partition("(")[0]):
        eval(call)


def test_events_measure_real_time() -> None:
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    start.record()
    time.sleep(0.02)
    end.record()
    torch.cuda.synchronize()
    assert 15 < start.elapsed_time(end) < 2000
    with pytest.raises(ValueError, match="enable_timing"):
        torch.cuda.Event().elapsed_time(end)


def test_streams_and_contexts() -> None:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), torch.cuda.device(0), torch.cuda.nvtx.range("step"):
        x = torch.ones(2).cuda(non_blocking=True)
    stream.record_event().wait(stream)
    x.record_stream(stream)
    with torch.cuda.device_of(x), torch.cuda.device(None), torch.cuda.device(-1):
        assert torch.cuda.current_device() == 0
    with torch.backends.cuda.sdp_kernel(enable_math=False):
        pass
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION):
        q = torch.ones(1, 1, 2, 4, device="cuda")
        assert torch.nn.functional.scaled_dot_product_attention(q, q, q).is_cuda


@pytest.mark.filterwarnings("ignore:Please use the new API")
def test_flags_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("benchmark", "deterministic", "allow_tf32"):
        monkeypatch.setattr(torch.backends.cudnn, name, getattr(torch.backends.cudnn, name))
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.deterministic = False
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cuda.enable_flash_sdp(False)
    assert not torch.backends.cuda.flash_sdp_enabled()
    torch.backends.cuda.matmul.allow_tf32 = False


def test_compile_is_identity() -> None:
    model = torch.nn.Linear(1, 1)
    assert torch.compile(model) is model
    assert torch.compile(model, mode="reduce-overhead", dynamic=False) is model

    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    @torch.compile(fullgraph=True)
    def g(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    assert f(torch.zeros(1)).item() == g(torch.zeros(1)).item() == 1
    model.compile()


def test_device_generator_is_seeded_by_every_call() -> None:
    states = []
    for seed in (torch.manual_seed, torch.cuda.manual_seed, torch.cuda.manual_seed_all):
        seed(7)
        states.append(torch.cuda.get_rng_state())
    assert all(torch.equal(s, states[0]) for s in states)
    torch.cuda.set_rng_state(states[0])
    torch.cuda.set_rng_state_all(states[:1])
    with torch.random.fork_rng():
        torch.manual_seed(8)
    assert torch.equal(torch.cuda.get_rng_state(), states[0])
    with pytest.raises(redirect.Unsupported, match="real GPU"):
        torch.cuda.set_rng_state(torch.zeros(16, dtype=torch.uint8))


def test_checkpoint_and_rnn_and_sync_batch_norm_run() -> None:
    from torch.utils.checkpoint import checkpoint

    layer = torch.nn.Linear(3, 3).cuda()
    x = torch.ones(2, 3, device="cuda", requires_grad=True)
    for reentrant in (True, False):
        checkpoint(torch.nn.Sequential(layer, layer), x, use_reentrant=reentrant).sum().backward()
    assert x.grad.is_cuda
    lstm = torch.nn.LSTM(3, 3).cuda()
    lstm.flatten_parameters()
    assert lstm(torch.ones(2, 1, 3, device="cuda"))[0].is_cuda
    norm = torch.nn.SyncBatchNorm.convert_sync_batchnorm(torch.nn.BatchNorm1d(3)).cuda()
    assert norm(x).is_cuda
    model = torch.nn.DataParallel(layer).cuda()
    assert model(torch.ones(2, 3)).is_cuda
    assert model.module is layer
