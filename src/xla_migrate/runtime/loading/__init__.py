"""The device loader: batches read ahead, and moved whole."""
