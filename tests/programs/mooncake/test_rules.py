"""Mooncake's one way to register GPU memory, by release and setting."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Confidence
from gdrkit.programs.mooncake.consumer import MOONCAKE, only_path
from gdrkit.programs.mooncake.rules import mooncake_forces_dmabuf, mooncake_forces_peermem
from gdrkit.rules.capabilities import Path
from gdrkit.rules.engine import judge
from tests.rules.machines import environments, failed, missing, node, passes, wheel


def with_mooncake(*versions: str, setting: str | None = None):
    files = environments("mooncake_transfer_engine", versions, "mooncake")
    return node(files, {} if setting is None else {"etc/environment": f"WITH_NVIDIA_PEERMEM={setting}\n"})


@pytest.mark.parametrize(
    ("version", "setting", "path"),
    [
        ("0.3.5", None, "peermem"),
        ("0.3.10.post2", "0", "peermem"),  # a choice of the build: the variable is not read
        ("0.3.11rc1", None, "peermem"),
        ("0.3.11rc1", "0", "dmabuf"),
        ("0.3.11", None, "dmabuf"),
        ("0.3.11", "yes", "peermem"),
        ("0.3.11", "2", "dmabuf"),
        ("0.3.12", "2", "dmabuf"),  # what is not true is false
        ("0.3.12", "enable", "dmabuf"),
        ("0.3.12", "", "dmabuf"),
        ("0.3.11.post1", None, "peermem"),
        ("0.3.12.post1", "off", "dmabuf"),
        ("0.3.13", None, None),  # not read
        ("0.3.13", "", None),
        ("0.3.13", "2", None),  # later, the default is left
        ("0.3.13", "No", "dmabuf"),
        ("0.3.13", "on", "peermem"),
    ],
)
def test_the_only_path_of_a_release(version: str, setting: str | None, path: str | None):
    assert only_path(version, setting) == path


def test_by_default_it_never_uses_a_dma_buf():
    found = failed(with_mooncake("0.3.12"), mooncake_forces_peermem)

    assert found.seen.endswith("without WITH_NVIDIA_PEERMEM uses only peermem")
    assert mooncake_forces_peermem.takes(None) == MOONCAKE.own(Path.DMABUF)
    assert passes(with_mooncake("0.3.12"), mooncake_forces_dmabuf)


def test_with_the_setting_it_never_uses_peermem():
    machine = with_mooncake("0.3.12", setting="0")

    assert failed(machine, mooncake_forces_dmabuf).expected.startswith("WITH_NVIDIA_PEERMEM=1")
    assert passes(machine, mooncake_forces_peermem)


def test_of_two_copies_one_takes_nothing_away():
    machine = with_mooncake("0.3.11", "0.3.10")

    assert failed(machine, mooncake_forces_peermem).takes == ()
    assert failed(machine, mooncake_forces_dmabuf).takes == ()


def test_where_none_is_installed_the_newest_that_was_read_is_assumed():
    machine = node()

    failed(machine, mooncake_forces_peermem)
    assert machine.confidence(judge, mooncake_forces_peermem, "node") is Confidence.ASSUMED
    assert MOONCAKE.installed(machine) is False


def test_where_a_python_environment_was_not_collected_none_is_assumed():
    machine = node({"etc/environment": ""}, complete=False)

    assert missing(machine, mooncake_forces_peermem).source == "Mooncake"
    assert missing(machine, mooncake_forces_dmabuf).source == "Mooncake"
    assert MOONCAKE.installed(machine) is None


def test_a_release_that_was_not_read_is_unknown():
    assert missing(with_mooncake("0.3.14"), mooncake_forces_peermem).source == "default of Mooncake 0.3.14"


def test_without_the_nodes_settings_it_is_unknown():
    machine = node(wheel("mooncake_transfer_engine-0.3.12", "mooncake"), complete=False)

    assert missing(machine, mooncake_forces_peermem).source == "etc/environment"


def test_a_build_without_cuda_is_not_a_copy():
    files = wheel("mooncake_transfer_engine_non_cuda-0.3.12")

    assert MOONCAKE.installed(node(files)) is False
    assert MOONCAKE.installed(with_mooncake("0.3.12")) is True
