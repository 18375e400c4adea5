"""`gdr config program-env`, `container` and `imex` for nodes: what is set or given follows from the node."""

from __future__ import annotations

import subprocess

import pytest

from gdrkit.facts.modules import PEERMEM, is_loaded
from gdrkit.facts.wheels import LibraryCopy
from gdrkit.node import Node
from gdrkit.programs.mooncake.consumer import mooncake_copies
from gdrkit.repair.config import ConfigOutput, ConfigRefused, ConfigRequest, generate
from gdrkit.repair.config.output import rendered
from tests.repair.config.outputs import node
from tests.repair.remedies.test_pairs import in_a_rack


def written(kind: str, here: Node | None, **more: str) -> str:
    found = generate(kind, ConfigRequest(node=here, **more))
    assert isinstance(found, ConfigOutput)
    return rendered(found)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("debian-12-renamed", "export NVSHMEM_HCA_PREFIX='rocep'\n"),
        ("acs-redirect", "# NVSHMEM_HCA_PREFIX is not set: the active devices have mlx5 in their names"),
    ],
)
def test_nvshmem_is_given_a_prefix_only_for_devices_with_other_names(name, line):
    assert line in written("program-env", node(name), consumer="nvshmem")


def test_the_nics_queues_stay_in_host_memory_where_the_kernel_takes_none_in_gpu_memory():
    old = node("ubuntu-22.04-peer-api").after("unloaded", [is_loaded.becomes(False, PEERMEM)])
    setting = "export NVSHMEM_IBGDA_FORCE_NIC_BUF_MEMTYPE='hostmem'\n"
    assert setting in written("program-env", old, consumer="nvshmem")
    assert setting not in written("program-env", node("acs-redirect"), consumer="nvshmem")


@pytest.mark.parametrize(("path", "value"), [("dmabuf", "0"), ("peermem", "1")])
def test_mooncake_is_given_the_path_of_the_node(path, value):
    text = written("program-env", node("acs-redirect"), consumer="mooncake", path=path)
    assert f"export WITH_NVIDIA_PEERMEM='{value}'\n" in text


def test_a_release_of_mooncake_without_the_switch_is_given_none():
    copy = mooncake_copies.becomes((LibraryCopy("0.3.10", "a wheel"),))
    text = written("program-env", node("acs-redirect").after("x", [copy]), consumer="mooncake")
    assert "# WITH_NVIDIA_PEERMEM is not set: Mooncake 0.3.10 has it from its build" in text


@pytest.mark.parametrize("consumer", ["nccl", "verbs"])
def test_a_program_without_such_variables_is_refused_with_those_that_have_some(consumer):
    found = generate("program-env", ConfigRequest(consumer=consumer))
    assert isinstance(found, ConfigRefused) and "mooncake, nccl-gin" in found.instead


def test_a_container_is_given_an_imex_channel_in_a_rack_and_not_elsewhere():
    rack, pod = in_a_rack(), "kubernetes"
    assert "  --device=/dev/nvidia-caps-imex-channels/channel0\n" in written("container", rack)
    assert "resourceClaimTemplateName: gdrkit-imex-channel\n" in written("container", rack, form=pod)
    assert "      name: gdrkit-imex-channel\n" in written("imex", rack)
    for form in ("docker", pod):
        assert "imex" not in written("container", node("acs-redirect"), form=form)


def test_the_options_for_docker_are_words_of_a_shell_in_spite_of_the_reasons_between_them():
    script = written("container", in_a_rack()) + 'printf "%s\\n" "${gdr_options[@]}"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "--gpus=all",
        "--device=/dev/infiniband",
        "--ulimit=memlock=-1",
        "--device=/dev/nvidia-caps-imex-channels/channel0",
    ]
