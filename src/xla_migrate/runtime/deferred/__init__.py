"""Values read after the step: deferred numbers, and calls that wait for them."""
