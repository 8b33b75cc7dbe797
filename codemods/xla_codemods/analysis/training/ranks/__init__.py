"""Ranks: tests of the rank, names that hold one, and code that one process runs alone."""
