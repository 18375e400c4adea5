"""What can go wrong between two processes. Each error says what happened, on which side, and what was
seen.
"""

from __future__ import annotations


class TransportError(Exception):
    """Any failure of this package."""


class AuthenticationFailed(TransportError):
    """The other side does not hold the key, or is not a gdrkit transport at all."""


class PeerLost(TransportError):
    """The other process is gone, or closed the connection, with work outstanding."""


class TimedOut(TransportError):
    """The time given has passed. The connection cannot be used afterwards: half a message may be in it."""


class IntegrityFailed(TransportError):
    """The bytes that arrived are not those that were sent."""


class RegistrationFailed(TransportError):
    """No path takes this memory; the message has each attempt with its errno."""


class PathUnavailable(TransportError):
    """The path that was asked for cannot be had here; the message says why."""


class RemoteRefused(TransportError):
    """The other side refused a read or write: no such region, out of bounds, or not allowed."""
