"""Code that may produce another shape, and so another graph, in each step."""
