"""NCCL's settings for everybody on a machine. PURE."""

from __future__ import annotations

from collections.abc import Mapping

from gdrkit.node import Node, fact, otherwise

PATH = "etc/nccl.conf"


@fact
def nccl_conf(node: Node) -> Mapping[str, str]:
    """What /etc/nccl.conf sets: `NAME=value` lines; # starts a comment. Empty where there is no such file.

    A job's own environment outranks it. Source: NCCL src/misc/param.cc, setEnvFile()."""
    settings: dict[str, str] = {}
    for line in otherwise(lambda: node.text(PATH), "").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            settings.setdefault(name.strip(), value.strip())
    return settings
