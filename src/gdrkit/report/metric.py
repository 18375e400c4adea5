"""Metrics for Prometheus: names, labels and values, before they are written as text.

Names are as Prometheus recommends: a prefix, base units, `_info` for what has no number. A state has one
series for each value that it can have, 1 for the one that holds, so that an alert never waits for one.
Source: https://prometheus.io/docs/practices/naming/, https://prometheus.io/docs/practices/instrumentation/.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gdrkit import __version__


class Metric(Struct, frozen=True, kw_only=True):
    """A metric with its series: the values of its labels, and a number."""

    name: str
    help: str
    labels: tuple[str, ...]
    series: tuple[tuple[tuple[str, ...], float], ...]


def gauge(
    name: str, help_text: str, labels: Iterable[str], series: Iterable[tuple[tuple[str, ...], float]]
) -> Metric:
    """A metric of some series."""
    return Metric(name=name, help=help_text, labels=tuple(labels), series=tuple(series))


def states(
    name: str,
    help_text: str,
    labels: Iterable[str],
    possible: Iterable[str],
    rows: Iterable[tuple[tuple[str, ...], str]],
) -> Metric:
    """A metric with a series for each possible state of each row, 1 for the state that it has.

    The last label is the state."""
    every = tuple(possible)
    return gauge(
        name,
        help_text,
        labels,
        (((*values, str(one)), float(one == state)) for values, state in rows for one in every),
    )


def info(name: str, help_text: str, labels: Iterable[str], rows: Iterable[tuple[str, ...]]) -> Metric:
    """A metric whose labels are what it says; its value is always 1."""
    return gauge(name, help_text, labels, ((values, 1.0) for values in rows))


def build_info() -> Metric:
    """Which gdrkit wrote the metrics."""
    return info("gdr_build_info", "Version of gdrkit.", ("version",), [(__version__,)])
