"""Launch files: what a training is installed and started with, beside its Python.

`judge` tells the kind of a file and asks the module of that kind, which yields findings with edits of the text;
every byte outside of an edit stays. `codes` has the manuals, `packages` the table of requirements.
"""
