"""Findings about the NVIDIA kernel driver itself."""

from __future__ import annotations

import pytest

from gdrkit.evidence import MissingReason
from gdrkit.facts.commands import OWNERS_DPKG
from gdrkit.report.here import advice_here
from gdrkit.rules.driver_mismatch import driver_mismatch
from gdrkit.rules.driver_modified import driver_modified
from gdrkit.rules.driver_not_loaded import driver_not_loaded
from gdrkit.rules.driver_proprietary import driver_proprietary
from gdrkit.verdict.cells import paths_closed_by
from tests.module_builder import build_module
from tests.rules.hardware import OF_A_GPU
from tests.rules.machines import (
    Files,
    does_not_apply,
    driver,
    failed,
    installed,
    loaded,
    missing,
    node,
    passes,
)

GPU_FILES = {
    "sys/bus/pci/devices/0000:1b:00.0/vendor": "0x10de\n",
    "sys/bus/pci/devices/0000:1b:00.0/device": "0x2330\n",
    "sys/bus/pci/devices/0000:1b:00.0/class": "0x030200\n",
}


# -- driver-not-loaded -------------------------------------------------------------------------------------


def test_a_gpu_without_its_driver_has_no_path_not_even_through_host_memory():
    found = failed(node(GPU_FILES), driver_not_loaded)

    assert "not loaded" in found.seen
    assert set(paths_closed_by(driver_not_loaded.takes("node"))) > {*OF_A_GPU, "nvlink", "staged", "socket"}


def test_nouveau_is_named_if_it_holds_the_gpu():
    assert "nouveau" in failed(node(GPU_FILES, loaded("nouveau")), driver_not_loaded).seen


def test_a_loaded_driver_passes_and_its_helpers_alone_do_not():
    assert passes(node(loaded("nvidia", "nvidia_uvm")), driver_not_loaded)
    assert failed(node(GPU_FILES, loaded("nvidia_drm_fake", "nvidiafb")), driver_not_loaded)


def test_a_machine_without_a_gpu_needs_no_driver():
    other = {path: text.replace("0x10de", "0x8086") for path, text in GPU_FILES.items()}

    assert does_not_apply(node(other), driver_not_loaded)


def test_without_a_list_of_modules_it_is_unknown():
    evidence = missing(node(GPU_FILES, complete=False, without="proc/modules"), driver_not_loaded)

    assert evidence.why is MissingReason.NOT_COLLECTED


POLICY = "sos_commands/kubernetes/policy.yaml"


def policy(driver: str) -> Files:
    return {POLICY: f"kind: ClusterPolicy\nspec:\n  driver: {driver}\n"}


@pytest.mark.parametrize(
    ("files", "looks_at"),
    [
        (policy("{}"), "`kubectl -n gpu-operator logs -l app=nvidia-driver-daemonset -c nvidia-driver-ctr"),
        ({"run/nvidia/driver/etc/os-release": ""}, "-l app=nvidia-driver-daemonset -o wide`"),
        ({**policy("{}"), "etc/os-release": "ID=rhcos\n"}, "kubectl -n nvidia-gpu-operator logs"),
        ({"etc/os-release": "ID=talos\n"}, "`talosctl -n NODE dmesg`"),
        ({"etc/os-release": "ID=bottlerocket\n"}, "`apiclient get os`"),
        ({"etc/os-release": "ID=cos\n"}, "kubectl -n kube-system get pods"),
    ],
)
def test_where_no_person_loads_the_driver_what_does_is_looked_at(files: Files, looks_at: str):
    machine = node(GPU_FILES, files)
    found = failed(machine, driver_not_loaded)

    assert looks_at in found.advice and "modprobe" not in found.advice
    assert looks_at in advice_here(machine, driver_not_loaded.code, found.advice)


@pytest.mark.parametrize(
    "files",
    [policy("{enabled: false}"), {"etc/os-release": "ID=ubuntu\n"}, {"etc/os-release": "ID=flatcar\n"}],
)
def test_a_driver_of_the_host_is_not_looked_for_in_a_pod(files: Files):
    """Also where the operator is there and its driver is turned off."""
    assert "kubectl" not in failed(node(GPU_FILES, files), driver_not_loaded).advice


# -- driver-proprietary ------------------------------------------------------------------------------------


def test_proprietary_modules_block_only_dmabuf():
    assert "proprietary" in failed(node(driver(open_modules=False)), driver_proprietary).seen
    assert paths_closed_by(driver_proprietary.takes("node")) == ("dmabuf",)


def test_on_an_operators_node_its_policy_is_changed_and_no_package():
    container = {"run/nvidia/driver/etc/os-release": ""}
    found = failed(node({**driver(open_modules=False), **container}), driver_proprietary)

    assert "ClusterPolicy" in found.advice and "install" not in found.advice
    assert failed(node(driver(open_modules=False)), driver_proprietary).advice == ""


def test_open_modules_pass():
    assert passes(node(driver()), driver_proprietary)


def test_proprietary_modules_on_disk_count_if_none_is_loaded():
    files = installed({"updates/nvidia.ko": build_module("nvidia", license="NVIDIA")})

    assert "on disk" in failed(node(files), driver_proprietary).seen


def test_open_modules_on_disk_are_named_where_the_proprietary_ones_still_run():
    def beside(license: str) -> Files:
        return installed({"updates/nvidia.ko": build_module("nvidia", license=license)})

    running = driver(open_modules=False)

    assert failed(node(running, beside("Dual MIT/GPL")), driver_proprietary).seen.endswith(
        "open ones are on disk"
    )
    assert failed(node(running, beside("NVIDIA")), driver_proprietary).seen == "proprietary modules, loaded"


def test_a_node_without_a_driver_is_not_applicable():
    assert does_not_apply(node(installed({})), driver_proprietary)


def test_a_flavour_that_was_not_collected_is_unknown():
    assert missing(node(complete=False), driver_proprietary).source == "proc/driver/nvidia/version"


# -- driver-modified ---------------------------------------------------------------------------------------


def test_parameters_of_a_fork_show_a_modified_driver():
    params = {"proc/driver/nvidia/params": "ResmanDebugLevel: 1\nExperimentalDmaBufP2P: 1\n"}

    assert "ExperimentalDmaBufP2P" in failed(node(driver(), params), driver_modified).seen


SELF_BUILT = {
    "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  "
    "580.159.04  Release Build  (nixbld@)\n"
}


def test_a_build_that_no_package_owns_is_modified():
    files = installed({"extra/nvidia.ko": build_module("nvidia")})
    machine = node(driver(), SELF_BUILT, files, said={OWNERS_DPKG: "libc6: /usr/lib/libc.so.6\n"})

    assert "no package owns" in failed(machine, driver_modified).seen


def test_a_distributions_own_build_is_not_modified():
    files = installed({"updates/nvidia.ko": build_module("nvidia")})
    owned = "linux-modules-nvidia-580-open: /lib/modules/6.1.0-56-amd64/updates/nvidia.ko\n"
    machine = node(driver(), SELF_BUILT, files, said={OWNERS_DPKG: owned})

    assert passes(machine, driver_modified)


def test_nvidias_own_build_passes_without_reading_packages():
    assert passes(node(driver()), driver_modified)


def test_a_build_of_unknown_owner_is_unknown():
    files = installed({"extra/nvidia.ko": build_module("nvidia")})

    assert missing(node(driver(), SELF_BUILT, files), driver_modified)


def test_what_hides_the_traces_of_a_fork_is_unknown():
    """A fork can keep NVIDIA's resource manager and its builder; then only the parameters show it."""
    assert missing(node(driver(), without="proc/driver/nvidia/params", complete=False), driver_modified)
    version = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n"
    assert missing(node(driver(), {"proc/driver/nvidia/version": version}), driver_modified)


def test_proprietary_modules_name_no_builder():
    assert passes(node(driver(open_modules=False)), driver_modified)


# -- driver-mismatch ---------------------------------------------------------------------------------------

LIB = "usr/lib/x86_64-linux-gnu"


def linked(version: str, *parts: Files):
    return node(
        driver("570.158.01"),
        {f"{LIB}/libcuda.so.{version}": ""},
        *parts,
        links={f"{LIB}/libcuda.so.1": f"libcuda.so.{version}"},
    )


def test_libraries_of_another_version_block_everything():
    found = failed(linked("570.172.08"), driver_mismatch)

    assert found.subject == "libcuda"
    assert {"dmabuf", "staged", "socket"} <= set(paths_closed_by(found.takes or ()))  # no program starts


def test_module_files_of_another_version_block_nothing_yet():
    files = installed({"updates/nvidia.ko": build_module("nvidia", modinfo={"version": "570.172.08"})})
    found = failed(linked("570.158.01", files), driver_mismatch)

    assert (found.subject, paths_closed_by(found.takes)) == ("nvidia", ())


@pytest.mark.parametrize("version", ["570.158.01"])
def test_one_version_throughout_passes(version: str):
    files = installed({"updates/nvidia.ko": build_module("nvidia", modinfo={"version": version})})

    assert passes(linked(version, files), driver_mismatch)


def test_a_host_without_libcuda_has_no_mismatch():
    assert passes(node(driver()), driver_mismatch)


def test_libcuda_not_collected_beside_libibverbs_is_unknown():
    files = {**driver(), f"{LIB}/libibverbs.so.1": ""}

    assert missing(node(files, complete=False), driver_mismatch).source == "libcuda"


def test_a_listed_folder_of_libibverbs_is_enough():
    machine = node(driver(), {f"{LIB}/libibverbs.so.1": ""}, complete=False, absent={f"{LIB}/libcuda.so.1"})

    assert passes(machine, driver_mismatch)


def test_libraries_that_were_not_collected_are_reported_by_another_rule():
    assert passes(node(driver(), complete=False), driver_mismatch)
