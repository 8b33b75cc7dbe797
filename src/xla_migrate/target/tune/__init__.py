"""`xla-migrate tune`: settings of the runtime and of the script tried against each other."""
