"""Objects that are told values: trackers of libraries, and loggers of the project's own."""
