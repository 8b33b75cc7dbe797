"""Calls that log a value, and may run later: trackers, loggers of the project, functions that print."""
