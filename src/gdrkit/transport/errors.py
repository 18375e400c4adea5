"""The errors of a connection. Each message says what happened, on which side, and what was observed."""

from __future__ import annotations


class TransportError(Exception):
    """The base class of this package's errors."""


class AuthenticationFailed(TransportError):
    """The other side does not have the key, or is not a gdrkit transport."""


class PeerLost(TransportError):
    """The other process has died, or closed the connection while work was outstanding."""


class TimedOut(TransportError):
    """The timeout has expired. The connection is unusable afterwards: half a message may be in it."""


class IntegrityFailed(TransportError):
    """The received bytes differ from the sent bytes."""


class RegistrationFailed(TransportError):
    """The memory could not be registered on any path; the message lists each attempt with its errno."""


class PathUnavailable(TransportError):
    """The requested path is not available; the message gives the reason."""


class RemoteRefused(TransportError):
    """The other side refused a read or write: no such region, out of bounds, or not permitted."""
