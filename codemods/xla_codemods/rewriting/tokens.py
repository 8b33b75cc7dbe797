"""Tokens of code, also of a part of a statement."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Iterator

_FSTRING_START = getattr(tokenize, "FSTRING_START", None)
_FSTRING_END = getattr(tokenize, "FSTRING_END", None)
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


def code_tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    """Yield the tokens outside f-strings, up to the first that is wrong: the rest of a statement may be missing."""
    strings = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == _FSTRING_START:
                strings += 1
            elif token.type == _FSTRING_END:
                strings -= 1
            elif not strings:
                yield token
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return


def opens(token: tokenize.TokenInfo) -> bool:
    """Return True if `token` is an opening bracket."""
    return token.type == tokenize.OP and token.string in _OPENING


def closes(token: tokenize.TokenInfo) -> bool:
    """Return True if `token` is a closing bracket."""
    return token.type == tokenize.OP and token.string in _CLOSING
