"""What loads nvidia-peermem at boot, and what only looks as if it did."""

from __future__ import annotations

import pytest

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.boot_loading import listed_loader, root_is_kept, scripted_loader
from gdrkit.facts.loaded_modules import PEERMEM
from gdrkit.node import Node
from tests.memory_host import MemoryHost

INSTALL = "install nvidia /sbin/modprobe --ignore-install nvidia && /sbin/modprobe nvidia-peermem\n"
UNIT = "usr/lib/systemd/system/nvidia-peermem-loader.service"
RULES = "etc/udev/rules.d/70-gpu.rules"
OWN_UNIT = "etc/systemd/system/gpu-setup.service"


def node(**files: str) -> Node:
    return Node(MemoryHost({"proc/cmdline": "ro\n", **files}, complete=True))


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("etc/modules-load.d/gpu.conf", "# GPU\nnvidia-peermem\n", "etc/modules-load.d/gpu.conf:2"),
        ("etc/modules", "nvidia_peermem\n", "etc/modules:1"),
        ("etc/modprobe.d/gpu.conf", "softdep nvidia pre: nvidia-peermem\n", "etc/modprobe.d/gpu.conf:1"),
        ("etc/modprobe.d/gpu.conf", "softdep nvidia post: nvidia-peermem\n", "etc/modprobe.d/gpu.conf:1"),
        (UNIT, "", UNIT),
    ],
)
def test_configuration_that_loads_it(path, text, found):
    assert listed_loader(node(**{path: text}), PEERMEM) == found


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("etc/modules-load.d/gpu.conf", "# nvidia-peermem\n"),
        ("etc/modules-load.d/gpu.conf", "nvidia\n"),
        ("etc/modprobe.d/gpu.conf", "softdep nvidia post: nvidia-uvm\n"),
        ("usr/lib/systemd/system/nvidia-persistenced.service", ""),
    ],
)
def test_configuration_that_does_not(path, text):
    assert listed_loader(node(**{path: text}), PEERMEM) == ""


def test_systemd_obeys_a_blacklist():
    files = {
        "etc/modules-load.d/gpu.conf": "nvidia-peermem\n",
        "etc/modprobe.d/no.conf": "blacklist nvidia-peermem\n",
    }
    assert listed_loader(node(**files), PEERMEM) == ""


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("etc/modprobe.d/gpu.conf", INSTALL, "etc/modprobe.d/gpu.conf:1"),
        ("etc/rc.local", "#!/bin/sh\nmodprobe nvidia-peermem || true\n", "etc/rc.local"),
        (RULES, 'ACTION=="add", RUN+="/sbin/modprobe nvidia_peermem"\n', RULES),
        (OWN_UNIT, "[Service]\nExecStart=/sbin/modprobe nvidia-peermem\n", OWN_UNIT),
    ],
)
def test_a_script_rule_or_unit_that_loads_it(path, text, found):
    assert scripted_loader(node(**{path: text}), PEERMEM) == found


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("etc/modprobe.d/gpu.conf", INSTALL.replace("nvidia-peermem", "nvidia-uvm")),
        ("etc/rc.local", "#!/bin/sh\n  # modprobe nvidia-peermem\n"),
        ("etc/rc.local", "modprobe nvidia-peermem-old\n"),
        ("etc/udev/rules.d/70-gpu.rules.disabled", "modprobe nvidia-peermem\n"),
    ],
)
def test_a_comment_another_module_and_a_disabled_rule_do_not(path, text):
    assert scripted_loader(node(**{path: text}), PEERMEM) == ""


def test_scripts_that_were_not_collected_are_not_known_to_be_silent():
    host = MemoryHost({"proc/cmdline": "ro\n"}, absent={"etc/modprobe.d"})
    with pytest.raises(EvidenceMissing):
        scripted_loader(Node(host), PEERMEM)


@pytest.mark.parametrize(
    ("kind", "kept"), [("ext4", True), ("xfs", True), ("overlay", False), ("tmpfs", False), ("nfs4", False)]
)
def test_a_root_in_memory_or_on_an_image_is_not_kept(kind, kept):
    mounts = f"22 28 0:21 / /sys rw - sysfs sysfs rw\n28 1 259:2 / / rw,relatime shared:1 - {kind} root rw\n"
    assert root_is_kept(node(**{"proc/self/mountinfo": mounts})) is kept
