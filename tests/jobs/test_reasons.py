"""Which lines of a log are about a leg."""

from __future__ import annotations

import pytest

from gdrkit.jobs.document import document
from gdrkit.jobs.job import Leg, LegDirection
from gdrkit.jobs.reasons import _is_at
from gdrkit.jobs.text import text
from gdrkit.programs.nccl.log_records import Carrier, PairLine
from tests.jobs.test_samples import analysed


@pytest.mark.parametrize(
    ("hca", "index", "is_at"),
    [
        ("3", 3, True),
        ("3", 2, False),
        ("f", 15, True),
        ("0-3", 3, True),
        ("1000000000000003", 3, True),  # of the second host
        ("1000000000000002", 3, False),
        ("100000000000003", 3, True),  # the lower 56 bits number a device
        ("80000000000003", 3, False),
        ("1ffffffffffffff", 0xFFFFFFFFFFFFFF, True),
    ],
)
def test_a_pair_is_that_of_a_leg_by_the_number_of_its_nic_on_its_host(hca: str, index: int, is_at: bool):
    leg = Leg(direction=LegDirection.SEND, carried=Carrier.BOUNCED, channels=(0,), line=1, index=index)
    assert _is_at(PairLine(gpu="1b000", hca=hca, allowed=False), leg) is is_at


@pytest.mark.parametrize(("read", "sends"), [(None, True), (True, True), (False, False)])
def test_a_line_about_reading_memory_is_about_sending(read: bool | None, sends: bool):
    pair = PairLine(gpu="1b000", hca="0", allowed=False, read=read)
    for direction, counts in ((LegDirection.SEND, sends), (LegDirection.RECEIVE, read is not True)):
        leg = Leg(direction=direction, carried=Carrier.BOUNCED, channels=(0,), line=1, index=0)
        assert _is_at(pair, leg) is counts


NO_EFA = """\
a-0:412:870 [0] NCCL INFO NET/OFI Running on p5.48xlarge platform, topology file /opt/p5.48xl-topo.xml
a-0:412:870 [0] nccl_net_ofi_create_plugin:262 NCCL WARN NET/OFI No eligible providers were found
a-0:412:870 [0] NCCL INFO NET/IB : No device found.
a-0:412:870 [0] NCCL INFO NET/Socket : Using [0]enp73s0:10.1.216.156<0>
a-0:412:870 [0] NCCL INFO Using network Socket
a-0:412:870 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 busId 53000 - Init START
"""
OF_VERBS = (
    "no-rdma-device", "rdma-device-not-in-container", "port-down", "verbs-provider-mismatch",
    "hca-not-selected",
)  # fmt: skip


@pytest.mark.parametrize(
    ("log", "causes"),
    [
        (NO_EFA, ("rdma-device-not-in-container", "no-efa-device")),
        (NO_EFA.replace("Running on p5.48xlarge platform", "Initializing aws-ofi-nccl 1.17.1"), OF_VERBS),
        (NO_EFA.replace("No eligible providers were found", "something else"), OF_VERBS),
    ],
)
def test_what_only_verbs_have_is_no_reason_on_ec2(log: str, causes: tuple[str, ...]):
    """The plugin alone, or the platform alone, leaves NICs with verbs possible."""
    (reason,) = analysed(log).jobs[0].ranks[0].network_reasons

    assert reason.codes == causes


def test_a_warning_with_several_causes_states_none_of_them():
    (error,) = analysed(NO_EFA).errors

    assert error.meaning == "a warning that does not prove its cause"
    assert "no RDMA device" not in text(document(analysed(NO_EFA)))


NO_PLUGIN = """\
train-worker-0:45:132 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.
train-worker-0:45:132 [0] NCCL INFO NET/IB : No device found.
train-worker-0:45:132 [0] NCCL INFO NET/Socket : Using [0]eth0:192.168.45.173<0>
train-worker-0:45:132 [0] NCCL INFO Using network Socket
train-worker-0:45:132 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 busId 53000 - Init START
"""  # noqa: E501


@pytest.mark.parametrize(
    "shown",
    [
        '{"nvidia.com/gpu":"8","vpc.amazonaws.com/efa":"32"}\n',
        "      vpc.amazonaws.com/efa:  4\n",
        "    rdmap79s0           0000000000000000\n",
        "ip-192-168-45-10.ec2.internal   Ready    <none>   2d    v1.31.2-eks-94953ac   p5.48xlarge\n",
        "export FI_PROVIDER=efa\n",
    ],
)
def test_on_an_efa_the_plugin_that_is_missing_is_the_reason(shown: str):
    """Its line is not normal there, and the pod has what it asks for."""
    found = analysed(shown + NO_PLUGIN)
    (reason,) = found.jobs[0].ranks[0].network_reasons

    assert reason.codes == ("nccl-skips-efa",) and reason.line.line == 2
    assert not found.misleading
    assert "asks for" not in text(document(found))


@pytest.mark.parametrize(
    "shown",
    ["    mlx5_0              b8cef60300fb1234\n", "      vpc.amazonaws.com/efa:  0\n", "p.48xlarge\n"],
)
def test_elsewhere_the_line_about_the_plugin_is_normal(shown: str):
    found = analysed(shown + NO_PLUGIN)
    (reason,) = found.jobs[0].ranks[0].network_reasons

    assert reason.codes == OF_VERBS
    assert [one.truth.partition(":")[0] for one in found.misleading] == ["normal"]


def test_a_log_without_the_line_about_the_plugin_leaves_it_open():
    log = "rdmap79s0 0000000000000000\n" + "".join(NO_PLUGIN.splitlines(keepends=True)[1:])
    (reason,) = analysed(log).jobs[0].ranks[0].network_reasons

    assert reason.codes[0] == "nccl-skips-efa" and not reason.sure
