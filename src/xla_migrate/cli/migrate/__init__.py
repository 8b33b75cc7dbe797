"""`xla-migrate PATH...` and `xla-migrate check PATH...`: files in, reports and new sources out."""
