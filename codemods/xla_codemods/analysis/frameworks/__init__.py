"""What frameworks (transformers, Lightning, accelerate) are given, and which of it fails on XLA."""
