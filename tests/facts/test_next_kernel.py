"""The kernel that boots next: what GRUB, its environment and its entries say."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Confidence, EvidenceMissing
from gdrkit.facts.next_kernel import has_driver, has_headers, next_kernel
from gdrkit.node import Node
from tests.memory_host import MemoryHost

RUNNING, NEWER = "5.15.0-119-generic", "5.15.0-125-generic"
MENU = "gnulinux-advanced-4f2e>gnulinux-{}-advanced-4f2e"
ENTRY = "title RHEL\nversion {0}\nlinux /vmlinuz-{0}\ninitrd /initramfs-{0}.img\n"


def machine(*kernels: str, grub: str | None = "GRUB_DEFAULT=0\n", **files: str) -> Node:
    """A machine whose /boot has these kernels, with GRUB's defaults and other files."""
    found: dict[str, bytes | str] = {"proc/sys/kernel/osrelease": RUNNING, "boot/config-x": ""}
    found["etc/os-release"] = "ID=ubuntu\nID_LIKE=debian\n"
    found |= {f"boot/vmlinuz-{kernel}": "" for kernel in kernels}
    found |= {} if grub is None else {"etc/default/grub": grub}
    return Node(MemoryHost(found | files, complete=True))


def undecided(node: Node) -> str:
    with pytest.raises(EvidenceMissing) as error:
        next_kernel(node)
    return error.value.missing.source


def test_the_only_kernel_boots_again_for_certain():
    node = machine(RUNNING, grub=None)
    assert next_kernel(node) == RUNNING
    assert node.confidence(next_kernel) is Confidence.CERTAIN


def test_without_images_in_boot_the_folders_of_modules_count():
    only = machine(**{f"lib/modules/{RUNNING}/modules.dep": ""})
    assert next_kernel(only) == RUNNING
    two = {f"lib/modules/{kernel}/modules.dep": "" for kernel in (RUNNING, NEWER)}
    assert next_kernel(machine(**two)) == NEWER


def test_the_newest_kernel_is_the_first_entry_and_that_is_likely():
    node = machine("5.15.0-99-generic", NEWER, RUNNING)
    assert next_kernel(node) == NEWER
    assert node.confidence(next_kernel) is Confidence.LIKELY


@pytest.mark.parametrize("default", ["saved", '"saved"'])
def test_a_saved_entry_names_its_kernel(default):
    saved = {"boot/grub/grubenv": f"# GRUB Environment Block\nsaved_entry={MENU.format(RUNNING)}\n####"}
    assert next_kernel(machine(RUNNING, NEWER, grub=f"GRUB_DEFAULT={default}\n", **saved)) == RUNNING


def test_a_file_beside_debians_defaults_outranks_them_and_elsewhere_is_not_read():
    later = {"etc/default/grub.d/50-cloud.cfg": "GRUB_DEFAULT=saved\n"}
    saved = {"boot/grub/grubenv": f"saved_entry={MENU.format(RUNNING)}\n"}
    assert next_kernel(machine(RUNNING, NEWER, **later, **saved)) == RUNNING
    other = {"etc/os-release": 'ID="sles"\nID_LIKE="suse"\n'}
    assert next_kernel(machine(RUNNING, NEWER, **later, **saved, **other)) == NEWER


def test_the_block_of_a_grub_in_the_folder_grub2_is_read_without_entries_too():
    saved = {"boot/grub2/grubenv": f"saved_entry={MENU.format(RUNNING)}\n"}
    assert next_kernel(machine(RUNNING, NEWER, grub="GRUB_DEFAULT=saved\n", **saved)) == RUNNING


def test_a_title_names_its_kernel():
    grub = f'GRUB_DEFAULT="Advanced options for Ubuntu>Ubuntu, with Linux {RUNNING}"\n'
    assert next_kernel(machine(RUNNING, NEWER, grub=grub)) == RUNNING


def test_an_entry_for_one_boot_comes_before_the_default():
    once = {"boot/grub/grubenv": f"next_entry={MENU.format(RUNNING)}\n"}
    assert next_kernel(machine(RUNNING, NEWER, **once)) == RUNNING


@pytest.mark.parametrize(
    "grub",
    [
        None,
        'GRUB_DEFAULT="1>2"\n',
        "GRUB_DEFAULT=2\n",
        'GRUB_DEFAULT="Advanced options for Ubuntu>Ubuntu, with Linux 5.15.0-1-generic"\n',
        "GRUB_FLAVOUR_ORDER=lowlatency\n",
        f"GRUB_TOP_LEVEL=/boot/vmlinuz-{RUNNING}\n",
    ],
)
def test_an_entry_by_number_or_one_that_is_gone_decides_nothing(grub):
    assert undecided(machine(RUNNING, NEWER, grub=grub))


def test_two_kernels_of_one_version_are_not_ordered():
    assert undecided(machine(RUNNING, NEWER, NEWER.replace("generic", "lowlatency")))


def test_a_kernel_that_came_over_the_network_is_not_in_boot():
    assert undecided(machine(NEWER))


def test_a_rescue_image_is_no_kernel():
    assert next_kernel(machine(RUNNING, "0-rescue-8f1c2d", grub=None)) == RUNNING


def entries(saved: str) -> Node:
    files = {f"boot/loader/entries/8f1c-{kernel}.conf": ENTRY.format(kernel) for kernel in (RUNNING, NEWER)}
    return machine(RUNNING, NEWER, **files, **{"boot/grub2/grubenv": saved})


def test_the_saved_one_of_several_entries_boots():
    assert next_kernel(entries(f"saved_entry=8f1c-{RUNNING}\n")) == RUNNING
    assert next_kernel(entries(f"saved_entry=8f1c-{NEWER}\n")) == NEWER


@pytest.mark.parametrize("saved", ["", "saved_entry=0\n", "saved_entry=8f1c-6.1.0-1\n"])
def test_of_entries_none_of_which_is_saved_the_next_is_not_known(saved):
    assert undecided(entries(saved))


# -- its driver --------------------------------------------------------------------------------------------

DEP = f"lib/modules/{NEWER}/modules.dep"
PLAIN = (
    "kernel/lib/crc32.ko:\nkernel/drivers/video/fbdev/nvidia/nvidiafb.ko: kernel/drivers/i2c/nvidia_x.ko\n"
)
STATUS = "Package: {}\nStatus: install ok installed\nVersion: 1\n\n"
DKMS = {"var/lib/dkms/nvidia/535.183.01/source/dkms.conf": 'AUTOINSTALL="yes"\n'}
HEADERS = {f"usr/src/linux-headers-{NEWER}/Makefile": ""}


def newer(text: str, *packages: str, links: dict[str, str] | None = None, **files: str) -> Node:
    status = "".join(STATUS.format(name) for name in ("libc6", *packages))
    found = {DEP: text, "var/lib/dpkg/status": status, **files}
    return Node(MemoryHost(found, links=links or {}, complete=True))


@pytest.mark.parametrize(
    "line",
    [
        "updates/dkms/nvidia.ko.zst:\n",
        "kernel/nvidia-535srv/nvidia.ko: kernel/x.ko\n",
        "weak-updates/nvidia/nvidia.ko.xz:\n",
        "updates/dkms/nvidia-current.ko:\n",
    ],
)
def test_a_line_of_depmod_shows_the_driver_wherever_it_lies(line):
    assert has_driver(newer(f"{PLAIN}{line}"), NEWER)


def test_a_frame_buffer_and_a_dependency_of_that_name_are_not_the_driver():
    assert not has_driver(newer(PLAIN), NEWER)


def test_a_kernel_without_modules_has_no_driver():
    assert not has_driver(newer("", **{}), "6.8.0-1-generic")


def test_dkms_may_build_it_at_boot_if_there_are_headers():
    link = {f"lib/modules/{NEWER}/build": f"/usr/src/linux-headers-{NEWER}"}
    with pytest.raises(EvidenceMissing):
        has_driver(newer(PLAIN, links=link, **DKMS, **HEADERS), NEWER)


def test_dkms_skips_a_kernel_without_headers():
    """Red Hat's kernels have the link, and their headers come with another package."""
    dangling = {f"lib/modules/{NEWER}/build": f"/usr/src/linux-headers-{NEWER}"}
    for links in ({}, dangling):
        node = newer(PLAIN, links=links, **DKMS)
        assert not has_headers(node, NEWER)
        assert not has_driver(node, NEWER)


def test_dkms_of_another_module_builds_no_driver():
    link = {f"lib/modules/{NEWER}/build": f"/usr/src/linux-headers-{NEWER}"}
    other = {"var/lib/dkms/nvidia-fs/2.17/source/dkms.conf": ""}
    assert not has_driver(newer(PLAIN, links=link, **other, **HEADERS), NEWER)


def test_akmods_may_build_it_at_boot():
    with pytest.raises(EvidenceMissing):
        has_driver(newer(PLAIN, "akmod-nvidia", **{"usr/sbin/akmods": ""}), NEWER)


def test_a_machine_without_the_program_akmods_builds_no_driver_whatever_its_packages():
    """The list of packages was not collected."""
    files = {DEP: PLAIN, "usr/src/x": ""}
    none = {"usr/sbin/akmods", "usr/bin/akmods", "var/lib/dkms"}

    assert not has_driver(Node(MemoryHost(files, absent=none)), NEWER)
    with pytest.raises(EvidenceMissing):
        has_driver(Node(MemoryHost(files, absent={"var/lib/dkms"})), NEWER)


def test_without_depmods_list_it_is_not_known():
    host = MemoryHost({"proc/sys/kernel/osrelease": RUNNING})
    with pytest.raises(EvidenceMissing):
        has_driver(Node(host), NEWER)
