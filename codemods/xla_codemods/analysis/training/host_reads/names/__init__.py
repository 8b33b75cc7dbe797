"""Who sees a value: what names and attributes are bound to and who reads them, callers, and who is handed a list."""
