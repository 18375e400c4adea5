"""UCX_TLS without cuda_copy, with which UCX recognises memory of a GPU."""

from __future__ import annotations

import pytest

from gdrkit.facts.commands import UCX_INFO
from gdrkit.node import Node
from gdrkit.programs.environment import UCX_CONF
from gdrkit.programs.nixl.consumer import NIXL
from gdrkit.programs.ucx.consumer import UCX
from gdrkit.programs.ucx.rules import ucx_lacks_dmabuf, ucx_lacks_verbs, ucx_transport_excluded
from gdrkit.rules.capabilities import DIRECT
from tests.evidence_nodes import diagnosed
from tests.memory_host import MemoryHost
from tests.rules.machines import does_not_apply, failed, missing, node, passes, rdma_device

SYSTEM = "etc/environment"


@pytest.mark.parametrize("value", ["rc", "rc,sm,self", "tcp", "^cuda", "^cuda_copy,tcp", "^all"])
def test_a_list_without_cuda_copy_loses_the_direct_paths(value: str):
    found = failed(node({SYSTEM: f"UCX_TLS={value}\n"}), ucx_transport_excluded, SYSTEM)

    assert found.takes == (*UCX.own(*DIRECT), *NIXL.own(*DIRECT))
    assert ucx_transport_excluded.takes(SYSTEM) == found.takes


def test_ucxs_own_file_counts_where_it_is_there_and_is_not_missed_elsewhere():
    found = failed(node({UCX_CONF: "UCX_TLS=rc\n"}), ucx_transport_excluded, UCX_CONF)

    assert found.takes == (*UCX.own(*DIRECT), *NIXL.own(*DIRECT))
    assert ucx_transport_excluded.takes(UCX_CONF) == ()


@pytest.mark.parametrize("value", ["rc,cuda", "rc_x,cuda_copy,cuda_ipc", "all", "^tcp", "", "^"])
def test_a_list_with_it_passes(value: str):
    assert passes(node({SYSTEM: f"UCX_TLS={value}\n"}), ucx_transport_excluded, SYSTEM)


def test_cuda_ipc_alone_is_not_cuda_copy():
    """cuda_ipc moves data between GPUs of one node, and recognises no memory."""
    failed(node({SYSTEM: "UCX_TLS=rc,cuda_ipc\n"}), ucx_transport_excluded, SYSTEM)


def test_without_the_setting_it_does_not_apply_and_without_the_file_it_is_unknown():
    assert does_not_apply(node({SYSTEM: "UCX_LOG_LEVEL=info\n"}), ucx_transport_excluded, SYSTEM)
    assert missing(node(complete=False), ucx_transport_excluded, SYSTEM).source == SYSTEM


def with_devices(value: str, **states: str) -> Node:
    """A node with these devices of one port each, and UCX_NET_DEVICES for all processes."""
    parts: list[MemoryHost | dict[str, bytes | str]] = [{SYSTEM: f"UCX_NET_DEVICES={value}\n"}]
    for number, (name, state) in enumerate(states.items()):
        address = f"0000:{18 + number}:00.0"
        folder = f"sys/devices/pci0000:15/0000:15:01.0/{address}/infiniband/{name}/ports/1"
        port = {"state": state, "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)"}
        files = {
            f"{folder}/{file}": f"{text}\n" for file, text in (*port.items(), ("link_layer", "InfiniBand"))
        }
        parts += [rdma_device(name, address), dict(files)]
    return node(*parts)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("mlx5_9:1", "allows no RDMA device of the node"),
        ("mlx5_1", "allows no RDMA device of the node"),  # the whole name counts: this is not mlx5_10
        ("mlx5_0:2", "allows no RDMA device of the node"),
        ("eth0", "allows no RDMA device of the node"),
        ("^mlx5_0,mlx5_7:1,mlx5_10", "allows no RDMA device of the node"),
        ("mlx5_7:1", "allows only mlx5_7, whose ports are not active"),
        ("^mlx5_0:1,mlx5_10", "allows only mlx5_7, whose ports are not active"),
    ],
)
def test_a_list_without_a_port_that_works_leaves_ucx_no_rdma(value: str, words: str):
    devices = {"mlx5_0": "4: ACTIVE", "mlx5_7": "1: DOWN", "mlx5_10": "4: ACTIVE"}
    found = failed(with_devices(value, **devices), ucx_transport_excluded, SYSTEM)

    assert found.seen == f"UCX_NET_DEVICES={value}, which {words}" and "mlx5_0:1" in found.expected
    assert set(found.takes or ()) > {*UCX.own(*DIRECT), *NIXL.own(*DIRECT)}


@pytest.mark.parametrize(
    "value", ["mlx5_0", "mlx5_7:1,mlx5_0:1", "all", "^mlx5_7", "mlx5_[0-7]:1", "mlx5_9:1,mlx5_0"]
)
def test_a_list_with_one_that_works_passes(value: str):
    """Where the GPU's own NIC is down, UCX uses another one that the list allows."""
    devices = {"mlx5_0": "4: ACTIVE", "mlx5_7": "1: DOWN"}
    assert passes(with_devices(value, **devices), ucx_transport_excluded, SYSTEM)


def test_a_list_is_not_the_cause_where_no_device_exists_or_works():
    assert does_not_apply(with_devices("mlx5_9:1"), ucx_transport_excluded, SYSTEM)
    assert passes(with_devices("mlx5_9:1", mlx5_0="1: DOWN"), ucx_transport_excluded, SYSTEM)


def test_ucx_uses_another_nic_where_the_own_one_is_down_and_nccl_does_not():
    programs = diagnosed("rail-down").consumers
    assert programs["ucx"].state == programs["nixl"].state == "blocked"
    assert (
        "another NIC that is up" in programs["ucx"].without
        and programs["nixl"].without == programs["ucx"].without
    )
    assert "another NIC that is up" not in programs["nccl"].without
    assert "another NIC" not in diagnosed("no-rdma-device").consumers["ucx"].without


def test_a_version_that_two_sources_contradict_is_unknown_and_one_that_none_shows_is_assumed():
    folder = "usr/lib/x86_64-linux-gnu"
    files = {f"{folder}/pkgconfig/ucx.pc": "Version: 1.14.1\n"}
    printed = f"# Library version: 1.12.1\n# Library path: /{folder}/libucs.so.0\n"

    assert "ucx.pc" in missing(node(files, said={UCX_INFO: printed}), ucx_lacks_dmabuf).source
    assert passes(node(files), ucx_lacks_dmabuf)
    assert passes(node(complete=False), ucx_lacks_dmabuf)


PLAIN = "# Library version: 1.22.0\n# Configured with: --disable-logging {} --with-cuda=/usr/local/cuda\n"


def test_a_build_without_verbs_is_named_and_closes_no_path_of_the_node():
    made = {
        option: node(said={UCX_INFO: PLAIN.format(option)}) for option in ("--without-verbs", "--with-verbs")
    }

    found = failed(made["--without-verbs"], ucx_lacks_verbs, UCX_INFO.line)

    assert found.subject == "UCX" and ucx_lacks_verbs.takes(UCX_INFO.line) == ()
    assert passes(made["--with-verbs"], ucx_lacks_verbs, UCX_INFO.line)


def test_where_ucx_info_did_not_run_it_is_not_asked():
    assert UCX_INFO.line not in ucx_lacks_verbs.per(node())


def test_a_wheel_of_ucx_is_named_and_closes_no_path_of_the_node():
    folder = "opt/venv/lib/python3.12/site-packages"
    wheel = f"{folder}/libucx_cu12-1.22.0.dist-info"
    made = node({f"{wheel}/METADATA": "", f"{folder}/libucx/__init__.py": ""})

    assert wheel in ucx_lacks_verbs.per(made)
    assert failed(made, ucx_lacks_verbs, wheel).subject == wheel and ucx_lacks_verbs.takes(wheel) == ()
