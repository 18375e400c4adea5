"""The receiving side of a proof, and the constants of its protocol. Standard library only, as it is sent
to other nodes.

The receiver does not read the bytes until the sender requests their CRC: before that its host memory is
searched for them, and reading GPU memory would copy them there.
"""

from __future__ import annotations

import ctypes

from gdrkit.transport import Buffer, Connection
from gdrkit.transport.measure.sweep import SweepMemory
from gdrkit.transport.native.cuda import cuda

WAIT_SECONDS = 120.0
REGISTRATION_BYTES, CRC_BYTES = 16, 4


def follow(connection: Connection, memory: SweepMemory, size_bytes: int, rounds: tuple[int, ...]) -> None:
    """Receive `rounds[0]` messages as a warm-up, then each further round into cleared memory. Raises
    TransportError.
    """
    what = memory.take(size_bytes)
    registration = connection.register(what).encode("ascii").ljust(REGISTRATION_BYTES)
    connection.send(registration).wait(WAIT_SECONDS)
    for count in rounds:
        clear(what)
        connection.send(b"\0").wait(WAIT_SECONDS)
        for _ in range(count):
            connection.recv(what, stream=None).wait(WAIT_SECONDS)
        connection.send(b"\0").wait(WAIT_SECONDS)
    connection.recv(bytearray(1)).wait(WAIT_SECONDS)
    connection.send(what.crc32().to_bytes(CRC_BYTES, "little")).wait(WAIT_SECONDS)
    connection.recv(bytearray(1)).wait(WAIT_SECONDS)
    memory.give_back(what)


def clear(what: Buffer) -> None:
    """Set memory to zero, so that later contents must have been received."""
    if what.device is None:
        ctypes.memset(what.address, 0, what.size_bytes)
        return
    driver = cuda()
    driver.use(what.device)
    driver.call("cuMemsetD8_v2", what.address, 0, what.size_bytes)
    driver.call("cuStreamSynchronize", 0)
