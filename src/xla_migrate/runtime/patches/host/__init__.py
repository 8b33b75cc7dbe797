"""Changes of what the host does: arrays of numpy, log records."""
