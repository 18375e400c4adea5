"""A man in the middle of a connection: a proxy that sees and changes every byte between the two sides."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

from gdrkit.transport import Connection, connect, generate_key, listen
from gdrkit.transport.handshake import IDENTITY_BYTES, MAGIC, NONCE_BYTES, PROOF_BYTES
from gdrkit.transport.sealed_socket import TAG_BYTES

HANDSHAKE = (len(MAGIC) + NONCE_BYTES, PROOF_BYTES)
TO_LISTENER, TO_CONNECTOR = "to the listener", "to the connector"
CONNECTOR_SENDS = 2  # the third connection: data socket 1, on which the connector sends messages


class Intruder:
    """Forwards what it receives. `frame` may replace a control frame, `data` the bytes of a data socket;
    `seen` has the bytes of the data sockets in both directions.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self.frame: Callable[[str, bytes], list[bytes]] = lambda way, frame: [frame]
        self.data: Callable[[int, str, bytes], bytes] = lambda index, way, data: data
        self.seen = b""
        self.control: dict[str, socket.socket] = {}
        self._target, self._all = target, list[socket.socket]()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            index = 0
            while True:
                ours, _ = self._server.accept()
                theirs = socket.create_connection(self._target)
                self._all += [ours, theirs]
                if index == 0:
                    self.control = {TO_LISTENER: theirs, TO_CONNECTOR: ours}
                for way, source, to in ((TO_LISTENER, ours, theirs), (TO_CONNECTOR, theirs, ours)):
                    threading.Thread(target=self._pump, args=(index, way, source, to), daemon=True).start()
                index += 1

    def _pump(self, index: int, way: str, source: socket.socket, to: socket.socket) -> None:
        with contextlib.suppress(OSError), source.makefile("rb") as file:
            for size in HANDSHAKE if way == TO_CONNECTOR else (IDENTITY_BYTES, *HANDSHAKE):
                to.sendall(file.read(size))
            if index == 0:
                while head := file.read(4):
                    for frame in self.frame(way, head + file.read(int.from_bytes(head, "big") + TAG_BYTES)):
                        to.sendall(frame)
            while data := file.read1(1 << 16):
                data = self.data(index, way, data)
                self.seen += data
                to.sendall(data)
        with contextlib.suppress(OSError):
            to.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for sock in (self._server, *self._all):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()


@contextlib.contextmanager
def intruded(*, authenticate_data: bool = False) -> Iterator[tuple[Connection, Connection, Intruder]]:
    """The listener's and the connector's ends of a tcp connection, and the intruder between them."""
    key, made = generate_key(), list[Connection]()
    with listen("127.0.0.1", key=key, paths=("tcp",), authenticate_data=authenticate_data) as listener:
        intruder = Intruder(listener.address)
        thread = threading.Thread(
            target=lambda: made.append(
                connect("127.0.0.1", intruder.port, key=key, paths=("tcp",), timeout=20)
            )
        )
        thread.start()
        with listener.accept(20) as connection:
            thread.join(20)
            with made[0]:
                try:
                    yield connection, made[0], intruder
                finally:
                    intruder.close()
