"""Codemods from CUDA PyTorch to XLA: source in, findings or source out.

Pure: no files are touched, torch is not imported, nothing is printed.
`check` reads the standard library's `ast` only; `migrate` loads libcst for the statements it edits.
"""
