"""`python -m xla_migrate` is the command `xla-migrate`."""

import sys

from .cli import main

sys.exit(main())
