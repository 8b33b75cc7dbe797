"""`xla-migrate profile`: a script under `runtime.profile`, without a change of it."""
