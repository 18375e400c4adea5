"""Move memory between two processes on the best available path.

key = generate_key()                                     # both sides need it
with listen("10.0.0.1", key=key, gpu=0) as listener:     # in one process
    connection = listener.accept()
connection = connect("10.0.0.1", port, key=key, gpu=1)   # in the other process
connection.send(tensor).wait(timeout=10)
connection.recv(tensor).wait(timeout=10)
"""

from gdrkit.transport.buffers import Buffer, buffer
from gdrkit.transport.connection import Connection
from gdrkit.transport.errors import (
    AuthenticationFailed,
    IntegrityFailed,
    PathUnavailable,
    PeerLost,
    RegistrationFailed,
    RemoteRefused,
    TimedOut,
    TransportError,
)
from gdrkit.transport.handshake import generate_key
from gdrkit.transport.mapped import HostMapped, host_mapped
from gdrkit.transport.path_names import PATHS
from gdrkit.transport.path_options import PathOption, PathReason, paths
from gdrkit.transport.rendezvous import Listener, connect, listen
from gdrkit.transport.transfer import Transfer
from gdrkit.transport.window import Window

__all__ = [
    "PATHS",
    "AuthenticationFailed",
    "Buffer",
    "Connection",
    "HostMapped",
    "IntegrityFailed",
    "Listener",
    "PathOption",
    "PathReason",
    "PathUnavailable",
    "PeerLost",
    "RegistrationFailed",
    "RemoteRefused",
    "TimedOut",
    "Transfer",
    "TransportError",
    "Window",
    "buffer",
    "connect",
    "generate_key",
    "host_mapped",
    "listen",
    "paths",
]
