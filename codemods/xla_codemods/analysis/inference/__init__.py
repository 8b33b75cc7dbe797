"""What an expression may be: a module, an optimizer, a tensor on the device."""
