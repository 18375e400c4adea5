"""In a container: the owner of the host is asked."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.repair.platforms.action import AskPerson
from gdrkit.repair.remedies.remedy import Remedy


def carry_out(remedy: Remedy) -> Iterator[AskPerson]:
    """What to ask, and the command that collects the evidence, which needs no root."""
    yield AskPerson(
        what=f"ask the owner of this host to {remedy.title}: on the host, `gdr fix --steps {remedy.name}` "
        "prints how; attach the file that gdr collect writes",
        commands=("gdr collect",),
    )
