"""The lines that nvidia-peermem logs when its init refuses, which name a line of its source.

Source: open-gpu-kernel-modules kernel-open/nvidia-peermem/nvidia-peermem.c at all 193 tags from 515.43.04 to
595.45.04; five of them were also observed in a guest of the lab.
"""

from __future__ import annotations

from bisect import bisect_right

from msgspec import Struct

from gdrkit.formats.versions import numbers


class _LogLines(Struct, frozen=True):
    """Where one version, and those after it, log: line numbers, and whether the line has the word ERROR."""

    since: tuple[int, ...]
    parameters: tuple[int, ...]  # peerdirect_support, persistent_api_support
    registrations: tuple[int, int]  # the traditional client, the nc client
    word: str = " ERROR"

    @property
    def two_functions(self) -> bool:
        return len(self.parameters) > 1


_OLD, _LATER = ((429,), (474, 487), ""), ((446,), (491, 501), "")
_SOURCES = (
    _LogLines((515, 43, 4), *_OLD),
    _LogLines((525, 47, 22), *_LATER),
    _LogLines((525, 53), *_OLD),
    _LogLines((525, 105, 17), *_LATER),
    _LogLines((530, 30, 2), *_OLD),
    _LogLines((535, 43, 2), *_LATER),
    _LogLines((535, 43, 24), (481,), (526, 536)),
    _LogLines((535, 54, 3), *_LATER),
    _LogLines((535, 129, 3), (474,), (519, 529)),
    _LogLines((535, 146, 2), (481,), (526, 536)),
    _LogLines((545, 23, 6), (457,), (500, 510), ""),
    _LogLines((550, 40, 7), (492,), (535, 545)),
    _LogLines((560, 28, 3), (564, 579), (518, 548)),
    _LogLines((580, 65, 6), (619, 634), (573, 603)),
)
_LAST, _NO_CHECK_IN_STUBS = (595, 45, 4), (560, 28, 3)
_PARAMETERS = {"peerdirect_support": "peerdirect", "persistent_api_support": "persistent_api"}


def _source(version: str) -> _LogLines | None:
    found = numbers(version)
    at = bisect_right(_SOURCES, found, key=lambda row: row.since)
    return _SOURCES[at - 1] if at and found <= _LAST else None


def stub_checks(version: str) -> bool:
    """Whether a module built without the peer-memory API checks its parameter before it refuses."""
    return numbers(version) < _NO_CHECK_IN_STUBS


def parameter_line(version: str, parameter: str, value: int) -> str:
    """The line about a value of a parameter that is refused; "" for a version that was not read."""
    source = _source(version)
    if source is None or parameter not in _PARAMETERS:
        return ""
    which = list(_PARAMETERS).index(parameter)
    middle = f"{_PARAMETERS[parameter]}_" if source.two_functions else ""
    if which >= len(source.parameters):
        return ""
    place = f"nv_mem_param_{middle}conf_check:{source.parameters[which]}"
    return f"nvidia-peermem {place}{source.word} invalid {parameter} param value {value}"


def registration_line(version: str, *, legacy: bool) -> str:
    """The line about a first client that is refused; "" for a version that was not read.

    `legacy`: persistent_api_support is 0. Before 560.28.03 the traditional client is always the first.
    """
    source = _source(version)
    if source is None:
        return ""
    traditional = legacy or not source.two_functions
    function = "nv_mem_client_init"
    if source.two_functions:
        function = "nv_mem_legacy_client_init" if traditional else "nv_mem_nc_client_init"
    line = source.registrations[not traditional]
    kind = "traditional" if traditional else "nc"
    return (
        f"nvidia-peermem {function}:{line}{source.word} nv_mem_client_init -- "
        f"error while registering {kind} client"
    )
