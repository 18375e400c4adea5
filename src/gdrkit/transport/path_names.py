"""The names of the paths. Standard library only, as for all code that is sent to other machines."""

from __future__ import annotations

from typing import Literal, get_args

PathName = Literal["verbs", "peer", "shared", "tcp"]
PATHS: tuple[PathName, ...] = get_args(PathName)
"""Best first. `verbs` requires both sides to name an RDMA device, `peer` to name a GPU."""
