"""GDRCopy: its module, the module's device file, and versions and flavours that fit each other."""

from __future__ import annotations

import pytest

from gdrkit.facts.commands import NVIDIA_SMI
from gdrkit.node import if_missing
from gdrkit.programs.gdrcopy.consumer import GDRCOPY
from gdrkit.programs.gdrcopy.facts import DEVICE, gdrdrv_flavour, gdrdrv_version
from gdrkit.programs.gdrcopy.rules import (
    gdrcopy_built_for_proprietary,
    gdrcopy_not_loaded,
    gdrcopy_version_mismatch,
)
from gdrkit.rules.rule import GDRDRV
from gdrkit.verdict.cells import cells_of
from tests.rules.machines import does_not_apply, driver, failed, kernel_log, loaded, missing, node, passes

LIBRARIES = "usr/lib/x86_64-linux-gnu"


def library(version: str) -> dict[str, bytes | str]:
    return {f"{LIBRARIES}/libgdrapi.so.{version}": ""}


def links(version: str) -> dict[str, str]:
    return {f"{LIBRARIES}/libgdrapi.so.2": f"libgdrapi.so.{version}"}


def with_module(version: str = "2.5") -> dict[str, bytes | str]:
    return {**loaded("nvidia", "gdrdrv"), "sys/module/gdrdrv/version": f"{version}\n"}


def cuda(version: str) -> dict[object, str]:
    return {NVIDIA_SMI: f"Driver Version                            : 610.10\nCUDA Version    : {version}\n"}


# -- is it there? --------------------------------------------------------------------------------------


def test_without_the_module_the_cpu_cannot_map_gpu_memory():
    found = failed(node(loaded("nvidia", "gdrdrv_test")), gdrcopy_not_loaded)

    assert found.seen == "gdrdrv is not loaded"
    assert gdrcopy_not_loaded.takes(None) == (GDRDRV,)


def test_without_nvidias_driver_that_is_what_is_missing():
    assert does_not_apply(node(loaded("nouveau")), gdrcopy_not_loaded)


def test_it_takes_nothing_from_any_program_but_gdrcopy():
    """UCX and libfabric copy short messages in another way; nothing that they send becomes staged."""
    assert cells_of((GDRDRV,)) == {("cpu-mapped", "gdrcopy")}


def test_the_module_alone_is_not_enough():
    """`modprobe gdrdrv` does not make the device file where udev and the init script do not."""
    found = failed(node(with_module(), {"dev/nvidia0": ""}), gdrcopy_not_loaded)

    assert (found.subject, found.seen) == (DEVICE, "gdrdrv is loaded, but /dev/gdrdrv is missing")


def test_module_and_device_file_are_enough():
    assert passes(node(with_module(), {DEVICE: ""}), gdrcopy_not_loaded)


@pytest.mark.parametrize(
    ("gdrcopy", "cuda_version", "enough"),
    [("2.6", "13.3", True), ("2.5", "13.3", False), ("2.6", "13.0", False)],
)
def test_gdrcopy_2_6_needs_no_module_with_cuda_13_3(gdrcopy: str, cuda_version: str, enough: bool):
    machine = node(loaded("nvidia"), library(gdrcopy), links=links(gdrcopy), said=cuda(cuda_version))

    assert passes(machine, gdrcopy_not_loaded) is enough


def test_it_is_unknown_where_the_modules_or_the_device_files_were_not_collected():
    modules = node({"dev/null": ""}, complete=False, without="proc/modules")
    devices = node(with_module(), complete=False)

    assert missing(modules, gdrcopy_not_loaded).source == "sys/module/nvidia/initstate"
    assert missing(devices, gdrcopy_not_loaded).source == DEVICE


# -- do the versions fit? ------------------------------------------------------------------------------


def test_a_module_before_2_0_is_refused_by_the_library():
    machine = node(with_module("1.4"), library("2.4"), links=links("2.4"))

    assert failed(machine, gdrcopy_version_mismatch).seen == "gdrdrv 1.4, and libgdrapi 2.4"


@pytest.mark.parametrize("module", ["2.0", "2.3", "2.6"])
def test_all_releases_from_2_0_on_accept_each_other(module: str):
    machine = node(with_module(module), library("2.5"), links=links("2.5"))

    assert passes(machine, gdrcopy_version_mismatch)


def test_versions_are_not_compared_where_one_side_is_missing():
    assert does_not_apply(node(library("2.5"), links=links("2.5")), gdrcopy_version_mismatch)
    assert does_not_apply(node(with_module()), gdrcopy_version_mismatch)


def test_versions_are_unknown_where_the_libraries_were_not_collected():
    machine = node(with_module(), complete=False)

    assert missing(machine, gdrcopy_version_mismatch).source == "libgdrapi"


# -- does the flavour fit? -----------------------------------------------------------------------------


def params(flavour: str) -> dict[str, bytes | str]:
    """NVIDIA/gdrcopy v2.5 src/gdrdrv/gdrdrv.c, gdrdrv_procfs_params_read()."""
    return {"proc/driver/gdrdrv/params": f"Version: 2.5\nBuilt for NVIDIA driver flavor: {flavour}\n"}


@pytest.mark.parametrize(("flavour", "open_modules"), [("proprietary", True), ("opensource", False)])
def test_a_module_for_the_other_flavour_is_found(flavour: str, open_modules: bool):
    machine = node(with_module(), driver(open_modules=open_modules), params(flavour))
    found = failed(machine, gdrcopy_built_for_proprietary)

    assert found.takes == ()  # some functions work
    assert (
        found.expected
        == f"built for the {'open' if open_modules else 'proprietary'} driver, which is loaded"
    )


@pytest.mark.parametrize(("flavour", "open_modules"), [("opensource", True), ("proprietary", False)])
def test_a_module_for_this_flavour_passes(flavour: str, open_modules: bool):
    machine = node(with_module(), driver(open_modules=open_modules), params(flavour))

    assert passes(machine, gdrcopy_built_for_proprietary)


def test_before_2_5_the_kernel_log_says_it():
    line = "gdrdrv:gdrdrv_init:loading gdrdrv version 2.4 built for proprietary NVIDIA driver"
    machine = node(with_module("2.4"), driver(), log=kernel_log(line))

    assert gdrdrv_flavour(machine) == "proprietary"


def test_the_flavour_is_unknown_where_neither_says_it():
    machine = node(
        with_module("2.3"), driver(), log=kernel_log("gdrdrv:gdrdrv_init:loading gdrdrv version 2.3")
    )

    assert missing(machine, gdrcopy_built_for_proprietary).source == "flavour of gdrdrv"
    assert does_not_apply(node(driver()), gdrcopy_built_for_proprietary)


# -- is it installed? ----------------------------------------------------------------------------------


def test_it_is_installed_where_library_or_module_is():
    assert GDRCOPY.installed(node(library("2.5"), links=links("2.5"))) is True
    assert GDRCOPY.installed(node(with_module())) is True
    assert GDRCOPY.installed(node()) is False
    assert GDRCOPY.installed(node(complete=False)) is None
    assert if_missing("", gdrdrv_version, node()) == ""
