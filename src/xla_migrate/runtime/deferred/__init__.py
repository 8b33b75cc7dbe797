"""Values read after the step: numbers on their way, and calls that wait for them."""
