"""All modules of a program: which module imports which, and which words each contains. Knows nothing about torch."""
