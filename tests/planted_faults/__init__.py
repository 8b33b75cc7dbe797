"""Faults planted in copies of the sources, to see which tests catch each: see `__main__`."""
