"""Positions and masks that change from step to step, in one graph."""
