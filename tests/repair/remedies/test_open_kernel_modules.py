"""The open modules instead of the proprietary ones, with Red Hat's module streams."""

from __future__ import annotations

import pytest

from gdrkit.node import Node
from gdrkit.repair.platforms.action import RunCommand
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.procedures import procedure_for
from gdrkit.repair.remedies.open_kernel_modules import OPEN_KERNEL_MODULES
from tests.memory_host import MemoryHost

SWAP = "dnf swap -y kmod-nvidia-latest-dkms kmod-nvidia-open-dkms"


@pytest.mark.parametrize(
    ("stream", "state", "command"),
    [
        ("550-dkms", "enabled", "dnf module switch-to -y nvidia-driver:550-open"),
        ("latest-dkms", "enabled", "dnf module switch-to -y nvidia-driver:open-dkms"),
        ("550-dkms", "disabled", SWAP),
        ("-y evil", "enabled", SWAP),
        (None, "", SWAP),
    ],
)
def test_an_enabled_stream_hides_the_packages_of_the_others(stream: str | None, state: str, command: str):
    text = f"[nvidia-driver]\nname=nvidia-driver\nstream={stream}\nprofiles=default\nstate={state}\n"
    files = {"etc/os-release": "ID=rocky\nVERSION_ID=9.4\nID_LIKE='rhel centos fedora'\n"}
    files |= {} if stream is None else {"etc/dnf/modules.d/nvidia-driver.module": text}
    found = procedure_for(Node(MemoryHost(files, complete=True)), OPEN_KERNEL_MODULES, ProcedureChoices())

    assert next(" ".join(one.argv) for one in found.actions if isinstance(one, RunCommand)) == command
