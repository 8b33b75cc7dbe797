"""The meaning of each verdict, and the advice if it fails."""

from __future__ import annotations

from ..judge.judgement import Check

# Check -> (what it means, what to do where it fails).
_SENTENCES: dict[Check, tuple[str, str]] = {
    Check.SAME_STEPS: (
        "Both scripts take the same optimizer steps, after the same backward passes.",
        "Look for a step that is taken twice (optimizer_step() and optimizer.step()), or left out (gradient"
        " accumulation that counts differently, a loss scaler that skips).",
    ),
    Check.SAME_DATA: (
        "Both scripts train on the same batches, in the same order.",
        "Compare the data itself first: files, versions of packages that transform it, seeds, samplers, the number"
        " of processes.",
    ),
    Check.SAME_WEIGHTS: (
        "Both scripts begin with the same weights.",
        "Compare the order of random draws while the model is built, and the checkpoint that is loaded.",
    ),
    Check.NUMBERS: (
        "Losses, gradients and weights agree at every step, to the precision of float32.",
        "Start at the first difference: its quantity and line show what to compare. The usual cause is an"
        " order of calls, a batch, an option of the optimizer or a cast.",
    ),
    Check.BF16: (
        "In bfloat16, the migrated script's error relative to float32 is no larger than the original's.",
        "Look for operations that CUDA's autocast keeps in float32 and that now run in bfloat16: losses, norms, sums.",
    ),
    Check.MODULES: (
        "In the first steps, each module returns the same outputs and the same gradients of its inputs.",
        "Compare this module's code and options in both scripts: all of its inputs agree.",
    ),
    Check.OPTIMIZER_STEP: (
        "In the first steps, the optimizer computes the same updates as the original's optimizer from the same gradients.",
        "Compare the class and the options of the optimizer, clipping, and how gradients are averaged.",
    ),
    Check.OTHER_STATE: (
        "Everything else that training changes agrees: averaged weights, running statistics, counts.",
        "Look for an update that is lost or made twice: an EMA on copies, batch norm in evaluation, buffers that"
        " were replaced when the model moved.",
    ),
    Check.PRECISION: (
        "Half precision is used in both or in neither.",
        "Remove the cast or autocast that only the migrated script has, or compare with --precision bfloat16.",
    ),
    Check.METRIC: (
        "The metric that you named agrees to 0.1 %.",
        "If the losses agree and the metric does not, compare the evaluation: eval(), its data, its reduction.",
    ),
    Check.PRINTED: (
        "Both scripts print the same numbers, in the same order of each kind of line, and write the same log files.",
        "Compare the two lines above: usually a value is read at another time, an output is printed twice or never,"
        " or a sum begins elsewhere.",
    ),
    Check.DEVICE: (
        "The migrated script trains on an XLA device.",
        "Look for code that still chooses the CPU or CUDA: a device string, a flag, a check for CUDA.",
    ),
    Check.PERFORMANCE: (
        "How it runs is judged after the first steps.",
        "Run more steps (--steps).",
    ),
    Check.STATIC_SHAPES: (
        "Nothing is compiled after the first steps: all steps run the same graph.",
        "Make changing values constant: pad batches, drop the last batch, keep changing Python numbers out of the"
        " graph. Each new graph costs a compilation, minutes on a TPU or Trainium.",
    ),
    Check.BOUNDED_GRAPH: (
        "Each step's graph ends with the step, so graphs do not grow.",
        "Mark each step: xla.mark_step(), or a loader on the device.",
    ),
    Check.NO_FALLBACK: (
        "No operation falls back to the CPU.",
        "Replace the operation above: each one moves tensors to the host and back, in every step.",
    ),
    Check.LAUNCHES: (
        "The script launches no more graphs per step than necessary.",
        "Look for reads and marks in the middle of a step: each splits its graph in two.",
    ),
    Check.GRAPHS: (
        "The migrated script compiles no more graphs than --max-graphs allows.",
        "Change the line that causes most graphs: make the shape or number constant, or the branch the same in"
        " every step. Each graph is compiled once per start, which takes minutes on a TPU or Trainium.",
    ),
    Check.HOST_READS: (
        "The script waits for values of the device no more often than the original did.",
        "Move the read out of the step, or print less often: each one stops the device.",
    ),
}


def meaning(name: str) -> str:
    """Return the sentence for a passed check; "" if `name` is not a `Check`."""
    return _SENTENCES[name][0] if isinstance(name, Check) else ""


def advice(name: str) -> str:
    """Return the advice for a failed verdict."""
    return _SENTENCES[name][1] if isinstance(name, Check) else ""
