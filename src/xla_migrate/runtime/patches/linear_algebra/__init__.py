"""Changes of decompositions of matrices, and of what is computed from them."""
