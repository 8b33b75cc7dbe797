"""Code for one kind of machine: compiling, profiling, tuning, launching."""
