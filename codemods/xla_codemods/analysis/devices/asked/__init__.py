"""Questions for CUDA: what is asked of the text of a device, and the names and strings that it is compared with."""
