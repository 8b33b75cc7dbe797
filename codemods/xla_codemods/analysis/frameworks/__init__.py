"""Arguments of frameworks (transformers, Lightning, accelerate), and the values that fail on XLA."""
