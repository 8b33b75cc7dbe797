"""Errors and symptoms that users of torch_xla, Neuron, native TPU and the runtime meet, with cause and fix."""
