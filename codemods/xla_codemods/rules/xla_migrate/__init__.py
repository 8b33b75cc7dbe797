"""XLA020: migrated scripts, rewritten to torch_xla's own calls where these do the same: asked for by `--style native`."""
