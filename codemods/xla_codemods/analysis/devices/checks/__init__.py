"""Tests for CUDA: comparisons with the text of a device, and the names and strings in them."""
