"""Changes of operations of torch: which kernels compute them, and where."""
