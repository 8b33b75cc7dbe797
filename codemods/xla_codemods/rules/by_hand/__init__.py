"""XLA010, XLA011: code that was written for torch_xla by hand."""
