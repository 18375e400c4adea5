"""The loaded NVIDIA driver and its files."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence import Confidence, EvidenceAbsent, EvidenceMissing, MissingReason
from gdrkit.facts.driver import (
    DriverBuild,
    disk_driver_version,
    driver_build,
    driver_flavour,
    driver_parameters,
    driver_path,
    driver_version,
    gpu_information,
    parse_banner,
    peermem_path,
)
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node
from tests.index_builder import with_indexes
from tests.memory_host import MemoryHost
from tests.module_builder import RELEASE, build_module

OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (nixbld@)  \n"
    "GCC version:  gcc version 15.3.0 (GCC)\n"
)
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n"
BANNERS = [
    (OPEN, DriverBuild("580.159.04", "open", "nixbld@")),
    (CLOSED, DriverBuild("535.129.03", "proprietary")),
    (
        "NVRM: loading NVIDIA UNIX Open Kernel Module for aarch64  570.124.04  Release Build  "
        "(dvs-builder@U22-I3-AE18-23-3)  Tue Feb 25 04:12:12 UTC 2025",
        DriverBuild("570.124.04", "open", "dvs-builder@U22-I3-AE18-23-3"),
    ),
]


@pytest.mark.parametrize(("text", "build"), BANNERS)
def test_the_banner_shows_version_flavour_and_builder(text: str, build: DriverBuild):
    assert parse_banner(text) == build


@given(st.text())
def test_any_text_is_a_banner_or_refused(text: str):
    with contextlib.suppress(FormatError):
        assert parse_banner(text).version


def test_an_error_text_in_place_of_the_file_is_garbled_not_absent():
    node = Node(MemoryHost({"proc/driver/nvidia/version": "cat: permission denied"}))

    with pytest.raises(EvidenceMissing) as caught:
        driver_build(node)

    assert caught.value.missing.why is MissingReason.GARBLED


def test_no_driver_is_absent_only_where_it_was_looked_for():
    with pytest.raises(EvidenceAbsent):
        driver_version(Node(MemoryHost(complete=True)))
    with pytest.raises(EvidenceMissing) as caught:
        driver_version(Node(MemoryHost()))

    assert caught.value.missing.why is MissingReason.NOT_COLLECTED


def test_pasted_output_of_nvidia_smi_shows_the_version():
    smi = "Driver Version                            : 580.126.09\nCUDA Version : 13.0\n"

    assert driver_version(Node(MemoryHost(commands={("nvidia-smi", "-q"): smi}))) == "580.126.09"


def test_the_kernel_log_shows_the_flavour_with_less_confidence():
    node = Node(MemoryHost(commands={("dmesg",): f"[    9.1] {BANNERS[2][0]}\n"}))

    assert driver_flavour(node) == "open"
    assert node.trail(driver_flavour).confidence is Confidence.LIKELY


@pytest.mark.parametrize(("taint", "flavour"), [("POE", "proprietary"), ("OE", "open")])
def test_taint_shows_the_flavour(taint: str, flavour: str):
    node = Node(MemoryHost({"proc/modules": f"nvidia 14299136 2 nvidia_uvm, Live 0xffff ({taint})\n"}))

    assert driver_flavour(node) == flavour


MODINFO = (
    "filename:       /lib/modules/5.15.0-1089-azure/updates/dkms/nvidia.ko\nversion:        550.144.06\n"
)


@pytest.mark.parametrize(("license", "flavour"), [("NVIDIA", "proprietary"), ("Dual MIT/GPL", "open")])
def test_the_licence_that_modinfo_prints_shows_the_flavour_of_what_is_loaded(license: str, flavour: str):
    commands = {("modinfo", "nvidia"): f"{MODINFO}license:        {license}\n"}
    node = Node(MemoryHost({"proc/modules": "nvidia 14299136 2 - Live 0xffff\n"}, commands=commands))

    assert driver_flavour(node) == flavour
    assert node.trail(driver_flavour).confidence is Confidence.LIKELY


def test_an_excerpt_of_modinfo_without_the_licence_shows_no_flavour():
    commands = {("modinfo", "nvidia"): MODINFO}
    node = Node(MemoryHost({"proc/modules": "nvidia 14299136 2 - Live 0xffff\n"}, commands=commands))

    with pytest.raises(EvidenceMissing):
        driver_flavour(node)


@pytest.mark.parametrize(
    ("banner", "letters", "flavour"),
    [(OPEN, "OE", "open"), (OPEN, "O", "open"), (CLOSED, "POE", "proprietary"), (OPEN, "", "open")],
)
def test_a_banner_that_the_taint_contradicts_shows_no_flavour(banner: str, letters: str, flavour: str):
    line = "nvidia 14299136 2 nvidia_uvm, Live 0xffff"
    files = {"proc/driver/nvidia/version": banner, "proc/modules": f"{line} ({letters})\n"}
    assert driver_flavour(Node(MemoryHost(files))) == flavour
    files["proc/modules"] = f"{line} ({'O' if 'P' in letters else 'PO'})\n"
    with pytest.raises(EvidenceMissing) as caught:
        driver_flavour(Node(MemoryHost(files)))
    assert caught.value.missing.why is MissingReason.UNDECIDED


def test_parameters_lose_their_quotes():
    text = 'ResmanDebugLevel: 4294967295\nRegistryDwords: "a=1;b=2"\nRmMsg: ""\n'
    node = Node(MemoryHost({"proc/driver/nvidia/params": text}))

    assert driver_parameters(node) == {
        "ResmanDebugLevel": "4294967295",
        "RegistryDwords": "a=1;b=2",
        "RmMsg": "",
    }


@pytest.mark.parametrize("text", ["", "no such file\n"])
def test_an_error_text_is_not_parameters(text: str):
    with pytest.raises(EvidenceMissing):
        driver_parameters(Node(MemoryHost({"proc/driver/nvidia/params": text})))


def test_information_of_a_gpu_has_the_drivers_names():
    text = "Model: \t\t NVIDIA H200\nIRQ:   \t\t 41\nBus Location: \t 0000:00:06.0\nGPU Excluded:\t No\n"
    node = Node(MemoryHost({"proc/driver/nvidia/gpus/0000:00:06.0/information": text}))

    assert gpu_information(node, "0000:00:06.0")["Bus Location"] == "0000:00:06.0"


def installed(paths: dict[str, bytes], dep: str, **more: str) -> Node:
    files: dict[str, bytes | str] = {
        f"lib/modules/{RELEASE}/{path}": content for path, content in paths.items()
    }
    files |= {f"lib/modules/{RELEASE}/modules.dep": dep, "proc/sys/kernel/osrelease": RELEASE, **more}
    return Node(MemoryHost(with_indexes(files), complete=True))


def test_debians_renamed_peermem_is_found():
    node = installed(
        {"updates/dkms/nvidia-current-open-peermem.ko": build_module("nvidia_peermem")},
        "kernel/drivers/gpu/drm/drm.ko.xz:\nupdates/dkms/nvidia-current-open-peermem.ko:\n",
    )

    assert peermem_path(node) == f"lib/modules/{RELEASE}/updates/dkms/nvidia-current-open-peermem.ko"


def test_the_driver_containers_modules_are_found():
    path = f"run/nvidia/driver/lib/modules/{RELEASE}/kernel/drivers/video/nvidia-peermem.ko"
    node = installed({}, "kernel/net/x.ko:\n", **{path: "x"})

    assert peermem_path(node) == path


def test_no_driver_file_is_absent_only_where_the_container_was_looked_for_too():
    dep = {f"lib/modules/{RELEASE}/modules.dep": "kernel/a.ko:\n", "proc/sys/kernel/osrelease": RELEASE}

    with pytest.raises(EvidenceAbsent):
        driver_path(Node(MemoryHost(dep, complete=True)))
    with pytest.raises(EvidenceMissing) as caught:
        driver_path(Node(MemoryHost(dep)))

    assert caught.value.missing.source.startswith("run/nvidia/driver")


def test_the_version_on_disk_is_that_of_the_file():
    module = build_module("nvidia", license="Dual MIT/GPL", modinfo={"version": "570.158.01"})
    node = installed({"updates/nvidia.ko": module}, "updates/nvidia.ko:\n")

    assert disk_driver_version(node) == "570.158.01"
