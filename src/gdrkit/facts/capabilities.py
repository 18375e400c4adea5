"""What the process that read the evidence may do: its capabilities, by /proc/self/status.

In a container, a job's processes have those of the container, so the collector's are the same. On a host,
jobs have others.
"""

from __future__ import annotations

import re

from gdrkit.formats.errors import FormatError
from gdrkit.node import Node, fact

SYS_ADMIN = 21  # include/uapi/linux/capability.h, CAP_SYS_ADMIN
STATUS = "proc/self/status"
USERS = "proc/self/uid_map"
EVERY_USER = ["0", "0", "4294967295"]
"""The map of the initial user namespace: user_namespaces(7)."""


@fact
def is_administrator(node: Node) -> bool:
    """Whether that process has CAP_SYS_ADMIN in the initial user namespace: what capable() asks."""
    found = re.search(r"^CapEff:\s*([0-9a-f]{1,16})$", node.text(STATUS), re.MULTILINE)
    if found is None:
        raise FormatError("no line `CapEff`")
    if not int(found[1], 16) >> SYS_ADMIN & 1:
        return False
    return node.text(USERS).split() == EVERY_USER
