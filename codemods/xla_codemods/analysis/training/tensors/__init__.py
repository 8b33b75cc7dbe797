"""Which tensors live on the device, and how they were computed."""
