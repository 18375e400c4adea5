"""What `gdr config` writes, as something that a person applies."""

from __future__ import annotations

from gdrkit.repair.config.output import ConfigOutput, ConfigRefused, rendered
from gdrkit.repair.platforms.action import AskPerson


def asked(found: ConfigOutput | ConfigRefused, why: str) -> AskPerson:
    """Write this to its file, and apply it; or why `gdr config` does not write it for this node."""
    if not isinstance(found, ConfigOutput):
        return AskPerson(what=f"{why}; gdr config {found.kind} says what it cannot do here: {found.why}")
    command, _, rest = found.use.partition("; ")  # what follows is for a reader: `then apply the patch`
    after, form = f"; {rest}" if rest else "", f" --form {found.form}" if found.form else ""
    return AskPerson(
        what=f"{why}; write the lines below to {found.file}, as gdr config {found.kind}{form} does{after}",
        content=rendered(found),
        commands=(command,),
    )
