"""Values that something is decided on: by the device, behind the step, or in it."""
