"""Package lists, the tree and status of DKMS, and the installed RDMA stack."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing
from gdrkit.facts.commands import DKMS_STATUS, OFED_INFO, OWNERS_DPKG, PACKAGES_DPKG, PACKAGES_RPM
from gdrkit.facts.packages import (
    DkmsModule,
    Ofed,
    Package,
    dkms,
    installed,
    ofed,
    owner,
    parse_dkms_status,
    parse_ofed_info,
    parse_packages,
)
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node
from tests.memory_host import MemoryHost

KERNEL = "6.8.0-45-generic"


@pytest.mark.parametrize(
    ("text", "manager", "name", "version"),
    [
        ("libnccl2\t2.27.3-1+cuda12.9\tamd64\tii \n", "dpkg", "libnccl2", "2.27.3-1+cuda12.9"),
        ("ucx\t1.18.0-1.2410068\tx86_64\tii\n", "rpm", "ucx", "1.18.0-1.2410068"),
        ("ii  libibverbs1:amd64  50.0-2build2  amd64  Library\n", "dpkg", "libibverbs1", "50.0-2build2"),
        ("libibverbs1 44.0-2\n", "dpkg", "libibverbs1", "44.0-2"),
        ("rdma-core-51.0-1.el9.x86_64  Fri 05 Sep 2025 10:00:00\n", "rpm", "rdma-core", "51.0-1.el9"),
    ],
)
def test_four_formats_of_a_package_list_are_parsed(text: str, manager: str, name: str, version: str):
    assert parse_packages(text, manager) == {name: Package(name, version, manager)}


def test_a_removed_package_is_not_installed():
    text = "nvidia-peer-memory\t1.3-0\tall\trc \nrdma-core\t50.0\tamd64\tii \n"

    assert list(parse_packages(text, "dpkg")) == ["rdma-core"]


def test_without_a_list_packages_are_unknown():
    with pytest.raises(EvidenceMissing):
        installed(Node(MemoryHost(complete=True)))
    with pytest.raises(EvidenceMissing):
        installed(Node(MemoryHost(commands={PACKAGES_DPKG.argv: "dpkg-query: error: no such file"})))


def test_rpm_is_used_where_dpkg_lists_nothing():
    node = Node(MemoryHost(commands={PACKAGES_RPM.argv: "ucx\t1.18.0-1\tx86_64\tii\n"}))

    assert installed(node)["ucx"].version == "1.18.0-1"


TREE = {
    f"var/lib/dkms/nvidia/580.95.05/{KERNEL}/x86_64/module/nvidia-peermem.ko.zst": "",
    f"var/lib/dkms/nvidia/570.158.01/{KERNEL}/x86_64/module/nvidia.ko": "",
    "var/lib/dkms/mlnx-ofed-kernel/24.10/source/dkms.conf": "",
    "var/lib/dkms/mok.key": "",
}
LINKS = {f"var/lib/dkms/nvidia/kernel-{KERNEL}-x86_64": f"580.95.05/{KERNEL}/x86_64"}


def test_the_tree_of_dkms_shows_what_is_built_and_installed():
    found = dkms(Node(MemoryHost(TREE, links=LINKS)))

    assert set(found) == {
        DkmsModule("nvidia", "580.95.05", KERNEL, "x86_64", "installed"),
        DkmsModule("nvidia", "570.158.01", KERNEL, "x86_64", "built"),
        DkmsModule("mlnx-ofed-kernel", "24.10", "", "", "added"),
    }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            f"nvidia/580.65.06, {KERNEL}, x86_64: installed\n",
            DkmsModule("nvidia", "580.65.06", KERNEL, "x86_64", "installed"),
        ),
        (
            "nvidia, 470.57.02, 5.4.0-90, x86_64: installed (original_module exists)\n",
            DkmsModule("nvidia", "470.57.02", "5.4.0-90", "x86_64", "installed"),
        ),
        ("mlnx-ofed-kernel/24.10: added\n", DkmsModule("mlnx-ofed-kernel", "24.10", "", "", "added")),
    ],
)
def test_old_and_new_dkms_status_are_parsed(text: str, found: DkmsModule):
    assert parse_dkms_status(text) == (found,)


def test_an_error_text_is_not_a_status():
    with pytest.raises(FormatError):
        parse_dkms_status("Error! Could not locate dkms.conf file.\n")


@given(st.text())
def test_any_text_is_a_status_or_refused(text: str):
    with contextlib.suppress(FormatError):
        parse_dkms_status(text)
    with contextlib.suppress(FormatError):
        parse_packages(text, "rpm")
    with contextlib.suppress(FormatError):
        parse_ofed_info(text)


def test_no_dkms_is_absent_and_not_collected_is_not():
    with pytest.raises(EvidenceAbsent):
        dkms(Node(MemoryHost(complete=True)))
    status = Node(MemoryHost(commands={DKMS_STATUS.argv: "nvidia/580.65.06: added\n"}))

    assert dkms(status)[0].state == "added"


def test_what_dkms_built_belongs_to_dkms():
    node = Node(MemoryHost(TREE, links=LINKS))

    found = owner(node, f"lib/modules/{KERNEL}/updates/dkms/nvidia-peermem.ko.zst")

    assert found == Package("nvidia", "580.95.05", "dkms")


def test_dpkg_shows_the_owner_with_and_without_usr():
    said = "linux-modules-nvidia-580-open-x: /lib/modules/6.8/kernel/nvidia-580-open/nvidia.ko\n"
    node = Node(MemoryHost(commands={OWNERS_DPKG.argv: said}, complete=True))

    found = owner(node, "usr/lib/modules/6.8/kernel/nvidia-580-open/nvidia.ko")

    assert found.name == "linux-modules-nvidia-580-open-x"
    with pytest.raises(EvidenceAbsent):
        owner(node, "lib/modules/6.8/extra/nvidia.ko")


@pytest.mark.parametrize(
    ("packages", "found"),
    [
        ("kmod-nvidia-open-dkms\t580.95.05-1\tx86_64\tii\n", "kmod-nvidia-open-dkms"),
        ("nvidia-persistenced\t580.95.05-1\tx86_64\tii\n", None),
    ],
)
def test_where_only_package_names_are_known_they_decide(packages: str, found: str | None):
    node = Node(MemoryHost(commands={PACKAGES_RPM.argv: packages}, absent={"var/lib/dkms"}))

    if found is None:
        with pytest.raises(EvidenceAbsent):
            owner(node, "lib/modules/5.14/extra/nvidia.ko")
    else:
        assert owner(node, "lib/modules/5.14/extra/nvidia.ko").name == found
    with pytest.raises(EvidenceMissing):
        owner(node, "lib/modules/5.14/extra/other.ko")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("MLNX_OFED_LINUX-24.10-0.7.0.0:\n", Ofed("mlnx-ofed", "24.10-0.7.0.0")),
        ("OFED-internal-25.01-0.6.0:\n", Ofed("doca-ofed", "25.01-0.6.0")),
    ],
)
def test_ofed_info_shows_the_stack(text: str, found: Ofed):
    node = Node(
        MemoryHost({"proc/modules": "mlx_compat 1 0 - Live 0x0 (OE)\n"}, commands={OFED_INFO.argv: text})
    )

    assert ofed(node) == found


def test_without_its_compatibility_module_the_stack_is_the_kernels_own():
    files = {
        "proc/modules": "mlx5_core 1 0 - Live 0x0\n",
        "proc/sys/kernel/osrelease": KERNEL,
        f"lib/modules/{KERNEL}/modules.dep": "kernel/drivers/mlx5_core.ko:\n",
    }

    assert ofed(Node(MemoryHost(files, complete=True))).kind == "inbox"
