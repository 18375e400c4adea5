"""Enrols a key with the firmware: mokutil stages it, and a person confirms at the next boot.

Source: mokutil(1); shim MokManager.c for the texts on the blue screen.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable

from gdrkit.repair.apply.commands import find, run_captured
from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.passwords import Passwords
from gdrkit.repair.apply.root_fs import RootFS
from gdrkit.repair.platforms.action import EnrolKey

BLUE_SCREEN = (
    "At the next boot, a blue screen, `Shim UEFI key management`, waits ten seconds for a key press. "
    "Press any key; choose `Enroll MOK`, `Continue`, `Yes`; type the enrolment password; choose `Reboot`. "
    "If you miss it, the machine boots as before: run `mokutil --import` again."
)


def _enrolment_state(certificate: str) -> str:
    """Whether a key is "enrolled", "staged" or "new"; "" if the machine has no Secure Boot."""
    _, output = run_captured(("mokutil", "--test-key", certificate))
    if "already enrolled" in output or "is already in" in output:
        return "staged" if "request" in output else "enrolled"
    return "new" if "is not enrolled" in output else ""


def enrol(root: RootFS, action: EnrolKey, passwords: Passwords, notify: Callable[[str], None]) -> str:
    """Stage a key for enrolment. Returns why it was not staged; "" if it was."""
    by_hand = f"mokutil --import {action.certificate}"
    if not root.is_machine:
        return "not run: this is not the running machine"
    if find("mokutil") is None:
        notify(f"do this by hand: install mokutil, then run {by_hand}")
        return "mokutil is not installed"
    state = _enrolment_state(action.certificate)
    if not state:
        return "this machine has no Secure Boot firmware"
    if state != "new":
        return f"the key is already {state}"
    password = passwords.enrolment_password
    if password is None:
        notify(f"do this by hand (no --mok-password-fd was given): {by_hand}")
        notify(BLUE_SCREEN)
        return "no password was given"
    code, output = run_captured(
        ("mokutil", "--import", action.certificate), password + b"\n" + password + b"\n"
    )
    if code:
        last = output.strip().splitlines()[-1:] or [""]
        raise ApplyError(f"{by_hand}: exit code {code}: {last[0]}")
    notify(BLUE_SCREEN)
    return ""


def withdraw(
    root: RootFS, action: EnrolKey, passwords: Passwords, notify: Callable[[str], None], copy: str
) -> None:
    """Withdraw the enrolment request, or ask the firmware to delete an enrolled key.

    The certificate is copied to `copy` first, because undo deletes the original with the key.
    """
    if not root.is_machine or find("mokutil") is None:
        return
    state = _enrolment_state(action.certificate)
    if state == "staged":
        run_captured(("mokutil", "--revoke-import"))
    elif state == "enrolled":
        password = passwords.enrolment_password
        shutil.copyfile(action.certificate, copy)
        argv = ("mokutil", "--delete", copy)
        if password is None:
            notify(f"the firmware still trusts the key; to delete it there, run {' '.join(argv)}")
            return
        code, _ = run_captured(argv, password + b"\n" + password + b"\n")
        if code:
            notify(f"the firmware still trusts the key; {' '.join(argv)}: exit code {code}")
        else:
            notify("At the next boot, the blue screen asks to delete the key: choose `Delete MOK`.")
