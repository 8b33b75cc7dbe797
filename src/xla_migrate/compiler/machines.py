"""The machines that a profile of compiler options can be for.

Sources: the values of `--target` in the Neuron Compiler CLI reference (documentation of Neuron 2.32,
compiler/neuronx-cc/api-reference-guide); numbers of NeuronCores from its hardware pages; TPU names from Cloud TPU's.
"""

from __future__ import annotations

import re
from typing import NamedTuple

NEURON, TPU, CPU = "neuron", "tpu", "cpu"


class Machine(NamedTuple):
    """One kind of machine.

    `kind` says whose compiler and runtime it has. `compiles_for` is the compiler's own name of it, if it can be
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

# Instance types of EC2 and SageMaker, accelerator types of Cloud TPU and machine types of Compute Engine.
_EC2 = re.compile(r"(?:ml\.)?(?P<family>trn1n?|trn2|inf2)u?\.(?:\d+)?xlarge")
_ACCELERATOR = re.compile(r"(?P<chip>v4|v5e|v5litepod|v5p|v6e)-\d+")
_COMPUTE_ENGINE = re.compile(r"(?P<chip>ct4p|ct5lp|ct5l|ct5p|ct6e)-[a-z]+-\d+t")
_CHIPS = {
    "ct4p": "v4",
    "ct5l": "v5e",
    "ct5lp": "v5e",
    "ct5p": "v5p",
    "ct6e": "v6e",
    "v5litepod": "v5e",
}


def machine_of(name: str) -> str:
    """Return the machine that `name` says, also as an instance type: trn1 for trn1.32xlarge. Others are returned as given."""
    word = name.strip().lower()
    if found := _EC2.fullmatch(word):
        return found["family"]
    if found := _ACCELERATOR.fullmatch(word) or _COMPUTE_ENGINE.fullmatch(word):
        return _CHIPS.get(found["chip"], found["chip"])
    return word if word in MACHINES else name
