"""What the paths are called. It needs the standard library alone, as all that is sent to other machines."""

from __future__ import annotations

from typing import Literal, get_args

PathName = Literal["verbs", "peer", "shared", "tcp"]
PATHS: tuple[PathName, ...] = get_args(PathName)
"""Best first. `verbs` needs an RDMA device that both sides name, `peer` a GPU that both name."""
