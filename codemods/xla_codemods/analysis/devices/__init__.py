"""Names of devices, the code around them, and the branches that depend on them."""
