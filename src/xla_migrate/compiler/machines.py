"""The machines that a profile of compiler options can be for.

Sources: the values of `--target` in the Neuron Compiler CLI reference (documentation of Neuron 2.32,
compiler/neuronx-cc/api-reference-guide); numbers of NeuronCores from its hardware pages; TPU names from Cloud TPU's.
"""

from __future__ import annotations

from typing import NamedTuple

NEURON, TPU, CPU = "neuron", "tpu", "cpu"


class Machine(NamedTuple):
    """One kind of machine.

    `kind` says whose compiler and runtime it has. `compiles_for` is the compiler's own name of it, where it can be
    told one; `pjrt` the value of PJRT_DEVICE.
    """

    name: str
    kind: str
    title: str
    compiles_for: str = ""

    @property
    def pjrt(self) -> str:
        """The value of PJRT_DEVICE."""
        return self.kind.upper()


MACHINES = {
    machine.name: machine
    for machine in (
        Machine("trn1", NEURON, "AWS Trainium", "trn1"),
        Machine("trn1n", NEURON, "AWS Trainium, with more network", "trn1n"),
        Machine("trn2", NEURON, "AWS Trainium2", "trn2"),
        Machine("inf2", NEURON, "AWS Inferentia2", "inf2"),
        Machine("neuron", NEURON, "whichever Neuron device is there"),
        Machine("v4", TPU, "Cloud TPU v4"),
        Machine("v5e", TPU, "Cloud TPU v5e"),
        Machine("v5p", TPU, "Cloud TPU v5p"),
        Machine("v6e", TPU, "Cloud TPU v6e"),
        Machine("tpu", TPU, "whichever TPU is there"),
        Machine("cpu", CPU, "XLA:CPU, for rehearsals"),
    )
}
