"""The table of compiler and runtime options: a row for each, with what it becomes on each kind of machine.

Sources, named in the rows:

- NCC: Neuron Compiler CLI reference, compiler/neuronx-cc/api-reference-guide of the documentation of Neuron 2.32.
- CACHE: Neuron Persistent Cache, about-neuron/arch/neuron-features/neuron-caching, the same release.
- ENV: PyTorch NeuronX environment variables, archived in the same release (archive/nxd-training/torch-neuron-envvars).
- NRT: Neuron Runtime configuration, neuron-runtime/guides/configuration-guide.
- LNC: Logical NeuronCores, about-neuron/arch/neuron-features/logical-neuroncore-config.
- EFFORT: OpenXLA's docs/effort_levels.md. That libtpu takes the levels as flags was tried: libtpu 0.0.21 (the one of
  torch_xla 2.9) accepts `--xla_optimization_level=EFFORT_O1` in LIBTPU_INIT_ARGS, compiles as with the compile option of
  that name (temporary memory 13 MiB in place of 0), and ends the process at a flag that it does not know.
- XLA: OpenXLA's debug options; the effect of level 0 on XLA:CPU was measured (compiling -71 %, steps 0 to 38 % slower).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Union

from .machines import CPU, NEURON, TPU

Value = Union[bool, int, str]

# Variables that hold flags, separated by spaces; every other variable holds one value.
FLAGS = ("NEURON_CC_FLAGS", "LIBTPU_INIT_ARGS", "XLA_FLAGS")
# Other spellings that the compilers take, by variable.
ALIASES = {"NEURON_CC_FLAGS": {"-O": "--optlevel", "-lnc": "--logical-nc-config"}}


class Becomes(NamedTuple):
    """The form of an option on one kind of machine.

    `form` is the flag or the value, with `{}` for the option's value, or a table of those by value. `values` are those
    that are allowed there (none: any); `default` is what holds if nothing is set.
    """

    variable: str
    form: str | Mapping[Value, str]
    source: str
    values: tuple[Value, ...] = ()
    default: str = ""

    def text(self, value: Value) -> str:
        """The flag or value for `value`; empty where nothing needs to be set."""
        if not isinstance(self.form, str):
            return self.form.get(value, "")
        return self.form.format(int(value) if isinstance(value, bool) else value)


class Option(NamedTuple):
    """A row. `absent` says why nothing of the kind is set on a kind of machine; `only` names the machines that have it.

    `needs`: (key, values) of another option without which this one does nothing.
    """

    key: str
    type: type
    help: str
    becomes: Mapping[str, tuple[Becomes, ...]]
    absent: Mapping[str, str] = {}
    only: tuple[str, ...] = ()
    needs: tuple[str, tuple[Value, ...]] | None = None


_CC, _TPU, _XLA = FLAGS
_NO_CASTS = (
    "XLA has no such option: cast in the script (`xla.autocast`, `model.to(torch.bfloat16)`)"
)
_NEURON_ONLY = "an option of Neuron's compiler or runtime; there is no counterpart"

OPTIONS = (
    Option(
        "optimization",
        int,
        "how much work the compiler does for the speed of the steps",
        {
            NEURON: (Becomes(_CC, "--optlevel={}", "NCC", (1, 2, 3), "2"),),
            TPU: (
                Becomes(
                    _TPU,
                    "--xla_optimization_level=EFFORT_O{}",
                    "EFFORT",
                    (0, 1, 2, 3),
                    "the compiler chooses",
                ),
            ),
            CPU: (Becomes(_XLA, "--xla_backend_optimization_level={}", "XLA", (0, 1, 2, 3), "3"),),
        },
    ),
    Option(
        "memory-fitting",
        int,
        "how hard the compiler tries to fit the program into the device's memory",
        {
            TPU: (
                Becomes(
                    _TPU,
                    "--xla_memory_fitting_level=EFFORT_O{}",
                    "EFFORT",
                    (0, 1, 2, 3),
                    "the compiler chooses",
                ),
            )
        },
        {
            NEURON: "Neuron's compiler has no such level",
            CPU: "the host's memory is not planned for",
        },
    ),
    Option(
        "model-type",
        str,
        "lets the compiler use what it knows of a kind of model",
        {
            NEURON: (
                Becomes(
                    _CC,
                    "--model-type={}",
                    "NCC",
                    ("generic", "transformer", "unet-inference"),
                    "generic",
                ),
            )
        },
        {TPU: _NEURON_ONLY, CPU: _NEURON_ONLY},
    ),
    Option(
        "distribution-strategy",
        str,
        "optimizations for training that shards parameters, gradients and optimizer states",
        {
            NEURON: (
                Becomes(_CC, "--distribution-strategy={}", "NCC", ("llm-training",), "generic"),
            )
        },
        {TPU: _NEURON_ONLY, CPU: _NEURON_ONLY},
    ),
    Option(
        "auto-cast",
        str,
        "which float32 operations the compiler computes in a smaller type; may change results",
        {NEURON: (Becomes(_CC, "--auto-cast={}", "NCC", ("none", "matmult", "all"), "none"),)},
        {TPU: _NO_CASTS, CPU: _NO_CASTS},
    ),
    Option(
        "auto-cast-type",
        str,
        "the type that they are computed in; fp8_e4m3 has 3 bits of mantissa and a small range",
        {
            NEURON: (
                Becomes(
                    _CC,
                    "--auto-cast-type={}",
                    "NCC",
                    ("bf16", "fp16", "tf32", "fp8_e4m3"),
                    "bf16",
                ),
            )
        },
        {TPU: _NO_CASTS, CPU: _NO_CASTS},
        needs=("auto-cast", ("matmult", "all")),
    ),
    Option(
        "mixed-precision-accumulation",
        bool,
        "sums inside softmax, layer norm and the like in float32",
        {
            NEURON: (
                Becomes(
                    _CC,
                    {
                        True: "--enable-mixed-precision-accumulation",
                        False: "--disable-mixed-precision-accumulation",
                    },
                    "NCC",
                    default="true",
                ),
            )
        },
        {TPU: _NEURON_ONLY, CPU: _NEURON_ONLY},
    ),
    Option(
        "saturate-infinity",
        bool,
        "infinities become the largest float in transposes that the compiler adds: guards against NaN",
        {NEURON: (Becomes(_CC, {True: "--enable-saturate-infinity"}, "NCC", default="false"),)},
        {TPU: _NEURON_ONLY, CPU: _NEURON_ONLY},
        ("trn1", "trn1n", "inf2"),
    ),
    Option(
        "logical-cores",
        int,
        "how many physical NeuronCores are one device; compiler and runtime must agree",
        {
            NEURON: (
                Becomes(_CC, "--logical-nc-config={}", "NCC, LNC", (1, 2), "2"),
                Becomes("NEURON_LOGICAL_NC_CONFIG", "{}", "LNC", (1, 2), "2"),
            )
        },
        {TPU: _NEURON_ONLY, CPU: _NEURON_ONLY},
        ("trn2",),
    ),
    Option(
        "stochastic-rounding",
        bool,
        "rounds to smaller types at random instead of to the nearest: small updates of bfloat16 weights survive",
        {NEURON: (Becomes("NEURON_RT_STOCHASTIC_ROUNDING_EN", "{}", "ENV", default="0"),)},
        {
            TPU: "a TPU's optimizer step has no such mode: keep float32 weights",
            CPU: "XLA:CPU rounds to the nearest: the rehearsal differs from Trainium in this",
        },
    ),
    Option(
        "stochastic-rounding-seed",
        int,
        "the seed of stochastic rounding: use the same seed for runs that you want to compare",
        {NEURON: (Becomes("NEURON_RT_STOCHASTIC_ROUNDING_SEED", "{}", "ENV", default="0"),)},
        {TPU: _NEURON_ONLY, CPU: _NEURON_ONLY},
        needs=("stochastic-rounding", (True,)),
    ),
    Option(
        "cache",
        str,
        "where compiled graphs are kept from one start to the next; on Neuron a folder or s3://BUCKET/PATH",
        {
            NEURON: (
                Becomes(
                    "NEURON_COMPILE_CACHE_URL",
                    "{}",
                    "CACHE, ENV",
                    default="/var/tmp/neuron-compile-cache",
                ),
            ),
        },
        {
            TPU: "torch_xla 2.9 writes its cache on a TPU but cannot read it back (pytorch/xla issue 9094)",
            CPU: "torch_xla writes its cache on XLA:CPU but cannot read it back (measured)",
        },
    ),
    Option(
        "retry-failed",
        bool,
        "compiles graphs again that the cache marks as failed",
        {NEURON: (Becomes(_CC, {True: "--retry_failed_compilation"}, "CACHE", default="false"),)},
        {TPU: "torch_xla's cache holds no failures", CPU: "there is no cache that can be read"},
    ),
    # What these two become depends on one another: see `environment`.
    Option("devices", int, "devices of one host that train", {}),
    Option(
        "launcher",
        str,
        "what starts the processes: torchrun, spawn (the script itself, by `xla.launch`), or spmd (one process)",
        {},
    ),
    # These two are for launch files and SageMaker: no process receives them.
    Option("image", str, "the container image that training runs in", {}),
    Option("instance", str, "the type of instance, such as ml.trn1.32xlarge", {}),
)
LAUNCHERS = ("torchrun", "spawn", "spmd")
TABLE = {option.key: option for option in OPTIONS}
