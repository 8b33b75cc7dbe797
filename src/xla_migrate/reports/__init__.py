"""Reports of a run's results, as text for users and as data for programs."""
