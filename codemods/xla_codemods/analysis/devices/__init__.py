"""What names a device, where it stands, and which branches hang on one."""
