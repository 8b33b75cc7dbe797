"""Follow values read from the device, and defer the reads."""
