"""Where values read from the device go, and how they are read later."""
