"""Find files, read them and write them back; notebooks, and the cache of earlier runs."""
