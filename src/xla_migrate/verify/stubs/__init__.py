"""Reference implementations of CUDA-only packages, for the redirected run of an original.

Each follows the package's own formulas and *defaults* (a FusedAdam without arguments has no weight
decay, torch's AdamW has), since differing defaults are what a migration most easily gets wrong. They
are found by `redirect.packages`; nothing else imports them.
"""
