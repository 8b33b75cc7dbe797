"""Devices that come from outside the code: a command line, a file of settings, the environment."""
