"""UCX's tables and `ucx_info -d` in a text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.explain.explaining import explained
from tests.programs.ucx.test_domains import CUDA, NIC

UCX = Path(__file__).parents[2] / "programs" / "ucx"


def open_codes(text: str) -> tuple[str, ...]:
    return tuple(cause.code for cause in explained(text).answer.others)


@pytest.mark.parametrize(
    ("name", "kind", "first"),
    [
        ("direct", "working", ""),
        ("staged", "several", "ucx-misses-peermem"),
        ("tcp", "several", "ucx-transport-excluded"),
    ],
)
@pytest.mark.parametrize("bare", [False, True])
def test_tables_are_answered_with_or_without_their_prefixes(name, kind, first, bare):
    text = (UCX / "tables" / f"{name}.txt").read_text()
    if bare:
        text = "\n".join(line.partition("]   ")[2] or line for line in text.splitlines()) + "\n"

    found = explained(text).answer

    assert found.kind == kind and (found.others[0].code if first else "") == first


def test_what_was_chosen_is_not_surer_than_likely():
    assert explained((UCX / "tables" / "direct.txt").read_text()).answer.sureness == "likely"


@pytest.mark.parametrize("before", ["$ ucx_info -d\n", ""])
def test_a_ucx_without_a_nic_opens_the_build_first(before: str):
    listing = (UCX / "recorded" / "ucx_info-d-1.22.0.txt").read_text()

    assert open_codes(before + listing)[:2] == ("ucx-lacks-verbs", "no-rdma-device")
    assert not open_codes(before + listing + NIC.format(dmabuf=", dmabuf", cuda=", cuda (reg)"))


def test_the_configuration_proves_it():
    text = "$ ucx_info -v\n" + (UCX / "recorded" / "ucx_info-v-1.22.0.txt").read_text()

    found = explained(text).answer

    assert (found.cause, found.sureness) == ("ucx-lacks-verbs", "certain")
    assert "--without-verbs" in found.lines[0].text or found.lines[0].text.startswith("Configured with")


@pytest.mark.parametrize(("cuda", "codes"), [("", True), (", cuda (reg,cache)", False)])
def test_a_nic_that_cannot_register_gpu_memory_is_named(cuda: str, codes: bool):
    text = "$ ucx_info -d\n" + NIC.format(dmabuf=", dmabuf", cuda=cuda) + CUDA.format(dmabuf="")

    assert bool(open_codes(text)) is codes


GIVEN = "[1.1] [n1:8:0] parser.c:2359 UCX  INFO  UCX_* env variables: UCX_LOG_LEVEL=info{}\n"
LANES = (
    "[1.2] [n1:8:0] ucp_worker.c:1903 UCX  INFO    ucp_context_0 inter-node cfg#3 rma({0})  am(tcp/eth0)\n"
)


@pytest.mark.parametrize("shows", [LANES.format("tcp/eth0"), (UCX / "tables" / "tcp.txt").read_text()])
@pytest.mark.parametrize(
    ("given", "codes"),
    [
        (" UCX_TLS=tcp,cuda_copy", ("ucx-transport-excluded",)),
        (" UCX_NET_DEVICES=eth0 UCX_PROTO_INFO=y", ("ucx-transport-excluded",)),
        ("", ("ucx-lacks-verbs", "no-rdma-device")),  # neither is set: only ucx.conf may set one
        (
            " UCX_TLS=rc_x,tcp,cuda UCX_NET_DEVICES=mlx5_0:1,eth0",
            ("ucx-transport-excluded", "ucx-lacks-verbs"),
        ),
        (" UCX_TLS=^sm", ("ucx-transport-excluded", "ucx-lacks-verbs")),
    ],
)
def test_the_settings_that_ucx_prints_order_why_it_uses_tcp(given, codes, shows):
    found = explained(GIVEN.format(given) + shows).answer

    assert (found.cause, found.sureness) == (codes[0], "likely") if len(codes) == 1 else not found.cause
    assert len(codes) == 1 or tuple(cause.code for cause in found.others)[:2] == codes


def test_lanes_over_rdma_are_no_failure():
    assert not open_codes(GIVEN.format(" UCX_TLS=tcp,cuda_copy") + LANES.format("rc_mlx5/mlx5_0:1"))


DEBUG = "[1750907578.145401] [node:7568 :0]    {}  UCX  DEBUG mlx5_1: {}\n"


def test_what_ucx_tries_for_other_gpus_or_at_the_level_debug_is_no_failure():
    rocm = DEBUG.format("ib_md.c:1219", "rocm GPUDirect RDMA is not detected by checking /dev/kfd")
    tried = DEBUG.format(
        "ib_mlx5dv_md.c:115", "mlx5dv_devx_obj_create(CREATE_MKEY) failed: Remote I/O error"
    )
    assert not explained(rocm + tried).answer.lines
    missing = explained(rocm.replace("rocm", "cuda")).answer
    assert [one.code for one in missing.others] == ["peermem-not-loaded", "ucx-misses-peermem"]


@pytest.mark.parametrize(("handle", "exported"), [("518", True), ("-1", False)])
def test_a_refused_dmabuf_that_the_gpu_exported_is_no_matter_of_the_gpu(handle: str, exported: bool):
    refused = (
        f"[1.2] [n1:1:0] ucp_mm.c:76   UCX  ERROR failed to register address 0xfcc9 (cuda) length 16384"
        f" dmabuf_fd {handle} on md[7]=mlx5_7: Input/output error (md supports: host|cuda)\n"
    )
    codes = open_codes(refused)
    assert ("gpu-integrated" in codes, "topology-refused" in codes) == (not exported, exported)


def test_an_unsupported_mapping_is_read_where_the_error_has_no_text():
    failed = (
        "[1.2] [n1:1:0] ib_md.c:288  UCX  ERROR ibv_reg_dmabuf_mr(address=0xfcc9, length=16384,"
        " access=0x10000f) failed: Unknown error 524\n"
    )
    assert open_codes(failed) == ("topology-refused", "iommu-groups-differ")


LANE = "[1.1] [n1:8:0] proto_common.c:553 UCX  TRACE lane[0] {0}/{1}:1: md {1} cannot register cuda memory\n"


def test_a_nic_that_cannot_register_gpu_memory_is_a_failure_and_another_domain_is_none():
    """ai-dynamo/nixl issue 307."""
    assert open_codes(LANE.format("rc_mlx5", "mlx5_3"))[:2] == ("peermem-not-loaded", "ucx-misses-peermem")
    assert open_codes(LANE.format("tcp", "tcp")) == ()
