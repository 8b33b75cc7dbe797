"""Dockerfiles: images, variables, and the commands of RUN, CMD and ENTRYPOINT."""

from __future__ import annotations

import re
from collections.abc import Iterator

from xla_codemods.analysis.commands.launchers import Command, Word, commands, of_words

from .found import Edit, Found, Wanted
from .images import in_image
from .shell_commands import in_assignment, in_command, is_named, variable

# An instruction with the lines that continue it; comment lines between those belong to it.
_INSTRUCTION = re.compile(
    r"^[ \t]*(?P<name>[A-Za-z]+)[ \t]+(?P<rest>(?:[^\n\\]|\\(?!\r?\n)|\\\r?\n(?:[ \t]*#[^\n]*\n)*)*)",
    re.MULTILINE,
)
_FROM = re.compile(r"(?:--platform=\S+\s+)?(?P<image>[^\s$]\S*)(?:\s|$)")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_JOINT = re.compile(r"(?:\s|\\\r?\n)*&&(?:\s|\\\r?\n)*")
_PAIR = re.compile(r"(?P<name>\w+)(?:=|[ \t]+)(?P<value>\"[^\"]*\"|'[^']*'|\S*)")


def check(text: str, wanted: Wanted) -> Iterator[Found]:
    """Findings in the text of a Dockerfile."""
    stages = set()
    for instruction in _INSTRUCTION.finditer(text):
        name, start, end = instruction["name"].upper(), *instruction.span("rest")
        if name == "FROM":
            image = _FROM.match(instruction["rest"])
            if image and image["image"].lower() not in stages:
                found = in_image(image["image"], start + image.start("image"), wanted)
                yield from [found] if found else []
            named = re.search(r"\s+[Aa][Ss]\s+(\S+)", instruction["rest"])
            stages |= {named[1].lower()} if named else set()
        elif name in ("ENV", "ARG"):
            yield from _variables(text, start, end, wanted)
        elif name in ("RUN", "CMD", "ENTRYPOINT") and instruction["rest"].startswith("["):
            items = _STRING.finditer(text, start, end)
            words = [Word(item[1], *item.span(1)) for item in items]
            for command in of_words(words, text):
                yield from in_command(command, text, wanted)
        elif name in ("RUN", "CMD", "ENTRYPOINT"):
            alone = name == "RUN"
            all_commands = list(commands(_without_comments(text, start, end), start, end))
            for place, command in enumerate(all_commands):
                before = all_commands[place - 1].end if place else start
                is_last = place > 0 and place == len(all_commands) - 1
                joint = text[before : command.start] if is_last else ""
                while command.words[0].text.startswith("--") and len(command.words) > 1:
                    command = command._replace(words=command.words[1:])  # RUN's own options
                whole = alone and len(all_commands) == 1
                for found in _command(command, whole, instruction, text, wanted):
                    is_removed = found.edits == (Edit(command.start, command.end, "true"),)
                    if is_removed and _JOINT.fullmatch(joint):  # `a && true` is `a`
                        found = found._replace(edits=(Edit(before, command.end, ""),))
                    yield found


def _without_comments(text: str, start: int, end: int) -> str:
    """`text` with comment lines between continued ones blank, line end and all: Docker leaves them out."""
    comment = re.compile(r"(?<=\n)[ \t]*#[^\n]*\n")
    body = comment.sub(lambda found: " " * len(found[0]), text[start:end])
    return text[:start] + body + text[end:]


def _variables(text: str, start: int, end: int, wanted: Wanted) -> Iterator[Found]:
    old_form = re.compile(r"(\w+)[ \t]+(\S.*)").match(text, start, end)
    if old_form and "=" not in old_form[1] and "=" not in old_form[2].split()[0]:
        if is_named(old_form[1]):
            yield from variable(old_form[1], old_form[2].strip(), start, end, wanted)
        return
    for command in commands(text, start, end):
        for word in command.words:
            yield from in_assignment(word, wanted)
            name, _, value = word.text.partition("=")
            image = in_image(value.strip("\"'"), word.end - len(value.lstrip("\"'")), wanted)
            if image is not None and name.isidentifier():
                yield image


def _command(
    command: Command, whole: bool, instruction: re.Match[str], text: str, wanted: Wanted
) -> Iterator[Found]:
    """Findings in a command; where all of an instruction would go, the instruction goes."""
    for found in in_command(Command(command.words, False), text, wanted):
        if whole and found.edits == (Edit(command.start, command.end, "true"),):
            last = instruction.end() + (text[instruction.end() : instruction.end() + 1] == "\n")
            found = found._replace(edits=(Edit(instruction.start(), last, ""),))
        yield found
