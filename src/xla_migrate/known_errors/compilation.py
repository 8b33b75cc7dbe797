"""Known errors of compilation, memory, speed and numbers."""

from .error import KnownError

ERRORS = (
    KnownError(
        "execution-in-full-graph",
        r"Unexpected execution happens inside the compiled function|Unexpected Execution Analysis",
        "A value is read inside a function that must be one graph.",
        "Remove the read at the line that torch_xla prints, or read the value after the step.",
        "XLA503",
    ),
    KnownError(
        "too-many-graphs",
        r"Maximum number of different graphs allowed per function exceeded",
        "Shapes, Python numbers or branches change the graph.",
        "`xla-migrate verify` names the line that changes. Pad batches, and use drop_last=True.",
        "XLA504 XLA506 XLA510",
    ),
    KnownError(
        "out-of-device-memory",
        r"RESOURCE_EXHAUSTED|Ran out of memory in memory space|Exceeded hbm capacity|NCC_EOOM\d+|NRT_RESOURCE|Attempting to (reserve|allocate) .*[Tt]hat was not possible",
        "The graph needs more memory than the device has. A loop without step marks is one graph.",
        "Mark each step, reduce the batch, use bfloat16, xla.checkpoint or FSDP. `xla-migrate compile --for` shows what fits.",
        "compile.md guides/troubleshooting.md XLA502",
    ),
    KnownError(
        "neuron-compiler",
        r"\bNCC_[A-Z]+\d+\b|neuronx-cc.*(ERROR|failed)|Compilation failed for .*\.hlo|neuronxcc.*exit code",
        "The Neuron compiler refuses the graph or failed.",
        "Look up the code in the Neuron documentation. Frequent causes: dynamic shapes, float64, graphs that are too large.",
        "guides/trainium.md target-options.md",
    ),
    KnownError(
        "cache-already-open",
        r"Computation cache has already been initialized",
        "xr.initialize_cache must come before the first computation.",
        "Call it at the beginning of the script, and do not also set XLA_PERSISTENT_CACHE_PATH.",
        "hand-written.md",
    ),
    KnownError(
        "cache-not-readable",
        r"Deserializing serialized executable not supported|PersistentCacheDeserializeFailure|UNIMPLEMENTED.*[Dd]eserializ|DeserializeExecutable unimplemented",
        "torch_xla 2.9 writes its compilation cache on TPU and CPU, but cannot read it. Each start compiles again.",
        "Do not rely on the cache there. Neuron's cache of NEFF files works.",
        "target-options.md",
    ),
    KnownError(
        "slow-compile",
        r"Very slow compile\?|slow_operation_alarm",
        "XLA has compiled one graph for more than two minutes.",
        "Check that each step is marked, and that the graph does not grow: `xla-migrate verify` counts compilations.",
        "XLA502 guides/troubleshooting.md",
    ),
    KnownError(
        "profiler-compiles",
        r"pt-xla-profiler: CompileTime too frequent|CompileTime too frequent",
        "The script compiles in most steps.",
        "`xla-migrate verify` names the line whose shape or number changes.",
        "XLA504 XLA506 XLA510",
    ),
    KnownError(
        "profiler-reads",
        r"TransferFromDeviceTime too frequent",
        "The script reads a value from the device in most steps.",
        "`xla-migrate check` reports the reads and defers those that are only printed.",
        "XLA503 host-reads.md",
    ),
    KnownError(
        "profiler-fallback",
        r"Op\(s\) not lowered: (?P<operator>.*)",
        "torch_xla computes these operations on the CPU, which ends the graph each time.",
        "Replace the operation, or compute it once outside the step.",
        "XLA518",
    ),
    KnownError(
        "nan",
        r"\b(loss|Loss|grad_norm|ppl|perplexity)\b\W{0,4}(is )?\bnan\b|Found NaN|Function '\w+' returned nan values",
        "The loss is NaN: too high a learning rate, a division by zero, a mask of -inf, or float16 limits in constants.",
        "Check whether float32 computes NaN too: `xla-migrate verify` runs the original. bfloat16 needs no loss scaling.",
        "guides/troubleshooting.md XLA208",
    ),
    KnownError(
        "float64",
        r"(float64|f64|double) is not supported|F64 type is not supported|Unsupported (dtype|element type).*(f64|float64)",
        "The device has no float64.",
        "Create tensors in float32: NumPy arrays and torch.tensor of Python floats with dtype=float64 are frequent sources.",
        "XLA209",
    ),
    KnownError(
        "flex-attention",
        r"FlexAttention is only supported on",
        "flex_attention needs kernels that XLA does not have.",
        'Use scaled_dot_product_attention or attn_implementation="sdpa".',
        "XLA916",
    ),
    KnownError(
        "inductor",
        r"InductorError|torch\._inductor\.exc|BackendCompilerFailed.*inductor",
        "torch.compile calls inductor, which has no code for this device.",
        "Use xla.compile(model).",
        "XLA508",
    ),
)
