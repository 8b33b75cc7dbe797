"""Which operations a target has kernels for, and what a script that was traced uses of the others."""
