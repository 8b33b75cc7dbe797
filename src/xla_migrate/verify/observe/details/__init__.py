"""Details of a run's first steps: batches, inputs of models, outputs and gradients of modules, updates.

A recording holds these details, and a run that is checked against a recording measures the same.
"""
