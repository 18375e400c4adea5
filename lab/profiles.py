"""Boot profiles: how the kernel is started, and which keys it trusts."""

from __future__ import annotations

from msgspec import Struct

from lab.cache import LabError


class Enrolment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The contents of a UEFI variable store, in addition to Microsoft's keys. Names are those of the lab's
    keys.
    """

    db: tuple[str, ...] = ()
    mok: tuple[str, ...] = ()
    mok_revoked: tuple[str, ...] = ()  # MokListX
    dbx: tuple[str, ...] = ()  # whole certificates
    dbx_hashes: tuple[str, ...] = ()  # hashes of certificates
    shim: tuple[tuple[str, str], ...] = ()  # shim's own variables, as hex
    disabled: bool = False  # Secure Boot off


class Profile(Struct, frozen=True, kw_only=True):
    """One way to boot."""

    name: str
    why: str = ""
    append: str = ""  # kernel command line
    firmware: str = ""  # "" (no UEFI), "direct" (UEFI, kernel from QEMU), "shim" (UEFI, shim, grub)
    enrol: Enrolment = Enrolment()
    headers: bool = True  # whether the guest has the kernel's headers, like a machine with DKMS
    key: str = ""  # signs the modules for which a case leaves the key to the profile
    pace_s: float = 0.0  # minimum time for a case
    groups: tuple[str, ...] = ("matrix",)


_ON = "01"
_LOCKDOWN_PACE_S = 0.6  # lockdown's own lines are rate limited to 10 in 5 s: include/linux/ratelimit_types.h
_KEYS = ("signature", "peermem")

PROFILES = (
    Profile(name="plain", why="nothing is enforced", groups=("matrix", "plain")),
    Profile(name="modprobe", why="what modprobe reads besides module files", groups=("modprobe",)),
    Profile(name="initcall", why="initcall_blacklist=", groups=("initcall",)),
    Profile(
        name="no-headers",
        why="a machine on which nothing is compiled",
        headers=False,
        groups=("symbols", "peermem"),
    ),
    Profile(name="disabled", why="kernel.modules_disabled", groups=("disabled",)),
    Profile(name="sig-enforce", append="module.sig_enforce=1", groups=_KEYS),
    Profile(
        name="lockdown-integrity",
        headers=False,
        append="lockdown=integrity",
        pace_s=_LOCKDOWN_PACE_S,
        groups=_KEYS,
    ),
    Profile(
        name="lockdown-confidentiality",
        headers=False,
        append="lockdown=confidentiality",
        pace_s=_LOCKDOWN_PACE_S,
        groups=("signature",),
    ),
    Profile(
        name="lockdown-and-enforce", append="lockdown=integrity module.sig_enforce=1", groups=("signature",)
    ),
    Profile(name="sb-microsoft", why="no key of ours", firmware="shim", groups=_KEYS),
    Profile(
        name="sb-mok",
        why="a machine owner's key, as DKMS has it",
        firmware="shim",
        enrol=Enrolment(mok=("lab",)),
        key="lab",
    ),
    Profile(
        name="sb-db",
        why="the key is in the firmware's own db; no shim",
        firmware="direct",
        enrol=Enrolment(db=("lab",)),
        key="lab",
        groups=_KEYS,
    ),
    Profile(
        name="sb-shim-db",
        why="the key is in db; shim mirrors it",
        headers=False,
        firmware="shim",
        enrol=Enrolment(db=("lab",)),
        key="lab",
        groups=("signature",),
    ),
    Profile(
        name="sb-validation-off",
        why="mokutil --disable-validation: Secure Boot is on and nothing is enforced",
        firmware="shim",
        enrol=Enrolment(mok=("lab",), shim=(("MokSBState", _ON),)),
        groups=("signature",),
    ),
    Profile(
        name="sb-mok-trusted",
        firmware="shim",
        enrol=Enrolment(mok=("lab",), shim=(("MokListTrusted", _ON),)),
        key="lab",
        groups=("signature",),
    ),
    Profile(
        name="sb-mok-ignore-db",
        firmware="shim",
        enrol=Enrolment(mok=("lab",), db=("second",), shim=(("MokDBState", _ON),)),
        key="lab",
        groups=("signature",),
    ),
    Profile(
        name="sb-mok-revoked",
        why="in MokList and in MokListX",
        firmware="shim",
        enrol=Enrolment(mok=("lab",), mok_revoked=("lab",)),
        key="lab",
        groups=("signature",),
    ),
    Profile(
        name="sb-db-revoked",
        why="in db, and in dbx by its hash",
        firmware="direct",
        enrol=Enrolment(db=("lab", "second"), dbx_hashes=("lab",)),
        key="second",
        groups=("signature",),
    ),
    Profile(
        name="sb-db-revoked-whole",
        why="in db, and in dbx as a certificate",
        firmware="direct",
        enrol=Enrolment(db=("lab", "second"), dbx=("lab",)),
        key="second",
        groups=("signature",),
    ),
    Profile(
        name="sb-off",
        why="UEFI with Secure Boot switched off",
        firmware="shim",
        enrol=Enrolment(mok=("lab",), disabled=True),
        groups=("signature",),
    ),
)


def profile(name: str) -> Profile:
    """The profile with that name. Raises LabError if there is none."""
    for candidate in PROFILES:
        if candidate.name == name:
            return candidate
    raise LabError(f"no such profile: {name} (of {', '.join(row.name for row in PROFILES)})")
