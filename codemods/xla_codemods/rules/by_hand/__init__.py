"""Code that was written for torch_xla by hand."""
