"""Code that runs on CUDA only, and the tests that choose it."""
