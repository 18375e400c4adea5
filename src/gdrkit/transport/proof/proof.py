"""Which way known bytes went, judged by what moved and what did not.

The path that was asked for has no say, and neither has speed: a way is proven when every other one that is
possible is contradicted by a reading that can tell them apart, and its own marks were seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from gdrkit.transport.proof.evidence import CounterReading, MemorySearch, TrafficWindow, Trial
from gdrkit.transport.proof.table import (
    BURSTS,
    MOVED_AT_LEAST,
    MOVED_AT_MOST,
    NEVER_ALONE,
    STILL_AT_MOST,
    THINGS,
    KnownRoute,
    Movement,
    SignalName,
    WayName,
    ways,
)

Confidence = Literal["high", "medium", "none"]
_UNKNOWN: Literal["unknown"] = "unknown"


class Signal(Struct, frozen=True):
    """What a counter or the search did, and in words."""

    name: SignalName
    did: Movement
    words: str


class RouteProof(Struct, frozen=True, kw_only=True):
    """A verdict on one trial. `proven` False is inconclusive, and `claim` says why.

    `direct`: whether the bytes kept out of host memory; None where that is not the question, or not known.
    """

    proven: bool
    way: WayName | Literal[""]
    claim: str
    direct: bool | None
    confidence: Confidence
    decided_by: tuple[str, ...] = ()
    supported_by: tuple[str, ...] = ()
    open_ways: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    signals: tuple[Signal, ...] = ()


def judge(trial: Trial, control: Trial | None = None) -> RouteProof:
    """The verdict. `control` moved host memory: a GPU's counter that moves there as well tells nothing."""
    signals = _signals(trial, control)
    if trial.bytes_right is not True:
        why = "were not those that were sent" if trial.bytes_right is False else "were not compared"
        return _open(f"the bytes at the other end {why}", (), signals)
    if trial.integrated:
        return _open("this GPU's memory is host memory, so nothing tells the ways apart", (), signals)
    excluded: dict[str, tuple[Signal, ...]] = {}
    left: list[KnownRoute] = []
    for way in ways(trial):
        if way.registered != trial.registered:
            continue
        against = tuple(_against(way, signals))
        if against:
            excluded[way.claim] = against
        else:
            left.append(way)
    if not left:
        return _open(_contradictory(excluded), (), signals)
    unseen = [name for name in left[0].must if signals[name].did == _UNKNOWN]
    if len(left) > 1:
        claims = tuple(way.claim for way in left)
        return _open(f"what could be read does not tell apart: {', or '.join(claims)}", claims, signals)
    if unseen:
        words = "; ".join(signals[name].words for name in unseen)
        return _open(f"{left[0].claim} is left, and not shown: {words}", (left[0].claim,), signals)
    if missed := [
        name for name, does in left[0].expects.items() if signals[name].did not in (does, _UNKNOWN)
    ]:
        words = "; ".join(signals[name].words for name in missed)
        return _open(f"{left[0].claim} is left, and does not fit: {words}", (left[0].claim,), signals)
    return _proven(left[0], trial, signals, excluded)


def _contradictory(excluded: dict[str, tuple[Signal, ...]]) -> str:
    if not excluded:
        return "the memory is registered in a way that fits none of the ways known here"
    return "the readings contradict every way: " + "; ".join(
        f"not {claim} ({against[0].words})" for claim, against in excluded.items()
    )


def _proven(
    way: KnownRoute, trial: Trial, signals: dict[SignalName, Signal], excluded: dict[str, tuple[Signal, ...]]
) -> RouteProof:
    fits = [name for name, does in way.expects.items() if signals[name].did == does]
    against = {signal.name for found in excluded.values() for signal in found}
    deciding = [name for name in fits if name in way.must or name in against]
    decided = [signals[name].words for name in deciding]
    if way.registered:
        decided.insert(0, f"our own registration: {way.registered}")
    return RouteProof(
        proven=True,
        way=way.name,
        claim=way.claim,
        direct=_direct(way, trial),
        confidence="high" if len(fits) == len(way.expects) else "medium",
        decided_by=tuple(decided),
        supported_by=tuple(signals[name].words for name in fits if name not in deciding),
        limits=tuple(_limits(way, trial)),
        signals=tuple(signals.values()),
    )


def _direct(way: KnownRoute, trial: Trial) -> bool | None:
    if way.registered in ("dmabuf", "peermem") and trial.registered_there not in ("dmabuf", "peermem"):
        return False
    return way.direct


def _limits(way: KnownRoute, trial: Trial) -> Iterable[str]:
    if way.registered in ("dmabuf", "peermem"):
        yield "never run on a machine with a GPU beside an RDMA NIC: how its counters move is from sources"
        if trial.registered_there not in ("dmabuf", "peermem"):
            yield f"the other end's memory is not reached directly ({trial.registered_there or 'not known'})"
    if not trial.one_node:
        yield "only this node's counters were read"
    if way.name in ("staged", "nic-staged"):
        yield "this is the way of this program's own path; another program may take another"
    if way.name == "nvlink":
        yield "says nothing of the way to a network"
    if way.name.startswith(("host", "nic-host")):
        yield "a control run: says nothing of GPU memory"


def _open(why: str, claims: tuple[str, ...], signals: dict[SignalName, Signal]) -> RouteProof:
    return RouteProof(
        proven=False,
        way="",
        claim=f"inconclusive: {why}",
        direct=None,
        confidence="none",
        open_ways=claims,
        signals=tuple(signals.values()),
    )


def _against(way: KnownRoute, signals: dict[SignalName, Signal]) -> Iterable[Signal]:
    for name, does in way.expects.items():
        signal = signals[name]
        if signal.did in (does, _UNKNOWN):
            continue
        if name not in NEVER_ALONE or signal.did == "still":
            yield signal


def _signals(trial: Trial, control: Trial | None) -> dict[SignalName, Signal]:
    """Every signal that some way expects something of; unknown where it was not read."""
    names = {name for way in ways(trial) for name in (*way.expects, *way.must)}
    found = {}
    for name in sorted(names - {"search"}):
        signal = _counted(name, trial)
        if control is not None and signal.did == "moved" and name.startswith(("nvlink", "pcie")):
            there = _counted(name, control)
            if there.did == "moved":
                signal = Signal(name, _UNKNOWN, f"{name}: moves in the host memory control run as well")
        found[name] = signal
    return found | {"search": _searched(trial.search)}


def _searched(search: MemorySearch | None) -> Signal:
    if search is None or search.unreadable:
        why = search.unreadable if search else "not searched"
        return Signal("search", _UNKNOWN, f"the receiver's host memory: {why}")
    if search.found:
        places = "place" if search.found == 1 else "places"
        words = f"the known bytes stand in the receiver's host memory ({search.found} {places})"
        return Signal("search", "found", words)
    if search.unread_bytes:
        words = f"{search.unread_bytes} bytes of the receiver's host memory could not be read"
        return Signal("search", _UNKNOWN, words)
    size = f"{search.searched_bytes / 1e6:.0f} MB"
    return Signal("search", "none", f"the known bytes are nowhere in the receiver's host memory ({size})")


def _counted(name: SignalName, trial: Trial) -> Signal:
    """One counter over all windows: it has to do the same in each, whatever their size."""
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
        return Signal(name, _UNKNOWN, f"{name}: does not follow the bytes moved ({shares})")
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
    if name in THINGS:
        return ("more" if delta > 0 else "still"), f"{delta:+d}"
    count = window.bytes_moved
    share = delta / count
    if reading.wraps_at and count * MOVED_AT_MOST >= reading.wraps_at:
        return _UNKNOWN, f"wraps at {reading.wraps_at} bytes, too soon for {count}"
    rates = [
        (_delta(before) or 0) / max(span.seconds, 1e-3)
        for span, before in idle
        if before is not None and not before.unreadable
    ]
    if share <= STILL_AT_MOST:
        return "still", f"{share:.2f} N"
    others = BURSTS * max(rates, default=0.0) * window.seconds / count
    if share - others < MOVED_AT_LEAST <= share:
        return _UNKNOWN, f"{share:.2f} N, and moves by itself at {max(rates) / 1e6:.0f} MB/s"
    if MOVED_AT_LEAST <= share <= MOVED_AT_MOST:
        return "moved", f"{share:.2f} N"
    return _UNKNOWN, f"{share:.2f} N, which fits neither 0 nor 1"


def _delta(reading: CounterReading) -> int | None:
    if reading.before is None or reading.after is None:
        return None
    if reading.after >= reading.before:
        return reading.after - reading.before
    return reading.after + reading.wraps_at - reading.before if reading.wraps_at else None


def _reading(window: TrafficWindow, name: SignalName) -> CounterReading | None:
    return next((reading for reading in window.readings if reading.counter == name), None)
