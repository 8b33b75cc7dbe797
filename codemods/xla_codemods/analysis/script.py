"""The model of one training script: what rules ask about the file they look at."""

from __future__ import annotations

from functools import cached_property

from .devices.literals import DeviceLiterals
from .devices.specs import Devices
from .frameworks.hooks import called_in_steps
from .parsed_file import ParsedFile
from .training.training import Training


class Script(ParsedFile):
    """A parsed file with its devices and its training loops."""

    @cached_property
    def trains(self) -> bool:
        """True if gradients are computed or applied in this file."""
        return bool(
            self.index.calls_of("backward")
            or self.index.calls_of("zero_grad")
            or self.training.steps
        )

    @cached_property
    def is_trained(self) -> bool:
        """True if this file trains, by itself or in a framework's loop, or a program that trains on an accelerator loads it."""
        return self.trains or self.is_part_of_training or bool(called_in_steps(self))

    @cached_property
    def devices(self) -> Devices:
        """The devices that the script names, and the names that stand for one."""
        return self.cached(Devices)

    @cached_property
    def device_literals(self) -> DeviceLiterals:
        """The strings and numbers that name a device, each with what it is used for."""
        return self.cached(DeviceLiterals)

    @cached_property
    def training(self) -> Training:
        """The loops that train and evaluate, and where their steps are."""
        return self.cached(Training)
