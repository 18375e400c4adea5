"""Why traffic between the hosts of a rack goes through their NICs: one line, the same in every command."""

from __future__ import annotations

from collections.abc import Iterable

from gdrkit.catalogue import CODES
from gdrkit.report.pages import code_page

OF_RACKS = tuple(code for code in CODES if code.startswith("mnnvl-"))
"""The codes of what keeps the hosts of a rack off NVLink."""


def rack_line(codes: Iterable[str]) -> str:
    """The line for these possible causes, the likeliest first; "" if one of them is about something else."""
    causes = tuple(dict.fromkeys(codes))
    if not causes or not set(causes) <= set(OF_RACKS):
        return ""
    if len(causes) == 1:
        why = f"{code_page(causes[0])[0]} [{causes[0]}]"
    else:
        why = f"Possible causes, likeliest first: {', '.join(causes)}."
    return f"Between the hosts of the rack: NICs instead of NVLink, or the job stops. {why}"
