"""State outside the optimizers: verdicts on how it changes, and the lines that write it."""
