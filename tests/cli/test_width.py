"""The text of `gdr doctor` is as wide as the terminal, within 60 to 200 columns."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

from gdrkit.agent.streams import visible
from tests.evidence_nodes import laid_down

GDR = [sys.executable, "-c", "import sys; from gdrkit.cli import main; sys.exit(main())"]
PLAIN = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR")}


def doctor(**streams):
    command = [*GDR, "doctor", str(laid_down("zgx-3285"))]
    return subprocess.run(command, **{"stdin": subprocess.DEVNULL, "timeout": 60, "env": PLAIN} | streams)


def widest(text: str) -> int:
    return max(map(len, text.splitlines()))


def on_a_terminal(columns: int) -> str:
    """What a terminal of that width shows, without its colours."""
    from rich.text import Text

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(
        [*GDR, "doctor", str(laid_down("zgx-3285"))], stdin=subprocess.DEVNULL, stdout=theirs, env=PLAIN
    )
    os.close(theirs)
    shown = b""
    while chunk := _read(ours):
        shown += chunk
    os.close(ours)
    process.wait(timeout=60)
    return Text.from_ansi(shown.decode().replace("\r\n", "\n")).plain


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # EIO: the other end is closed
        return b""


@pytest.mark.parametrize(("columns", "least", "most"), [(60, 50, 60), (120, 101, 120), (400, 150, 200)])
def test_the_text_fits_the_terminal(columns, least, most):
    shown = on_a_terminal(columns)
    assert "gpu-integrated" in shown and shown == visible(shown)
    assert least <= widest(shown) <= most


def test_a_pipe_has_100_columns_and_obeys_the_variable():
    piped = doctor(capture_output=True, text=True)
    assert 80 < widest(piped.stdout) <= 100
    told = doctor(capture_output=True, text=True, env={**PLAIN, "COLUMNS": "72"})
    assert 60 < widest(told.stdout) <= 72
    narrow = doctor(capture_output=True, text=True, env={**PLAIN, "COLUMNS": "20"})
    assert 50 < widest(narrow.stdout) <= 60
