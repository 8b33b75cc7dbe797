"""Models whose sharding or stages need manual changes, and the training steps that depend on them."""
