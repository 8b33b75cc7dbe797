"""Does the migrated script run as XLA should: compilations, launches, reads, and the time of its steps."""
