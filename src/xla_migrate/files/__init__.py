"""Which files, how they are read and written back; notebooks, and what is remembered of an earlier run."""
