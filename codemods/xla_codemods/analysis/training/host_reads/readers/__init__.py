"""Code that gets a deferred value: readers of names and attributes, callers, called functions."""
