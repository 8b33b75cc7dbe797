"""`xla-migrate run`: a training that dies is started again from its last whole checkpoint."""
