"""XLA5xx: the optimizer step, step marks, and what laziness makes slow."""
