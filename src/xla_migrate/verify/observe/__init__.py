"""Code inside the training process: hooks, counters and their start-up.

Imported by `boot/sitecustomize.py` in every Python process that a verified script starts. It imports
torch only after the script does, and nothing else of xla_migrate than its neighbours here.
"""
