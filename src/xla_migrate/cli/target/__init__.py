"""Sub-commands about one kind of machine: compile, profile, tune, run, precompile, explain-target, sagemaker."""
