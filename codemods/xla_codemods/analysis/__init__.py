"""The analysis of one file, from its text to its training loops; rules use it through `script`."""
