"""Gradient scalers: where they are used, and what is left without them."""
