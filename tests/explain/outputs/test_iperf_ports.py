"""A run of iperf went over the port whose address it used, which need not be the fast one."""

from __future__ import annotations

import pytest

from tests.explain.explaining import explained

RUN = """\
Connecting to host {peer}, port 5201
[  5] local {own} port 51522 connected to {peer} port 5201
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-10.00  sec  1.10 GBytes  {sent} Mbits/sec  174             sender
[  5]   0.00-10.01  sec  1.09 GBytes  {rate} Mbits/sec                  receiver
"""
LAN = RUN.format(own="192.168.1.21", peer="192.168.1.22", sent=944, rate=940)
CABLE = RUN.format(own="192.168.177.11", peer="192.168.177.12", sent=96400, rate=96200)
ADDRESSES = """\
$ ip -br addr
lo               UNKNOWN        127.0.0.1/8 ::1/128
enP7s7           UP             192.168.1.21/24 fe80::4ebb:47ff:fe2d:a3f1/64
enp1s0f0np0      DOWN
enp1s0f1np1      UP             192.168.177.11/24 fe80::4ebb:47ff:fe2d:a3f3/64
enP2p1s0f0np0    DOWN
enP2p1s0f1np1    UP             fe80::4ebb:47ff:fe2d:a3f7/64
"""
OF_A_SERVER = """\
$ ibdev2netdev
mlx5_0 port 1 ==> ens1np0 (Up)
$ ip addr
2: eno1: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP group default qlen 1000
    inet 192.168.1.21/24 brd 192.168.1.255 scope global dynamic eno1
5: ens1np0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP group default qlen 1000
    inet 10.10.0.1/24 scope global ens1np0
"""
BY_RATE = """\
$ ip route
192.168.1.0/24 dev eno1 proto kernel scope link src 192.168.1.21 metric 100
10.10.0.0/24 dev ens1np0 proto kernel scope link src 10.10.0.1
$ sudo ethtool ens1np0
	Speed: 100000Mb/s
"""


@pytest.mark.parametrize(
    ("text", "used", "fast"),
    [
        (LAN + ADDRESSES, "enP7s7", "enp1s0f1np1 (192.168.177.11) or enP2p1s0f1np1 (no IPv4 address)"),
        (ADDRESSES + CABLE + LAN, "enP7s7", "enp1s0f1np1 (192.168.177.11)"),
        (LAN + OF_A_SERVER, "eno1", "ens1np0 (10.10.0.1)"),
        (BY_RATE + LAN, "eno1", "ens1np0 (10.10.0.1)"),
    ],
)
def test_the_port_that_was_used_is_named_beside_the_fast_one_that_was_not(text: str, used: str, fast: str):
    answer = explained(text).answer

    assert f"0.94 Gb/s over {used} (192.168.1.21), and not over {fast}" in answer.sentence
    assert answer.now[0].startswith("Run it to the address")


@pytest.mark.parametrize(
    "text",
    [
        ADDRESSES + CABLE,
        ADDRESSES + LAN + CABLE,
        ADDRESSES.replace("enP2p1s0f0np0", "enP3p1s0f0np0") + LAN,  # nothing says which port is fast
        BY_RATE.replace("100000", "1000") + LAN,
    ],
)
def test_no_other_port_is_named_where_the_fast_one_was_used_or_none_is_known(text: str):
    assert "and not over" not in explained(text).answer.sentence


@pytest.mark.parametrize(("rate", "port"), [("940", "1"), ("9410", "10"), ("2350", "2.5"), ("9900", "10")])
def test_the_rate_of_a_slow_port_is_called_so(rate: str, port: str):
    answer = explained(LAN.replace("940", rate)).answer

    assert f"that is the rate of a port of {port} Gb/s" in answer.sentence
    assert "ip route get PEER" in answer.now[0]


@pytest.mark.parametrize("rate", ["600", "6300", "13000", "96200"])
def test_another_rate_is_of_no_port(rate: str):
    answer = explained(LAN.replace("940", rate)).answer

    assert "that is the rate of a port" not in answer.sentence and not answer.now
