"""Which process this is: tests of the rank, names that hold one, and what one process may do alone."""
