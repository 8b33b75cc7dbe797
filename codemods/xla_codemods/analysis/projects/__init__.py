"""What the modules of a project say of each other: who imports whom, and what a name of another module stands for."""
