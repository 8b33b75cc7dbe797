"""Run a CUDA training script and its migrated copy, and compare them step by step.

The rooms, and who may ask whom:

- `experiments`: what is run, and why; starts processes, in copies of the project.
- `observe`, `redirect`, `stubs`: the code inside those processes. `redirect` may use `observe`, never the
  other way round; `observe.boot` puts them together.
- `judge`: verdicts over what the runs left behind. It starts nothing.
- `recordings`: a run in a file, and verdicts over it in a fixed order. It starts nothing.
- `report`: the outcome for a terminal, as a page and as JSON.

`experiments` asks `judge` and `recordings`; `recordings` asks `judge`; `report` asks `judge`; neither `judge` nor `report` asks the command or the codemods.
"""
