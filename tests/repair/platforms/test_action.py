"""What a procedure says of its actions: one is enough."""

from __future__ import annotations

import configparser

import pytest

from gdrkit.repair.platforms.action import AskPerson, Procedure, RemoveFile, RunCommand
from gdrkit.repair.platforms.file_contents import peermem_unit

TESTED = RunCommand(argv=("/usr/sbin/depmod",), why="w")
FROM_DOCUMENTATION = RunCommand(argv=("/usr/bin/dnf", "install", "x"), why="w", never_executed=True)
REMOVED = RemoveFile(path="/etc/x", why="w")
BY_HAND = AskPerson(what="reseat the card")


@pytest.mark.parametrize(
    ("actions", "never_executed", "by_hand"),
    [
        ((), False, False),
        ((TESTED,), False, False),
        ((TESTED, FROM_DOCUMENTATION), True, False),
        ((FROM_DOCUMENTATION, TESTED, REMOVED), True, False),
        ((TESTED, BY_HAND), False, True),
        ((BY_HAND, REMOVED, FROM_DOCUMENTATION), True, True),
    ],
)
def test_one_action_is_enough(actions, never_executed, by_hand):
    found = Procedure(remedy="r", platform="debian", actions=actions)

    assert (found.never_executed, found.by_hand) == (never_executed, by_hand)


def test_the_unit_starts_after_ofed_and_stops_with_it():
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # systemd.syntax(7): names are case-sensitive
    unit.read_string(peermem_unit("/sbin/modprobe", "/sbin/rmmod"))

    assert dict(unit["Unit"]) == {
        "Description": "Load nvidia-peermem after OFED",
        "After": "openibd.service",
        "PartOf": "openibd.service",
    }
    assert dict(unit["Service"]) == {
        "Type": "oneshot",
        "RemainAfterExit": "yes",
        "ExecStart": "/sbin/modprobe nvidia-peermem",
        "ExecStop": "-/sbin/rmmod nvidia-peermem",
    }
    assert dict(unit["Install"]) == {"WantedBy": "multi-user.target"}
