"""Profiles of training on the device: a trace with a marker per step, and an account of the time."""
