"""What a run found out, for people and for programs."""
