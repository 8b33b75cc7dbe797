"""Tests for CUDA and of devices: what they compare, what sets flags, and their results on XLA."""
