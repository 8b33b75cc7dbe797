"""An internal error as one line, with the place in the sources."""

from __future__ import annotations


def internal_error(error: Exception, verbose: bool) -> str:
    """Return one line about an error. If `verbose`, print the traceback to standard error."""
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
