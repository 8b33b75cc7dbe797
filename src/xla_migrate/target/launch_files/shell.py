"""Shell scripts, SLURM's too: variables, installations, containers and launchers, command by command."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from xla_codemods.analysis.commands.launchers import commands

from .codes import GPU_RESOURCE
from .found import Found, Wanted
from .shell_arrays import expanded, holder_of, kept_arguments
from .shell_commands import in_command

_DIRECTIVE = re.compile(
    r"^#SBATCH[ \t]+(?P<what>(?:--gpus(?:-per-(?:node|task|socket))?|-G|--gres)(?:=|[ \t]+)?\S*)",
    re.MULTILINE,
)


# `aws sagemaker create-training-job --resource-config InstanceType=ml.p4d.24xlarge,...`, in JSON too.
_SAGEMAKER = re.compile(r"InstanceType[\"']?[=:][ \t]*[\"']?(?P<type>ml\.[pg]\d\w*\.\w+)")


def check(text: str, wanted: Wanted) -> Iterator[Found]:
    """Findings in the text of a shell script."""
    for directive in _DIRECTIVE.finditer(text):
        what = directive["what"]
        if "gres" not in what or "gpu" in what:
            message = f"`{what}` requests GPUs from SLURM: request XLA devices by your cluster's name for them"
            yield Found(GPU_RESOURCE, *directive.span("what"), message)
    for instance in _SAGEMAKER.finditer(text):
        message = f"{instance['type']} has GPUs: request a Trainium instance for a training job on XLA devices"
        yield Found(GPU_RESOURCE, *instance.span("type"), message)
    yield from _in_commands(text, wanted)


def _in_commands(text: str, wanted: Wanted) -> Iterator[Found]:
    """Yield the findings in the commands of a script.

    A fix in an array that several commands read is left out unless it is right for all of them.
    """
    kept = kept_arguments(text)
    found: Counter[Found] = Counter()
    readers: Counter[str] = Counter()
    for command in commands(text):
        given = expanded(command, kept)
        readers.update(given.names)
        found.update(set(in_command(command, text, wanted, given.words)))
    for one, count in found.items():
        holder = holder_of(one.start, kept)
        is_for_all = count == readers[holder] if holder else True
        yield one if is_for_all else one._replace(edits=())
