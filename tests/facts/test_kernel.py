"""The running kernel: release, architecture, configuration, lockdown."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, MissingReason
from gdrkit.facts import kernel
from gdrkit.node import Node
from tests.memory_host import MemoryHost

K = "6.8.0-45-generic"


def a_node(files: dict[str, bytes | str], **more: object) -> Node:
    return Node(MemoryHost(files, **more))  # type: ignore[arg-type]


def test_the_running_kernel_is_the_first_source_of_the_release() -> None:
    node = a_node({"proc/sys/kernel/osrelease": K + "\n", "proc/version": "Linux version 5.4.0 (gcc)\n"})
    assert kernel.release(node) == K
    assert kernel.version(node) == (6, 8)


def test_the_release_of_a_sosreport_comes_from_its_copy_of_uname() -> None:
    text = "Linux node1 5.14.0-427.el9.x86_64 #1 SMP PREEMPT_DYNAMIC Fri x86_64 x86_64 x86_64 GNU/Linux\n"
    node = a_node({"sos_commands/kernel/uname_-a": text})
    assert kernel.release(node) == "5.14.0-427.el9.x86_64"
    assert kernel.architecture(node) == "x86_64"
    assert kernel.hostname(node) == "node1"


def test_the_only_installed_kernel_is_likely_the_running_one() -> None:
    node = a_node({f"lib/modules/{K}/modules.dep": ""})
    assert kernel.release(node) == K
    assert node.trail(kernel.release).confidence.name == "LIKELY"


def test_with_two_installed_kernels_the_running_one_is_unknown() -> None:
    node = a_node({f"lib/modules/{K}/modules.dep": "", "lib/modules/6.9.0/modules.dep": ""})
    with pytest.raises(EvidenceMissing):
        kernel.release(node)


@pytest.mark.parametrize(
    ("text", "machine"),
    [
        ("processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu\n", "x86_64"),
        ("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n", "aarch64"),
    ],
)
def test_the_architecture_shows_in_cpuinfo(text: str, machine: str) -> None:
    assert kernel.architecture(a_node({"proc/cpuinfo": text})) == machine


def test_quotes_on_the_command_line_keep_spaces_together() -> None:
    node = a_node({"proc/cmdline": 'ro foo.bar="a b" "baz=c d" lockdown=integrity -- init=x\n'})
    assert kernel.command_line(node) == (
        "ro",
        "foo.bar=a b",
        "baz=c d",
        "lockdown=integrity",
        "--",
        "init=x",
    )


def test_every_value_of_a_boot_parameter_counts_and_dashes_are_underscores() -> None:
    node = a_node({"proc/cmdline": "module.sig-enforce=0 module.sig_enforce -- module.sig_enforce=9\n"})
    assert kernel.boot_parameter(node, "module.sig_enforce") == ("0", "")


def test_an_option_that_is_not_set_is_n_only_in_a_known_configuration() -> None:
    text = '# CONFIG_MODULE_SIG_FORCE is not set\nCONFIG_MODULE_SIG=y\nCONFIG_LSM="lockdown,yama"\n'
    seen = {"proc/sys/kernel/osrelease": K}
    node = a_node({**seen, f"boot/config-{K}": text})
    assert kernel.config_option(node, "CONFIG_MODULE_SIG") == "y"
    assert kernel.config_option(node, "CONFIG_MODULE_SIG_FORCE") == "n"
    assert kernel.config_option(node, "CONFIG_LSM") == "lockdown,yama"
    with pytest.raises(EvidenceMissing):
        kernel.config_option(a_node(seen), "CONFIG_MODULE_SIG")


def test_the_configuration_can_be_the_kernels_compressed_copy() -> None:
    node = a_node({"proc/sys/kernel/osrelease": K, "proc/config.gz": gzip.compress(b"#\nCONFIG_X=m\n")})
    assert kernel.config_option(node, "CONFIG_X") == "m"


def test_a_configuration_that_is_an_error_text_is_garbled() -> None:
    node = a_node({"proc/sys/kernel/osrelease": K, f"boot/config-{K}": "cat: Permission denied\n"})
    with pytest.raises(EvidenceMissing) as caught:
        kernel.config_option(node, "CONFIG_X")
    assert caught.value.missing.why is MissingReason.GARBLED


@pytest.mark.parametrize("level", ["none", "integrity", "confidentiality"])
def test_the_lockdown_level_is_in_brackets(level: str) -> None:
    text = "none integrity confidentiality\n".replace(level, f"[{level}]")
    assert kernel.lockdown(a_node({"sys/kernel/security/lockdown": text})) == level


def test_a_kernel_without_lockdown_is_not_locked_down() -> None:
    files = {"proc/sys/kernel/osrelease": K, f"boot/config-{K}": "#\nCONFIG_X=y\n"}
    assert kernel.lockdown(a_node(files, absent={"sys/kernel/security/lockdown"})) == "none"


def test_an_unread_lockdown_level_is_unknown_not_none() -> None:
    files = {"proc/sys/kernel/osrelease": K, f"boot/config-{K}": "#\nCONFIG_SECURITY_LOCKDOWN_LSM=y\n"}
    with pytest.raises(EvidenceMissing):
        kernel.lockdown(a_node({**files, "proc/cmdline": "quiet\n"}))
    assert kernel.lockdown(a_node({**files, "proc/cmdline": "lockdown=integrity\n"})) == "integrity"


def test_the_distribution_shows_its_family() -> None:
    text = 'NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n'
    found = kernel.distribution(a_node({"etc/os-release": text}))
    assert (found.id, found.version, "rhel" in found.family) == ("rocky", "9.4", True)


def test_os_release_can_be_in_usr_lib() -> None:
    node = a_node({"usr/lib/os-release": "ID=talos\n"}, absent={"etc/os-release"})
    assert kernel.distribution(node).id == "talos"


def test_without_dmi_the_device_tree_names_the_machine() -> None:
    node = a_node(
        {"proc/device-tree/model": "NVIDIA Jetson AGX Orin\0"}, absent={"sys/class/dmi/id/product_name"}
    )
    assert kernel.product(node).name == "Jetson AGX Orin"


def test_modules_disabled_is_a_number_or_it_is_garbled() -> None:
    path = "proc/sys/kernel/modules_disabled"
    assert kernel.modules_disabled(a_node({path: "1\n"})) is True
    with pytest.raises(EvidenceMissing):
        kernel.modules_disabled(a_node({path: "yes\n"}))
    with pytest.raises(EvidenceAbsent):
        kernel.modules_disabled(a_node({}, complete=True))


@given(st.text())
def test_any_command_line_has_words(text: str) -> None:
    words = kernel.split_command_line(text)
    assert all(words)
