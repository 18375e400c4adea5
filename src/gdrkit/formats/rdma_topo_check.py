"""The output of `rdma_topo check`: a line for each thing that it checked, with OK or FAIL.

Source: rdma-core kernel-boot/rdma_topo, cmd_check(), check_ok() and check_fail(), v61.0 to August 2026. It
takes a plain x86 machine with a GPU on a root port for one of Grace, where its verdict on groups and ATS
means nothing: a line about ACS that names a root port of a Grace or Vera shows that it is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from gdrkit.formats.regex import regex

BEGINNING = (
    r"(?:OK|FAIL)\s{1,8}(?=ACS for \w|Kernel iommu_group |All kernel iommu_groups |Multiple devices share "
    r"the same kernel iommu_group|Could not read ACS control register|ATS capability for \w|All (?:ConnectX "
    r"DMA functions|NIC/GPU complexes|NUMA-based complexes) have )"
)
"""The pattern of the beginning of a line."""
_LINE = regex(rf"\s{{0,8}}(?P<line>{BEGINNING}.{{1,500}})")
_GRACE_PORT = regex(r"ACS for (?:grace|vera)_rp \S+ has ")

_MEANINGS: tuple[tuple[str, tuple[str, ...], bool], ...] = (
    (r"ACS for \w+ \S+ has incorrect values ", ("acs-bits-differ",), False),
    (r"Kernel iommu_group for DMA \S+ and GPU \S+ are not equal ", ("iommu-groups-differ",), False),
    (r"Kernel iommu_group for \S+ \S+ and \S+ \S+ are not equal ", ("iommu-groups-differ",), False),
    (
        r"Kernel iommu_group for \S+ \S+ and \S+ \S+ are (?:equal |not set)",
        ("iommu-groups-shared",), False,
    ),
    (r"Kernel iommu_group is missing for ", ("iommu-groups-shared", "iommu-groups-differ"), False),
    (r"Kernel iommu_group missing for devices on NUMA node ", ("iommu-groups-shared",), True),
    (r"Multiple devices share the same kernel iommu_group ", ("iommu-groups-shared",), True),
    (r"ATS capability for \S+ \S+ is available", ("nic-ats-unexpected",), True),
)  # fmt: skip
"""What a failed check shows, and whether that holds for a Grace or Vera alone."""


class TopoCheck(Struct, frozen=True):
    """One line of the output."""

    number: int
    ok: bool
    text: str  # without OK or FAIL

    @property
    def names_grace(self) -> bool:
        return _GRACE_PORT.match(self.text) is not None


class TopoFault(Struct, frozen=True):
    """A failed check. One code is the case, and several are possible; with none, it shows no known cause."""

    number: int
    text: str
    codes: tuple[str, ...]


def read_checks(lines: Iterable[tuple[int, str]]) -> tuple[TopoCheck, ...]:
    """The checks among numbered lines of any text."""
    return tuple(
        TopoCheck(number, found["line"].startswith("OK"), " ".join(found["line"].split()[1:]))
        for number, line in lines
        if (found := _LINE.match(line))
    )


def faults(checks: Iterable[TopoCheck]) -> tuple[TopoFault, ...]:
    """The failed checks of one machine, in order."""
    every = tuple(checks)
    grace = any(check.names_grace for check in every)
    return tuple(_fault(check, grace=grace) for check in every if not check.ok)


def _fault(check: TopoCheck, *, grace: bool) -> TopoFault:
    for pattern, codes, of_grace in _MEANINGS:
        if re.match(pattern, check.text) and (grace or not of_grace):
            return TopoFault(check.number, check.text, codes)
    return TopoFault(check.number, check.text, ())
