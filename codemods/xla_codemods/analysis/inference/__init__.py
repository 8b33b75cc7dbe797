"""Infer the value of an expression: a module, an optimizer, a tensor on the device."""
