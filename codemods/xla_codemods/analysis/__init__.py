"""What a file says, from its text to its training loops; rules ask it through `script`."""
