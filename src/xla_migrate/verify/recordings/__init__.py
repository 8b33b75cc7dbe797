"""Runs of the original in a file, and the judgement of a migrated script by such a file.

`recording` is the file. `ordered` judges in a fixed order: data, initial weights, losses, modules.
"""
