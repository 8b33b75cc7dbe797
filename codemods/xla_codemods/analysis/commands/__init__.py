"""Commands that start a training: their words, wherever they are written, and launchers that are for GPUs."""
