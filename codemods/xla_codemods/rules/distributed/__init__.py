"""XLA6xx: several processes."""

from __future__ import annotations

from ...rule import Rule
from . import (
    backend_test,
    collective,
    data_parallel,
    fully_sharded,
    launch,
    one_process,
    process_group,
    rank_guard,
    single_process,
    spmd,
    sync_batch_norm,
    unsharded_loader,
    update_by_hand,
)

RULES: tuple[Rule, ...] = (
    process_group.RULE,
    collective.RULE,
    data_parallel.RULE,
    launch.RULE,
    single_process.RULE,
    rank_guard.RULE,
    unsharded_loader.RULE,
    backend_test.RULE,
    sync_batch_norm.RULE,
    fully_sharded.RULE,
    spmd.RULE,
    one_process.RULE,
    update_by_hand.RULE,
)
