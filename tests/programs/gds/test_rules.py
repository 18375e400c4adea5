"""GPUDirect Storage: nvidia-fs, the kernel's P2PDMA, and the compatibility mode of cuFile."""

from __future__ import annotations

import pytest

from gdrkit.programs.gds.consumer import GDS
from gdrkit.programs.gds.facts import CONFIGURATION, cufile_property
from gdrkit.programs.gds.rules import (
    gds_compat_mode,
    gds_p2pdma_off,
    nvidia_fs_not_loaded,
    nvidia_fs_symbols_missing,
)
from gdrkit.rules.rule import NVIDIA_FS, P2PDMA, Passed
from gdrkit.verdict.cells import cells_of
from tests.rules.machines import (
    Files,
    does_not_apply,
    driver,
    failed,
    kernel_log,
    loaded,
    missing,
    node,
    outcome,
    passes,
)

PARAMS = "proc/driver/nvidia/params"


def cufile(*properties: str) -> dict[str, bytes | str]:
    """A cufile.json as the package installs it, with comments."""
    shown = "".join(f"            {one},\n" for one in properties)
    text = (
        '{\n    "properties": {\n            // max IO chunk size (parameter should be multiples of 64K)\n'
        f'            "max_direct_io_size_kb" : 16384,\n{shown}            "use_poll_mode" : false\n'
        "    }\n}\n"
    )
    return {CONFIGURATION: text}


# -- nvidia-fs -----------------------------------------------------------------------------------------


def test_without_nvidia_fs_cufile_lacks_one_of_two_ways():
    found = failed(node(loaded("nvidia", "nvidia_uvm")), nvidia_fs_not_loaded)

    assert found.seen == "nvidia_fs is not loaded"
    assert nvidia_fs_not_loaded.takes(None) == (NVIDIA_FS,)
    assert cells_of((NVIDIA_FS,)) == {("nvidia-fs", "gds")}


def test_a_loaded_nvidia_fs_passes():
    """Which drives and file systems it serves is another question, to which the evidence has no answer."""
    found = outcome(node(loaded("nvidia", "nvidia_fs")), nvidia_fs_not_loaded)

    assert isinstance(found, Passed) and [one.ask for one in found.lacking] == ["gdscheck -p"]
    assert does_not_apply(node(loaded("nouveau")), nvidia_fs_not_loaded)


def test_it_is_unknown_without_the_list_of_modules():
    machine = node({"dev/null": ""}, complete=False, without="proc/modules")

    assert missing(machine, nvidia_fs_not_loaded).source == "sys/module/nvidia/initstate"


CONTAINER = {".dockerenv": ""}


def test_a_container_sees_the_hosts_list_of_modules():
    """The kernel has one list for all: what it lacks is not loaded."""
    assert failed(node(CONTAINER, loaded("nvidia")), nvidia_fs_not_loaded)
    assert isinstance(outcome(node(CONTAINER, loaded("nvidia", "nvidia_fs")), nvidia_fs_not_loaded), Passed)


@pytest.mark.parametrize("modules", [{}, {"proc/modules": "virtio_net 65536 0 - Live 0x0\n"}])
def test_a_sandbox_with_another_list_does_not_show_whether_the_host_has_it(modules: Files):
    """The driver runs, and its list does not have that either."""
    found = missing(node(driver(), CONTAINER, modules), nvidia_fs_not_loaded)

    assert (found.source, found.ask) == ("nvidia_fs on the host", "lsmod | grep nvidia_fs, on the host")
    assert missing(node(driver(), CONTAINER, modules), nvidia_fs_symbols_missing).source == found.source


def test_its_own_folder_of_proc_shows_that_it_is_loaded():
    seen = {"proc/driver/nvidia-fs/version": "version: 2.24.2\n"}

    assert isinstance(outcome(node(driver(), CONTAINER, seen), nvidia_fs_not_loaded), Passed)
    assert GDS.installed(node(driver(), CONTAINER, seen)) is True


def test_on_a_host_without_a_list_it_is_not_loaded():
    assert failed(node(driver(), {".gdr": ""}), nvidia_fs_not_loaded)


def test_a_program_that_could_not_open_it_is_in_the_kernel_log():
    log = kernel_log("nvidia-fs:nvfs modules probe failed with error :-95")
    found = failed(node(loaded("nvidia", "nvidia_fs"), log=log), nvidia_fs_symbols_missing)

    assert found.seen.endswith("error :-95")


def test_other_lines_of_nvidia_fs_are_not_that():
    log = kernel_log(
        "nvidia-fs: Initializing nvfs driver module", "nvidia-fs: registered correctly with major 509"
    )

    assert passes(node(loaded("nvidia", "nvidia_fs"), log=log), nvidia_fs_symbols_missing)


def test_a_log_that_lost_its_beginning_decides_nothing():
    machine = node(loaded("nvidia", "nvidia_fs"), log=kernel_log(from_boot=False))

    assert missing(machine, nvidia_fs_symbols_missing).source == "dmesg"
    assert does_not_apply(node(loaded("nvidia")), nvidia_fs_symbols_missing)


# -- the compatibility mode ----------------------------------------------------------------------------


def test_the_configuration_can_force_it():
    found = failed(node(cufile('"force_compat_mode" : true')), gds_compat_mode)

    assert (found.seen, found.subject) == ("force_compat_mode: true", f"/{CONFIGURATION}")
    assert gds_compat_mode.takes(None) == GDS.own("nvidia-fs", "p2pdma")


def test_so_can_the_environment():
    machine = node(cufile(), {"etc/environment": "CUFILE_FORCE_COMPAT_MODE=true\n"})

    assert failed(machine, gds_compat_mode).seen == "CUFILE_FORCE_COMPAT_MODE=true"


@pytest.mark.parametrize(
    "files",
    [
        cufile('"allow_compat_mode": true'),  # it may, where nothing else works
        cufile('"force_compat_mode": false'),
        cufile('// "force_compat_mode": true'),
        {"etc/environment": "CUFILE_FORCE_COMPAT_MODE=false\n"},
        {},
    ],
)
def test_that_it_is_allowed_does_not_force_it(files: Files):
    assert passes(node(files), gds_compat_mode)


def test_it_is_unknown_without_the_configuration():
    assert missing(node(complete=False), gds_compat_mode).source == CONFIGURATION


# -- the kernel's P2PDMA -------------------------------------------------------------------------------


ON = cufile('"use_pci_p2pdma": true')
STATIC = {PARAMS: 'RegistryDwords: "RMForceStaticBar1=1;RmForceDisableIomapWC=1;"\n'}
LINUX_6_8 = {"proc/sys/kernel/osrelease": "6.8.0-45-generic"}


def test_with_all_that_it_needs_it_is_on():
    machine = node(driver("570.158.01"), ON, STATIC, LINUX_6_8)

    assert passes(machine, gds_p2pdma_off)
    assert gds_p2pdma_off.takes(None) == (P2PDMA,)


def test_the_first_kernel_and_the_first_driver_that_have_it_are_enough():
    oldest = {"proc/sys/kernel/osrelease": "6.2.0"}

    assert passes(node(driver("565.57.01"), ON, STATIC, oldest), gds_p2pdma_off)


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ((driver("560.35.03"),), "the open driver 560.35.03"),
        ((driver("570.158.01", open_modules=False), STATIC), "the proprietary driver 570.158.01"),
        ((cufile('"use_pci_p2pdma": false'),), "use_pci_p2pdma is not true"),
        ((cufile(),), "use_pci_p2pdma is not true"),
        (
            ({PARAMS: 'RegistryDwords: "PeerMappingOverride=1;"\n'},),
            "RegistryDwords has no RMForceStaticBar1=1",
        ),
        (({"proc/sys/kernel/osrelease": "5.15.0-91-generic"},), "Linux 5.15"),
        (({"proc/sys/kernel/osrelease": "6.1.0-44-amd64"},), "Linux 6.1"),
        ((driver("564.99"),), "the open driver 564.99"),
    ],
)
def test_without_one_of_them_it_is_off(changes: tuple[Files, ...], seen: str):
    machine = node(driver("570.158.01"), ON, STATIC, LINUX_6_8, *changes)

    assert failed(machine, gds_p2pdma_off).seen == seen


def test_a_variable_can_turn_it_on_in_place_of_the_configuration():
    told = {"etc/environment": "CUFILE_USE_PCIP2PDMA=true\n"}
    off = {"etc/environment": "CUFILE_USE_PCIP2PDMA=false\n"}
    machine = (driver("570.158.01"), cufile('"use_pci_p2pdma": false'), STATIC, LINUX_6_8)

    assert passes(node(*machine, told), gds_p2pdma_off)
    assert failed(node(*machine, off), gds_p2pdma_off).seen == "use_pci_p2pdma is not true"


def test_arm_needs_no_static_mapping():
    arm = {"proc/sys/kernel/arch": "aarch64", PARAMS: 'RegistryDwords: ""\n'}

    assert passes(node(driver("570.158.01"), ON, LINUX_6_8, arm), gds_p2pdma_off)


def test_p2pdma_is_unknown_without_the_configuration():
    machine = node(driver("570.158.01"), STATIC, complete=False)

    assert missing(machine, gds_p2pdma_off).source == CONFIGURATION
    assert does_not_apply(node(), gds_p2pdma_off)


def test_a_property_is_read_outside_comments_only():
    assert cufile_property(node(ON), "use_pci_p2pdma") is True
    assert cufile_property(node(cufile('// "use_pci_p2pdma": true')), "use_pci_p2pdma") is None
    assert cufile_property(node(), "use_pci_p2pdma") is None


# -- is it installed? ----------------------------------------------------------------------------------


def test_it_is_installed_where_library_or_module_is():
    library = {"usr/local/cuda/lib64/libcufile.so.0": ""}

    assert GDS.installed(node(library)) is True
    assert GDS.installed(node(loaded("nvidia_fs"))) is True
    assert GDS.installed(node()) is False
