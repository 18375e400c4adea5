"""mokutil is asked, told and quoted as its answers require; no firmware is needed for that."""

from __future__ import annotations

import pytest

from gdrkit.repair.apply.enrolment import BLUE_SCREEN, enrol, withdraw
from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.passwords import Passwords
from gdrkit.repair.apply.root_fs import RootFS
from gdrkit.repair.platforms.action import EnrolKey
from tests.repair.apply.this_machine import Programs, ThisMachine, programs, root

__all__ = ["programs", "root"]

NEW, NO_SECURE_BOOT = "/k.der is not enrolled\n", "EFI variables are not supported on this system\n"
ENROLLED, STAGED = "/k.der is already enrolled\n", "/k.der is already in the enrollment request\n"
KEY = EnrolKey(certificate="/k.der", why="x")
GIVEN = Passwords(enrolment_password=b"secret")


def ask(programs: Programs, answer: str, code: int = 0, output: str = "") -> None:
    programs.answer("mokutil", "--test-key", answer)
    programs.answer("mokutil", "*", output, code)


def test_a_new_key_is_staged_with_its_password_typed_twice(programs, root):
    ask(programs, NEW)
    told: list[str] = []
    assert enrol(root, KEY, GIVEN, told.append) == ""
    assert programs.called == ["mokutil --test-key /k.der", "mokutil --import /k.der", "secret", "secret"]
    assert told == [BLUE_SCREEN]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (ENROLLED, "the key is already enrolled"),
        (STAGED, "the key is already staged"),
        ("/k.der is already in MokListRT\n", "the key is already enrolled"),
        (NO_SECURE_BOOT, "this machine has no Secure Boot firmware"),
    ],
)
def test_a_key_is_staged_only_once_and_only_with_secure_boot(programs, root, answer, why):
    ask(programs, answer)
    told: list[str] = []
    assert enrol(root, KEY, GIVEN, told.append) == why
    assert (programs.called, told) == (["mokutil --test-key /k.der"], [])


def test_without_a_password_a_person_has_to_do_it(programs, root):
    ask(programs, NEW)
    told: list[str] = []
    assert enrol(root, KEY, Passwords(), told.append) == "no password was given"
    by_hand = "do this by hand (no --mok-password-fd was given): mokutil --import /k.der"
    assert told == [by_hand, BLUE_SCREEN]
    assert programs.called == ["mokutil --test-key /k.der"]


def test_without_mokutil_a_person_has_to_do_it(programs, root):
    told: list[str] = []
    assert enrol(root, KEY, GIVEN, told.append) == "mokutil is not installed"
    assert told == ["do this by hand: install mokutil, then run mokutil --import /k.der"]


def test_a_refused_request_is_an_error_with_the_last_line(programs, root):
    ask(programs, NEW, 1, "input password: \nFailed to enroll new keys\n")
    with pytest.raises(ApplyError) as caught:
        enrol(root, KEY, GIVEN, [].append)
    assert str(caught.value) == "mokutil --import /k.der: exit code 1: Failed to enroll new keys"


def test_a_refusal_without_a_word_is_an_error_too(programs, root):
    ask(programs, NEW, 1)
    with pytest.raises(ApplyError, match=r"mokutil --import /k\.der: exit code 1: $"):
        enrol(root, KEY, GIVEN, [].append)


def test_another_tree_gets_no_key_and_loses_none(programs, tmp_path):
    ask(programs, NEW)
    tree, told = RootFS(str(tmp_path)), list[str]()
    assert enrol(tree, KEY, GIVEN, told.append) == "not run: this is not the running machine"
    withdraw(tree, KEY, GIVEN, told.append, str(tmp_path / "copy"))
    assert (programs.called, told) == ([], [])


def undo(programs: Programs, root: ThisMachine, passwords: Passwords) -> tuple[list[str], list[str]]:
    """The messages to the user, and the commands that run after the question."""
    certificate = programs.folder / "k.der"
    certificate.write_bytes(b"a certificate")
    told: list[str] = []
    action = EnrolKey(certificate=str(certificate), why="x")
    withdraw(root, action, passwords, told.append, str(programs.folder / "copy"))
    asked, *more = programs.called
    assert asked == f"mokutil --test-key {certificate}"
    return told, more


def test_undo_withdraws_a_request(programs, root):
    ask(programs, STAGED)
    assert undo(programs, root, GIVEN) == ([], ["mokutil --revoke-import"])


@pytest.mark.parametrize("answer", [NEW, NO_SECURE_BOOT])
def test_undo_leaves_a_firmware_alone_that_does_not_know_the_key(programs, root, answer):
    ask(programs, answer)
    assert undo(programs, root, GIVEN) == ([], [])


def test_undo_asks_the_firmware_to_delete_a_copy_of_an_enrolled_key(programs, root):
    ask(programs, ENROLLED)
    copy = programs.folder / "copy"
    assert undo(programs, root, GIVEN) == (
        ["At the next boot, the blue screen asks to delete the key: choose `Delete MOK`."],
        [f"mokutil --delete {copy}", "secret", "secret"],
    )
    assert copy.read_bytes() == b"a certificate"


def test_undo_without_a_password_says_what_to_run(programs, root):
    ask(programs, ENROLLED)
    why = "the firmware still trusts the key; to delete it there, run mokutil --delete"
    assert undo(programs, root, Passwords()) == ([f"{why} {programs.folder / 'copy'}"], [])


def test_a_firmware_that_refuses_to_delete_is_named(programs, root):
    ask(programs, ENROLLED, 3)
    copy = programs.folder / "copy"
    told, _ = undo(programs, root, GIVEN)
    assert told == [f"the firmware still trusts the key; mokutil --delete {copy}: exit code 3"]


def test_undo_without_mokutil_does_nothing(programs, root):
    told: list[str] = []
    withdraw(root, KEY, GIVEN, told.append, "copy")
    assert not told
