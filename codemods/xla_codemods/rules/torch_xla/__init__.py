"""XLA012 to XLA019, XLA021: code that was written for torch_xla by hand, rewritten to the runtime: asked for by `--from torch_xla`."""
