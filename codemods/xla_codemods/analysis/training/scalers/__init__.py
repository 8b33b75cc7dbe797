"""Gradient scalers: their uses, and the code that remains without them."""
