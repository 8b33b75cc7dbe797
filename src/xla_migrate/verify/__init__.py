"""Run a CUDA training script and its migrated copy, and compare them step by step."""
