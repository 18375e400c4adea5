"""What a step may run: the commands that were reviewed, and what else an action of a journal must not be."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace

from gdrkit.node import Node
from gdrkit.repair.platforms.action import AskPerson, EnrolKey, Procedure, RunCommand
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.command_shapes import every_shape, fault, fits
from gdrkit.repair.platforms.families import PLATFORMS
from gdrkit.repair.platforms.procedures import procedure_for
from gdrkit.repair.remedies import every_remedy, remedy_of
from tests.index_builder import with_indexes
from tests.memory_host import MemoryHost
from tests.repair.platforms.test_known_procedures import every_case
from tests.repair.platforms.test_procedures import CHOICES, commands, node

REVIEWED = """
apt-get install -y PACKAGE+
apt-get install -y --only-upgrade PACKAGE+
apt-get remove -y PACKAGE+
depmod -a KERNEL
depmod -b {root} KERNEL
dkms autoinstall -k KERNEL
dkms build -m DKMS -v VERSION -k KERNEL --force
dkms install -m DKMS -v VERSION -k KERNEL --force
dkms uninstall -m DKMS -v VERSION -k KERNEL
dnf install -y PACKAGE+
dnf remove -y PACKAGE+
dnf module switch-to -y STREAM
dnf swap -y PACKAGE PACKAGE
dnf upgrade -y PACKAGE+
dracut --force --kver KERNEL
grubby --update-kernel=ALL --args=ARGUMENT
grubby --update-kernel=ALL --remove-args=ARGUMENT
modprobe -r nvidia
modprobe -r nvidia_uvm
modprobe nv_peer_mem
modprobe nvidia
modprobe nvidia-peermem
modprobe nvidia_uvm
pbl --add-option ARGUMENT
pbl --config
pbl --del-option ARGUMENT
rmmod nv_peer_mem
rmmod nvidia_peermem
setpci -s ADDRESS REGISTER
systemctl daemon-reexec
systemctl daemon-reload
systemctl disable --now nv_peer_mem
systemctl disable gdrkit-acs.service
systemctl enable gdrkit-acs.service
systemctl enable nv_peer_mem
update-grub
update-initramfs -u -k KERNEL
zypper --non-interactive install --force-resolution PACKAGE
zypper --non-interactive install PACKAGE+
zypper --non-interactive remove PACKAGE+
zypper --non-interactive update PACKAGE+
"""
"""What `gdr fix --apply` can run as root. Whoever adds a line says why in its commit."""


def test_the_declared_commands_are_those_that_were_reviewed():
    assert sorted(every_shape()) == sorted(REVIEWED.strip().split("\n"))


def with_ofed_and_nv_peer_mem() -> Node:
    """A machine with what no node of tests/evidence has: scripts of OFED and of nv_peer_mem, its module
    without a package."""
    modules = "lib/modules/6.1.0-9-amd64"
    files = {
        "etc/os-release": b"ID=debian\n",
        "proc/sys/kernel/osrelease": b"6.1.0-9-amd64\n",
        "etc/init.d/openibd": b"",
        "etc/init.d/nv_peer_mem": b"",
        f"{modules}/modules.dep": b"updates/nv_peer_mem.ko:\n",
        f"{modules}/updates/nv_peer_mem.ko": b"",
    }
    return Node(MemoryHost(with_indexes(files), complete=True))


def with_a_stream() -> Node:
    """A machine of Red Hat's family that has NVIDIA's packages of an enabled module stream."""
    stream = "[nvidia-driver]\nname=nvidia-driver\nstream=550-dkms\nstate=enabled\n"
    files = {"etc/os-release": "ID=rhel\n", "etc/dnf/modules.d/nvidia-driver.module": stream}
    return Node(MemoryHost(files, complete=True))


def commands_in(procedure: Procedure) -> list[tuple[str, ...]]:
    """Its commands, also those that undo them and those for a tree."""
    runs = [action for action in procedure.actions if isinstance(action, RunCommand)]
    return [*commands(procedure), *(action.in_root for action in runs if action.in_root)]


def test_each_declared_command_is_one_that_a_plan_of_its_remedy_or_platform_has():
    unused = {(one.name, shape) for one in (*every_remedy(), *PLATFORMS) for shape in one.commands}
    nodes = (with_ofed_and_nv_peer_mem(), with_a_stream(), *(where for _, where, _ in every_case()))
    for where, remedy, choices in itertools.product(nodes, every_remedy(), CHOICES):
        if not {owner for owner, _ in unused} & {remedy.name, *(one.name for one in PLATFORMS)}:
            continue  # nothing is left that a plan of this remedy could have
        procedure = procedure_for(where, remedy, choices)
        for argv in commands_in(procedure):
            owners = (remedy.name, procedure.platform)
            unused -= {row for row in unused if row[0] in owners and fits(argv, (row[1],))}
    assert unused == set()


def test_a_step_does_not_run_a_command_that_only_another_remedy_declares():
    remedy = remedy_of("load-driver")
    assert [
        type(one) for one in procedure_for(node("mixed-signers"), remedy, ProcedureChoices()).actions
    ] == [
        RunCommand,
        RunCommand,
    ]

    others = replace(remedy, commands=remedy_of("load-peermem").commands)
    (action,) = procedure_for(node("mixed-signers"), others, ProcedureChoices()).actions

    assert isinstance(action, AskPerson)
    assert action.what.endswith("(no exact commands: not a command of any step: modprobe nvidia)")


@pytest.mark.parametrize(
    ("certificate", "found"),
    [("--reset", "not a file: --reset"), ("-k.der", "not a file: -k.der"), ("/keys/-k.der", "")],
)
def test_a_certificate_is_no_option_of_mokutil(certificate, found):
    assert fault(EnrolKey(certificate=certificate, why="x")) == found
