"""A measured rate beside the port or the link in the same text."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrkit.cli.explain import main
from gdrkit.cli.pasted_rates import with_low_rate
from gdrkit.explain.explain import explain
from gdrkit.explain.explanation import Answer
from gdrkit.explain.outputs.pasted_host import PastedHost

RULER = "-" * 87
RUN = """$ ib_write_bw -d {device} -q 8 --report_gbits 192.168.100.2
{ruler}
                    RDMA_Write BW Test
 Dual-port       : OFF		Device         : {device}
 Number of qps   : 8		Transport type : IB
 Mtu             : 4096[B]
 Link type       : Ethernet
{ruler}
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 {size}      40000            {rate}             {rate}              0.025234
{ruler}
"""
SPEED = "$ ethtool {} | grep -i speed\n\tSpeed: 200000Mb/s\n"
LINK = "$ sudo lspci -s {} -vv | grep LnkSta:\n\t\tLnkSta:\tSpeed 32GT/s, Width x4\n"
KERNEL = (
    "$ sudo dmesg | grep mlx5\n[    3.113403] mlx5_core 0000:01:00.0: 126.028 Gb/s available PCIe bandwidth"
    " (32.0 GT/s PCIe x4 link)\n"
)
PORT, NIC = SPEED.format("enp1s0f0np0"), LINK.format("0000:01:00.0")


def answered(rate: str, beside: str, *, device: str = "rocep1s0f0", size: int = 65536) -> Answer:
    text = PastedHost(RUN.format(device=device, rate=rate, ruler=RULER, size=size) + beside)
    return with_low_rate(explain(text), text).answer


@pytest.mark.parametrize(
    ("beside", "words"),
    [
        (PORT + NIC, "11 % of what the PCIe link of rocep1s0f0 can do"),
        (PORT + KERNEL, "11 % of what the PCIe link of rocep1s0f0 can do"),
        (NIC, "Its port is not shown, and may carry less."),
        (PORT, "7 % of what the port of rocep1s0f0 can do"),
        (LINK.format("01:00.0"), "11 % of what the PCIe link"),
    ],
)
def test_a_rate_far_below_what_the_text_shows_to_be_possible_may_be_a_fault(beside: str, words: str):
    answer = answered("13.23", beside)
    assert (answer.kind, words in answer.sentence) == ("several", True)
    assert "13.23" in answer.lines[0].text


def test_what_was_computed_here_is_not_asked_for_again():
    assert "gdr estimate" not in answered("13.23", PORT + NIC).now[0]
    assert "gdr estimate" in answered("13.23", PORT).now[0]  # a machine shows the link as well


def test_what_is_the_limit_of_a_link_is_said_as_gdr_estimate_says_it():
    assert "Tuned runs reach at least 11.14" in answered("13.23", PORT + NIC).sentence
    assert "Its PCIe link is not shown" in answered("13.23", PORT).sentence


@pytest.mark.parametrize(
    ("rate", "beside", "size"),
    [
        ("108.10", PORT + NIC, 65536),  # what two machines with GB10 reach over one link
        ("13.23", "", 65536),
        ("13.23", SPEED.format("eno1") + LINK.format("0000:02:00.0"), 65536),  # of another device
        ("13.23", SPEED.format("enp1s0f0np0v1"), 65536),
        ("13.23", PORT + NIC, 4096),
    ],
)
def test_a_good_rate_one_of_small_messages_and_links_of_others_are_none(rate: str, beside: str, size: int):
    answer = answered(rate, beside, size=size)
    assert (answer.kind, "not whether the rate is good" in answer.sentence) == ("no-problem", True)


def test_a_second_domain_is_part_of_the_name():
    second = LINK.format("0002:01:00.0") + SPEED.format("enP2p1s0f0np0")
    assert answered("13.23", second, device="roceP2p1s0f0").kind == "several"
    assert answered("13.23", second).kind == "no-problem"
    assert answered("13.23", second, device="mlx5_0").kind == "no-problem"  # a name that tells no place


def test_the_rate_of_a_port_in_ibstat_counts_as_well():
    port = (
        "$ ibstat mlx5_0\nCA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n"
        "\t\tPhysical state: LinkUp\n\t\tRate: 400\n\t\tLink layer: InfiniBand\n"
    )
    assert "7 % of what the port of mlx5_0" in answered("26.40", port, device="mlx5_0").sentence


def test_the_command_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "run.txt"
    file.write_text(RUN.format(device="rocep1s0f0", rate="13.23", ruler=RULER, size=65536) + PORT + NIC)
    assert main([str(file)]) == 3
    assert "a low rate" in capsys.readouterr().out
