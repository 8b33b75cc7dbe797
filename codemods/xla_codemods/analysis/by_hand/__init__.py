"""What was written for torch_xla by hand."""
