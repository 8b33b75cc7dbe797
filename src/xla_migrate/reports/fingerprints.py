"""Fingerprints that recognise a finding when lines move: for baselines, and for services that read reports."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..results import Diagnostic


def fingerprints(rows: Iterable[Diagnostic]) -> list[str]:
    """One for each finding of a file: a hash of its code, its line's text, and which of the equal ones it is."""
    import hashlib

    seen: dict[tuple[str, str], int] = {}
    prints = []
    for row in rows:
        text = " ".join(row.text.split())
        occurrence = seen.get((row.code, text), 0)
        seen[row.code, text] = occurrence + 1
        key = f"{row.code}\0{text}\0{occurrence}".encode(errors="surrogatepass")
        prints.append(hashlib.blake2b(key, digest_size=10).hexdigest())
    return prints
