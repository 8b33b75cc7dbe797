"""Loops, loaders, optimizer steps, and what happens in each turn."""
