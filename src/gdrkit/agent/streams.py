"""The standard streams of a process that prints what strangers wrote. Runs on Python 3.8, alone.

A terminal obeys escape sequences from any source: a device that is named ESC ] 0 ; x BEL renames the
window, a carriage return overwrites a verdict, a bidirectional mark reorders a line (CVE-2021-42574). So
all text leaves through `SafeStream`, which shows such characters as escapes.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # typing takes longer to import than `gdr --help` takes
if TYPE_CHECKING:
    from typing import Any, Dict, Optional

_UNSAFE: Dict[int, str] = {
    **{
        number: f"\\x{number:02x}"
        for number in (*range(0x20), *range(0x7F, 0xA0))
        if chr(number) not in "\n\t"
    },
    **{
        number: f"\\u{number:04x}"
        for number in (0x61C, 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    },
}
"""C0, DEL and C1 of ECMA-48 but for newline and tab; the separators and bidirectional marks of Unicode."""

_IN_JSON: Dict[int, str] = {number: f"\\u{number:04x}" for number in _UNSAFE}


def visible(text: str) -> str:
    """The same text with every character that a terminal would obey as an escape: ESC as `\\x1b`. So is a
    byte of a file's name that is not UTF-8, which no encoding can hold: `\\udcff` (PEP 383)."""
    return text.translate(_UNSAFE).encode("utf-8", "backslashreplace").decode()


def visible_json(text: str) -> str:
    """The same JSON document with such characters as JSON's own escapes: nothing is lost."""
    return text.translate(_IN_JSON)


CLOSED = "the stream is closed"


class SafeStream:
    """Standard output or standard error. Never raises: `failure` is why text could not be written.
    `first_line` is the line that was written first."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.failure: Optional[OSError] = None
        self.first_line = ""

    @property
    def encoding(self) -> str:
        """That of the stream; UTF-8 if it has none or is closed."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        """Write text as `visible` shows it."""
        self.first_line = self.first_line or visible(text.strip().partition("\n")[0])
        return self._write(visible(text))

    def styled(self, text: str) -> int:
        """Write text that has colours of our own; what it quotes has passed `visible` already."""
        import re

        parts = re.split(r"(\x1b\[[0-9;]*m)", text)
        return self._write("".join(part if at % 2 else visible(part) for at, part in enumerate(parts)))

    def screen(self, text: str) -> int:
        """Write a part of a live screen: as `styled`, and what moves the cursor or erases (ECMA-48, CSI)."""
        import re

        parts = re.split(r"(\x1b\[\??[0-9;]*[A-HJKhlm]|\r)", text)
        return self._write("".join(part if at % 2 else visible(part) for at, part in enumerate(parts)))

    def status(self, text: str) -> None:
        """Replace the line on which the cursor is, on a terminal; "" clears it."""
        self._write(f"\r{visible(text)}\x1b[K")
        self.flush()

    def _write(self, text: str) -> int:
        def write() -> None:
            self._stream.write(text.encode(self.encoding, "replace").decode(self.encoding))

        if self._stream is None:
            self.failure = self.failure or OSError(9, CLOSED)
        elif self.failure is None:
            self._attempt(write)
        return len(text)

    def flush(self) -> None:
        if self.failure is None and self._stream is not None:
            self._attempt(self._stream.flush)

    def _attempt(self, action: Any) -> Any:
        """What an action on the stream returns; where it fails, None, and the failure is kept."""
        try:
            return action()
        except OSError as error:
            self.failure = error
        except ValueError:  # I/O operation on closed file
            self.failure = OSError(9, CLOSED)
        return None

    def give_up(self) -> None:
        """Where writing failed, let what is still buffered go nowhere when the interpreter ends."""
        if self.failure is not None and self._stream is not None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            self._attempt(lambda: os.dup2(nowhere, self._stream.fileno()))
            os.close(nowhere)

    def isatty(self) -> bool:
        return self._stream is not None and bool(self._attempt(self._stream.isatty))

    def __getattr__(self, name: str) -> Any:
        """`buffer`, `fileno` and the like are those of the stream itself."""
        if self._stream is None:
            raise OSError(9, CLOSED)
        return getattr(self._stream, name)
