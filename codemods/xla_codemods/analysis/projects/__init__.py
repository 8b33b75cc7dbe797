"""Facts from the other modules of a project: imports, and the meaning of a name of another module."""
