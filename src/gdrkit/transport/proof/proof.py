"""The path that known bytes took, judged by which counters moved and which did not.

The requested path does not count as evidence, and neither does speed. A path is proven when a reading
that can distinguish them contradicts every other possible path, and the readings that the path requires
were seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from gdrkit.transport.proof.evidence import CounterReading, MemorySearch, TrafficWindow, Trial
from gdrkit.transport.proof.table import (
    AMBIGUOUS_IF_MOVED,
    BURSTS,
    MOVED_AT_LEAST,
    MOVED_AT_MOST,
    REGISTRATION_COUNTERS,
    STILL_AT_MOST,
    KnownPath,
    Movement,
    SignalName,
    TakenPath,
    possible_paths,
)

Confidence = Literal["high", "medium", "none"]
_UNKNOWN: Literal["unknown"] = "unknown"


class Signal(Struct, frozen=True):
    """What a counter or the search showed, and a description."""

    name: SignalName
    did: Movement
    words: str


class PathProof(Struct, frozen=True, kw_only=True):
    """A verdict on one trial. `proven` False means inconclusive; then `claim` has the reason.

    `direct`: whether the bytes bypassed host memory; None if that does not apply, or is unknown.
    """

    proven: bool
    path: TakenPath | Literal[""]
    claim: str
    direct: bool | None
    confidence: Confidence
    decided_by: tuple[str, ...] = ()
    supported_by: tuple[str, ...] = ()
    open_paths: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    signals: tuple[Signal, ...] = ()


def judge(trial: Trial, control: Trial | None = None) -> PathProof:
    """The verdict on a trial. `control` moved host memory only: a GPU counter that moves there too is
    ignored.
    """
    signals = _signals(trial, control)
    if trial.bytes_right is not True:
        why = "differ from those that were sent" if trial.bytes_right is False else "were not compared"
        return _open(f"the received bytes {why}", (), signals)
    if trial.integrated:
        return _open("this GPU's memory is host memory, so the paths look the same", (), signals)
    excluded: dict[str, tuple[Signal, ...]] = {}
    left: list[KnownPath] = []
    for path in possible_paths(trial):
        if path.registered != trial.registered:
            continue
        against = tuple(_against(path, signals))
        if against:
            excluded[path.claim] = against
        else:
            left.append(path)
    if not left:
        return _open(_contradictory(excluded), (), signals)
    unseen = [name for name in left[0].required if signals[name].did == _UNKNOWN]
    if len(left) > 1:
        claims = tuple(path.claim for path in left)
        return _open(f"the readings fit more than one path: {'; '.join(claims)}", claims, signals)
    if unseen:
        words = "; ".join(signals[name].words for name in unseen)
        return _open(f"only {left[0].claim} remains, but is not shown: {words}", (left[0].claim,), signals)
    if missed := [
        name for name, does in left[0].expects.items() if signals[name].did not in (does, _UNKNOWN)
    ]:
        words = "; ".join(signals[name].words for name in missed)
        return _open(f"only {left[0].claim} remains, but does not fit: {words}", (left[0].claim,), signals)
    return _proven(left[0], trial, signals, excluded)


def _contradictory(excluded: dict[str, tuple[Signal, ...]]) -> str:
    if not excluded:
        return "no known path fits this kind of memory registration"
    return "the readings contradict every path: " + "; ".join(
        f"not {claim} ({against[0].words})" for claim, against in excluded.items()
    )


def _proven(
    path: KnownPath,
    trial: Trial,
    signals: dict[SignalName, Signal],
    excluded: dict[str, tuple[Signal, ...]],
) -> PathProof:
    fits = [name for name, does in path.expects.items() if signals[name].did == does]
    against = {signal.name for found in excluded.values() for signal in found}
    deciding = [name for name in fits if name in path.required or name in against]
    decided = [signals[name].words for name in deciding]
    if path.registered:
        decided.insert(0, f"our own registration: {path.registered}")
    return PathProof(
        proven=True,
        path=path.name,
        claim=path.claim,
        direct=_direct(path, trial),
        confidence="high" if len(fits) == len(path.expects) else "medium",
        decided_by=tuple(decided),
        supported_by=tuple(signals[name].words for name in fits if name not in deciding),
        limits=tuple(_limits(path, trial)),
        signals=tuple(signals.values()),
    )


def _direct(path: KnownPath, trial: Trial) -> bool | None:
    if path.registered in ("dmabuf", "peermem") and trial.registered_there not in ("dmabuf", "peermem"):
        return False
    return path.direct


def _limits(path: KnownPath, trial: Trial) -> Iterable[str]:
    if path.registered in ("dmabuf", "peermem"):
        yield "never run with a GPU and an RDMA NIC in one machine: expectations are from driver sources"
        if trial.registered_there not in ("dmabuf", "peermem"):
            yield f"the other end's memory is not accessed directly ({trial.registered_there or 'unknown'})"
    if not trial.one_node:
        yield "only this node's counters were read"
    if path.name in ("staged", "nic-staged"):
        yield "this is the path that gdr's own transport took; other programs may use another"
    if path.name == "nvlink":
        yield "does not show the path to a network"
    if path.name.startswith(("host", "nic-host")):
        yield "a control run: does not show anything about GPU memory"


def _open(why: str, claims: tuple[str, ...], signals: dict[SignalName, Signal]) -> PathProof:
    return PathProof(
        proven=False,
        path="",
        claim=f"inconclusive: {why}",
        direct=None,
        confidence="none",
        open_paths=claims,
        signals=tuple(signals.values()),
    )


def _against(path: KnownPath, signals: dict[SignalName, Signal]) -> Iterable[Signal]:
    """The signals that contradict a path."""
    for name, does in path.expects.items():
        signal = signals[name]
        if signal.did in (does, _UNKNOWN):
            continue
        if name not in AMBIGUOUS_IF_MOVED or signal.did == "still":
            yield signal


def _signals(trial: Trial, control: Trial | None) -> dict[SignalName, Signal]:
    """Every signal that a possible path mentions; unknown if it was not read."""
    names = {name for path in possible_paths(trial) for name in (*path.expects, *path.required)}
    found = {}
    for name in sorted(names - {"search"}):
        signal = _counted(name, trial)
        if control is not None and signal.did == "moved" and name.startswith(("nvlink", "pcie")):
            there = _counted(name, control)
            if there.did == "moved":
                signal = Signal(name, _UNKNOWN, f"{name}: also moves in the host memory control run")
        found[name] = signal
    return found | {"search": _searched(trial.search)}


def _searched(search: MemorySearch | None) -> Signal:
    if search is None or search.unreadable:
        why = search.unreadable if search else "not searched"
        return Signal("search", _UNKNOWN, f"the receiver's host memory: {why}")
    if search.found:
        count = "1 occurrence" if search.found == 1 else f"{search.found} occurrences"
        return Signal("search", "found", f"the known bytes are in the receiver's host memory ({count})")
    if search.unread_bytes:
        words = f"{search.unread_bytes} bytes of the receiver's host memory could not be read"
        return Signal("search", _UNKNOWN, words)
    size = f"{search.searched_bytes / 1e6:.0f} MB searched"
    return Signal("search", "none", f"the known bytes are not in the receiver's host memory ({size})")


def _counted(name: SignalName, trial: Trial) -> Signal:
    """One counter over all windows: it must do the same in each, in proportion to the bytes."""
    done: list[tuple[Movement, str]] = []
    idle = [(window, _reading(window, name)) for window in trial.windows if not window.bytes_moved]
    for window in trial.windows:
        if not window.bytes_moved:
            continue
        reading = _reading(window, name)
        if reading is None or reading.unreadable:
            return Signal(name, _UNKNOWN, f"{name}: {reading.unreadable if reading else 'not read'}")
        done.append(_moved(name, window, reading, idle))
    if not done:
        return Signal(name, _UNKNOWN, f"{name}: not read")
    if len({did for did, _ in done}) > 1:
        shares = " and ".join(words for _, words in done)
        return Signal(name, _UNKNOWN, f"{name}: not proportional to the bytes moved ({shares})")
    return Signal(name, done[-1][0], f"{name}: {', '.join(words for _, words in done)}")


def _moved(
    name: SignalName,
    window: TrafficWindow,
    reading: CounterReading,
    idle: list[tuple[TrafficWindow, CounterReading | None]],
) -> tuple[Movement, str]:
    delta = _delta(reading)
    if delta is None:
        return _UNKNOWN, "went backwards"
    if name in REGISTRATION_COUNTERS:
        return ("more" if delta > 0 else "still"), f"{delta:+d}"
    count = window.bytes_moved
    share = delta / count
    if reading.wraps_at and count * MOVED_AT_MOST >= reading.wraps_at:
        return _UNKNOWN, f"wraps at {reading.wraps_at} bytes, too soon for {count} bytes"
    rates = [
        (_delta(before) or 0) / max(span.seconds, 1e-3)
        for span, before in idle
        if before is not None and not before.unreadable
    ]
    if share <= STILL_AT_MOST:
        return "still", f"{share:.2f} N"
    others = BURSTS * max(rates, default=0.0) * window.seconds / count
    if share - others < MOVED_AT_LEAST <= share:
        return _UNKNOWN, f"{share:.2f} N, with other traffic of {max(rates) / 1e6:.0f} MB/s"
    if MOVED_AT_LEAST <= share <= MOVED_AT_MOST:
        return "moved", f"{share:.2f} N"
    return _UNKNOWN, f"{share:.2f} N, which is neither 0 nor N"


def _delta(reading: CounterReading) -> int | None:
    if reading.before is None or reading.after is None:
        return None
    if reading.after >= reading.before:
        return reading.after - reading.before
    return reading.after + reading.wraps_at - reading.before if reading.wraps_at else None


def _reading(window: TrafficWindow, name: SignalName) -> CounterReading | None:
    return next((reading for reading in window.readings if reading.counter == name), None)
