"""Asking the firmware to trust a key: mokutil stages it, and a person agrees at the next boot.

Source: mokutil(1); shim MokManager.c for the words on the blue screen.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable

from gdrkit.repair.apply.commands import called
from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.root_fs import RootFS
from gdrkit.repair.apply.secrets import Secrets
from gdrkit.repair.platforms.action import EnrolKey

BLUE_SCREEN = (
    "At the next boot a blue screen, `Shim UEFI key management`, waits ten seconds for a key to be pressed. "
    "Press one; choose `Enroll MOK`, `Continue`, `Yes`; type the password that was chosen for this; choose "
    "`Reboot`. Who lets the ten seconds pass boots as before, and must run `mokutil --import` again."
)
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def _is(certificate: str) -> str:
    """How a key stands with the firmware: enrolled, asked, new; "" where there is no Secure Boot to ask."""
    _, said = called(("mokutil", "--test-key", certificate))
    if "already enrolled" in said or "is already in" in said:
        return "asked" if "request" in said else "enrolled"
    return "new" if "is not enrolled" in said else ""


def enrol(place: RootFS, action: EnrolKey, secrets: Secrets, say: Callable[[str], None]) -> str:
    """Stage a key for enrolment. Returns what was left out, and why."""
    by_hand = f"mokutil --import {action.certificate}"
    if not place.is_machine:
        return "not run: this is not the running machine"
    if shutil.which("mokutil", path=_PATH) is None:
        say(f"to do by hand: install mokutil, then {by_hand}")
        return "mokutil is not installed"
    standing = _is(action.certificate)
    if not standing:
        return "there is no firmware here that could be asked"
    if standing in ("enrolled", "asked"):
        return f"the key is {'enrolled' if standing == 'enrolled' else 'staged'} already"
    password = secrets.enrolment_password
    if password is None:
        say(f"to do by hand, since nobody gave a password for it: {by_hand}")
        say(BLUE_SCREEN)
        return "no password was given"
    code, said = called(("mokutil", "--import", action.certificate), password + b"\n" + password + b"\n")
    if code:
        last = said.strip().splitlines()[-1:] or [""]
        raise ApplyError(f"{by_hand}: exit code {code}: {last[0]}")
    say(BLUE_SCREEN)
    return ""


def withdraw(
    place: RootFS, action: EnrolKey, secrets: Secrets, say: Callable[[str], None], copy: str
) -> None:
    """Take back the request if it is still one, else ask the firmware to forget the key.

    `copy` is where the certificate is kept for that: the file itself goes with the key.
    """
    if not place.is_machine or shutil.which("mokutil", path=_PATH) is None:
        return
    standing = _is(action.certificate)
    if standing == "asked":
        called(("mokutil", "--revoke-import"))
    elif standing == "enrolled":
        password = secrets.enrolment_password
        shutil.copyfile(action.certificate, copy)
        words = ("mokutil", "--delete", copy)
        if password is None:
            say(f"the firmware still trusts the key; to let it forget: {' '.join(words)}")
            return
        code, _ = called(words, password + b"\n" + password + b"\n")
        if code:
            say(f"the firmware still trusts the key; {' '.join(words)}: exit code {code}")
        else:
            say("At the next boot the blue screen asks to delete the key: `Delete MOK`.")
