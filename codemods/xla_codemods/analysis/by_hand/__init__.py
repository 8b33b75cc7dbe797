"""Code written by hand for torch_xla."""
