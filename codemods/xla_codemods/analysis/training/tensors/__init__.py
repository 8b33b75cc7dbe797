"""Tensors on the device, and how they were computed."""
