"""Known errors of the installation and the machine: versions, drivers, packages for CUDA, devices in use."""

from .error import KnownError

ERRORS = (
    KnownError(
        "no-nvidia-driver",
        r"Found no NVIDIA driver on your system|Torch not compiled with CUDA enabled|No CUDA GPUs are available",
        "A CUDA call runs on a machine without a GPU.",
        "Run `xla-migrate` on the file in the last frame of the traceback. `xla-migrate check` reports calls that remain.",
        "XLA101 XLA105",
    ),
    KnownError(
        "mismatched-versions",
        r"_XLAC\S*\.so: undefined symbol|undefined symbol: _ZN5torch",
        "torch_xla was built for another version of torch.",
        "Install matching versions, for example torch 2.9.* with torch_xla 2.9.*. `xla-migrate doctor` compares them.",
        "guides/tpu-vm.md",
    ),
    KnownError(
        "no-torch-xla",
        r"No module named '(torch_xla|_XLAC|libneuronxla)'",
        "torch_xla (on Trainium: torch-neuronx) is not installed in this Python.",
        "Install it, or start the script with the Python that has it. `xla-migrate doctor` checks the machine.",
        "guides/tpu-vm.md guides/trainium.md",
    ),
    KnownError(
        "no-xla-migrate",
        r"No module named '(xla_migrate|xla_runtime)'",
        "The migrated script imports the runtime, which is not installed on this host.",
        "Install the package on the training host, or migrate with `--style native`.",
        "guides/after-migration.md",
    ),
    KnownError(
        "cpu-by-default",
        r"Defaulting to PJRT_DEVICE=CPU",
        "torch_xla found no accelerator, so it computes on the CPU.",
        "On a TPU or Trainium host, run `xla-migrate doctor` and install libtpu or the Neuron runtime. "
        "On a laptop, set PJRT_DEVICE=CPU to confirm the choice.",
        "guides/troubleshooting.md",
    ),
    KnownError(
        "no-libtpu",
        r"libtpu not found|Failed to (find|load|open) libtpu|libtpu\.so: cannot open shared object",
        "The TPU's driver library is not installed.",
        "Install it with `pip install 'torch_xla[tpu]==2.9.*'`.",
        "guides/tpu-vm.md",
    ),
    KnownError(
        "tpu-in-use",
        r"The TPU is already in use by process|libtpu_lockfile|TPU_\w* .*already in use",
        "Another process uses the TPU. Only one process can use a chip.",
        "End the other process. If it has crashed, delete /tmp/libtpu_lockfile.",
        "guides/tpu-vm.md",
    ),
    KnownError(
        "tpu-metadata",
        r"Failed to get TPU metadata|metadata\.google\.internal",
        "libtpu asks the metadata server of a TPU VM, and this host has none or blocks it.",
        "Run on a TPU VM. On another host with libtpu, set TPU_SKIP_MDS_QUERY=1.",
        "native-backends.md",
    ),
    KnownError(
        "xla-cuda",
        r"XLA:CUDA is not supported anymore",
        "PyTorch/XLA 2.9 does not support GPUs.",
        "On a GPU, train without torch_xla: set XLA_MIGRATE_BACKEND=eager.",
        "native-backends.md",
    ),
    KnownError(
        "neuron-cores-in-use",
        r"Logical Neuron Core\(s\) not available|nrt_allocate_neuron_cores",
        "Other processes use the NeuronCores, or the script requests more cores than the instance has.",
        "End other training processes (`neuron-top` lists them), and start one process per core.",
        "guides/trainium.md",
    ),
    KnownError(
        "neuron-runtime",
        r"\bnrt_init\b.*(fail|error)|Failed to initialize the Neuron runtime|NRT_INVALID|NRT_UNINITIALIZED",
        "The Neuron runtime did not start.",
        "Check that the driver is loaded (`neuron-ls`) and that driver, runtime and torch-neuronx are of one release.",
        "guides/trainium.md",
    ),
    KnownError(
        "glibc",
        r"version `(GLIBC|GLIBCXX)_[\d.]+' not found",
        "A package was built for a newer system than this one.",
        "Use an image that the package supports, or a container.",
        "guides/tpu-vm.md guides/trainium.md",
    ),
    KnownError(
        "cuda-extension",
        r"No module named '(apex|amp_C|fused_layer_norm_cuda|flash_attn|flash_attn_2_cuda|xformers|triton|bitsandbytes|transformer_engine|pynvml|cupy)\b",
        "The script imports a package that needs CUDA.",
        "`xla-migrate check` reports each use and its replacement.",
        "XLA206 XLA904 catalog.md",
    ),
    KnownError(
        "libcudart",
        r"lib(cudart|cublas|cudnn|nccl|nvrtc)\S*\.so\S*: cannot open shared object|CUDA_HOME environment variable is not set",
        "A package with CUDA kernels is imported or built on a machine without CUDA.",
        "Remove the import, or import it only on CUDA. `xla-migrate check` reports it.",
        "catalog.md",
    ),
    KnownError(
        "flash-attention-2",
        r"FlashAttention2 has been toggled on, but it cannot be used",
        "The model requests a CUDA kernel.",
        'Load the model with attn_implementation="sdpa".',
        "XLA904",
    ),
    KnownError(
        "lightning-gpu",
        r"No supported gpu backend found|`XLAAccelerator` can not run on your system",
        "The script requests a GPU from Lightning, or torch_xla finds no TPU for Lightning's accelerator.",
        'Call xla.patch_lightning() and use accelerator="auto", as the migration writes.',
        "XLA803 XLA815",
    ),
)
