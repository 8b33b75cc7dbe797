"""What each verdict means, and what to do where it fails."""

from __future__ import annotations

from ..judge.judgement import Check

# Check -> (what it means, what to do where it fails).
_SENTENCES: dict[Check, tuple[str, str]] = {
    Check.SAME_STEPS: (
        "Both scripts take the same optimizer steps, after the same backward passes.",
        "Look for a step that is taken twice (optimizer_step() and optimizer.step()), or left out (gradient"
        " accumulation that counts otherwise, a loss scaler that skips).",
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
        "Start at the first difference: its quantity and line say what to compare. An order of calls, a"
        " batch, an option of the optimizer or a cast usually lies behind it.",
    ),
    Check.BF16: (
        "In bfloat16 the migrated script errs no more, measured against float32, than the original does.",
        "Look for operations that CUDA's autocast keeps in float32 and that now run in bfloat16: losses, norms, sums.",
    ),
    Check.MODULES: (
        "In the first steps, each module returns the same and passes back the same gradients.",
        "Compare this module's code and options in both scripts: all of its inputs agree.",
    ),
    Check.OPTIMIZER_STEP: (
        "In the first steps, the optimizer makes of its gradients what the original's optimizer makes of them.",
        "Compare the class and the options of the optimizer, clipping, and how gradients are averaged.",
    ),
    Check.OTHER_STATE: (
        "What training changes beside the optimizer's steps agrees: averaged weights, running statistics, counts.",
        "Look for an update that is lost or made twice: an EMA on copies, batch norm in evaluation, buffers that"
        " were replaced when the model moved.",
    ),
    Check.PRECISION: (
        "Half precision is used in both or in neither.",
        "Remove the cast or autocast that only the migrated script has, or compare with --precision bfloat16.",
    ),
    Check.METRIC: (
        "The metric that you named agrees to 0.1 %.",
        "Where losses agree and the metric does not, compare the evaluation: eval(), its data, how it is reduced.",
    ),
    Check.PRINTED: (
        "Both scripts print the same numbers, in the same order of each kind of line, and write the same log files.",
        "Compare the two lines above: usually a value is read at another time, an output is printed twice or never,"
        " or a sum begins elsewhere.",
    ),
    Check.DEVICE: (
        "The migrated script trains on an XLA device.",
        "Look for what still chooses the CPU or CUDA: a device string, a flag, a check for CUDA.",
    ),
    Check.PERFORMANCE: (
        "How it runs is judged after the first steps.",
        "Ask for more steps: --steps.",
    ),
    Check.STATIC_SHAPES: (
        "After the first steps nothing is compiled any more: all steps run the same graph.",
        "Make what changes constant: pad batches, drop the last one, keep Python numbers that change out of the"
        " graph. Each new graph costs a compilation, minutes on a TPU or Trainium.",
    ),
    Check.BOUNDED_GRAPH: (
        "Each step's graph is cut at its end, so graphs do not grow.",
        "Mark each step: xla.mark_step(), or a loader on the device.",
    ),
    Check.NO_FALLBACK: (
        "No operation falls back to the CPU.",
        "Replace the operation above: each one moves tensors to the host and back, in every step.",
    ),
    Check.LAUNCHES: (
        "The device is given as few graphs per step as it can be.",
        "Look for reads and marks in the middle of a step: each cuts its graph in two.",
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
    """What to do where it fails."""
    return _SENTENCES[name][1] if isinstance(name, Check) else ""
