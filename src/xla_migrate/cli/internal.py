"""Errors that are ours: told in one line, with the place in our sources."""

from __future__ import annotations


def told(error: Exception, verbose: bool) -> str:
    """One line on `error`; where `verbose`, all of it goes to standard error."""
    import traceback

    if verbose:
        traceback.print_exc()
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = last.filename.replace("\\", "/").rpartition("/")[2]
    what = " ".join(str(error).split())
    return (
        f"internal error: {type(error).__name__}: {what} at {place}:{last.lineno}; "
        "please report it (--verbose shows more)"
    )
