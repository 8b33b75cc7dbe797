"""Counters if nothing is counted: empty, as torch_xla's are before the first step."""

from __future__ import annotations

from ...devices import device_type


def metrics_report() -> str:
    return f"{device_type()} runs eagerly: no graphs are compiled, and nothing is counted\n"


def short_metrics_report(
    counter_names: list[str] | None = None, metric_names: list[str] | None = None
) -> str:
    return metrics_report()


def counter_names() -> list[str]:
    return []


def metric_names() -> list[str]:
    return []


def counter_value(name: str) -> int | None:
    return None


def metric_data(name: str) -> tuple[int, float, list[tuple[float, float]]] | None:
    return None


def executed_fallback_ops() -> list[str]:
    return []


def clear_all() -> None:
    """There is nothing to clear."""


clear_counters = clear_metrics = clear_all
