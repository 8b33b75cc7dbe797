"""Runs inside the script's own process: takes the graphs of what is pending, where torch_xla would run them.

torch_xla records operations and runs them where the script marks a step or needs a value. Each such place, a cut,
gives one graph. Here the graph is taken as text, and what was pending becomes a placeholder of the same shape, as if
it had been computed: nothing is compiled or run. A value that the script reads is answered by a constant.
"""
