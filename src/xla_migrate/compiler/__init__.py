"""Options of the compilers and runtimes behind torch_xla, under one name each for every machine.

`options` is the table, `machines` what it holds for, `profile` reads a user's choice, `environment` makes it the
variables that a process must be started with. Imports the standard library only: settings, commands and the runtime
all ask it.
"""
