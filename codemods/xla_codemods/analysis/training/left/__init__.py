"""Models whose sharding, or stages, are left to a person, and the training steps that are left with them."""
