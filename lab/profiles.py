"""Boot profiles: how the kernel was started, and whom it trusts."""

from __future__ import annotations

from msgspec import Struct

from lab.cache import LabError


class Profile(Struct, frozen=True, kw_only=True):
    """One way to boot."""

    name: str
    why: str = ""
    append: str = ""  # kernel command line
    firmware: str = ""  # "" (no UEFI), "direct" (UEFI, kernel from QEMU), "shim" (UEFI, shim, grub)
    enrol: tuple[str, ...] = ()  # arguments of virt-fw-vars; {lab}, {unknown}... are certificate files
    key: str = ""  # signs whatever a case leaves to the profile
    groups: tuple[str, ...] = ("matrix",)


_SHIM_OWNER = "605dab50-e046-4300-abb6-3dd810dd8b23"  # shim's own GUID: SHIM_LOCK_GUID in shim/include/guid.h

PROFILES = (
    Profile(name="plain", why="nothing is enforced"),
    Profile(name="disabled", why="kernel.modules_disabled", groups=("disabled",)),
    Profile(name="sig-enforce", append="module.sig_enforce=1", groups=("signature", "peermem")),
    Profile(name="lockdown-integrity", append="lockdown=integrity", groups=("signature", "peermem")),
    Profile(name="lockdown-confidentiality", append="lockdown=confidentiality", groups=("signature",)),
    Profile(name="lockdown-and-enforce", append="lockdown=integrity module.sig_enforce=1", groups=("signature",)),
)


def profile(name: str) -> Profile:
    """The profile of that name. Raises LabError if there is none."""
    for candidate in PROFILES:
        if candidate.name == name:
            return candidate
    raise LabError(f"no profile {name}; there are {', '.join(row.name for row in PROFILES)}")
