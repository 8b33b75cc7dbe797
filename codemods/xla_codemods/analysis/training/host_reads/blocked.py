"""Why a value that is read in every step cannot be read later."""


class Blocked(Exception):
    """The text says what stands in the way, as the finding says it."""
