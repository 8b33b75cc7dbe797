"""What concerns one kind of machine: compiling, profiling, tuning, launching."""
