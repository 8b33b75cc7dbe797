"""What may give another shape, and so another graph, in each step."""
