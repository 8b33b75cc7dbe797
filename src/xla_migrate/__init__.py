"""Migrate CUDA PyTorch training scripts to XLA devices, and prove that they train the same."""

__version__ = "0.1.0"
