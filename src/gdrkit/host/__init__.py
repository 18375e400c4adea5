"""Where evidence is read from: this machine, or anything that a machine left behind. EDGE."""

from __future__ import annotations

from gdrkit.host.errors import TargetError
from gdrkit.host.live import LiveHost
from gdrkit.host.target import open_host

__all__ = ["LiveHost", "TargetError", "open_host"]
