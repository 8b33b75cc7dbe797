"""A script's graphs, compiled by the real TPU compiler for chips that are not there.

`session.compile_script` does all of it; `judged.judged` is for a proof that shows it. `child` runs in the script's
process, `worker` in the compiler's.
"""
