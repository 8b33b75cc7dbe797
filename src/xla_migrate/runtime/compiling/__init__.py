"""Options of the device's compiler, and what its persistent cache knew."""
