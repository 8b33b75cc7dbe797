"""Run a CUDA training script and its migrated copy, and compare them step by step."""

from .compare import Comparison, compare
from .exactly import Exact
from .failures import Failure
from .run import Progress, Run, run
from .verdict import Verdict

__all__ = ["Comparison", "Exact", "Failure", "Progress", "Run", "Verdict", "compare", "run"]
