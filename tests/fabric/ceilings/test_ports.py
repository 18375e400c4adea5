"""Rates of ports, compared with runs of perftest that only the port limited."""

import pytest

from gdrkit.fabric.ceilings.ports import NetworkPort, efa_port, payload, tcp_payload
from gdrkit.facts.roce_mtu import roce_mtu


def roce(rate, mtu=None, version=4):
    return NetworkPort(rate_gbit_per_s=rate, link_layer="Ethernet", mtu_bytes=mtu, ip_version=version)


def infiniband(rate, generation, mtu=4096):
    return NetworkPort(rate_gbit_per_s=rate, link_layer="InfiniBand", mtu_bytes=mtu, generation=generation)


@pytest.mark.parametrize(
    ("port", "gbit_per_s"),
    [
        (roce(100, 1024), 92.59),  # runs at an Ethernet MTU of 1500 reach 92.56 and 92.57
        (roce(200, 4096), 196.07),
        (roce(25, 4096), 24.51),
        (roce(400, 4096), 392.15),
        (roce(100, 4096, 6), 97.57),
        (infiniband(100, "EDR"), 99.37),
        (infiniband(400, "NDR"), 397.48),
    ],
)
def test_the_bound_is_the_rate_without_headers(port, gbit_per_s):
    assert payload(port).high_gb_per_s * 8 == pytest.approx(gbit_per_s, abs=0.01)


@pytest.mark.parametrize(
    ("printed", "generation", "data"),
    [(10, "SDR", 8), (20, "DDR", 16), (40, "QDR", 32), (56, "FDR", 54.545)],
)
def test_older_infiniband_prints_the_signalling_rate(printed, generation, data):
    headers = 4096 / (4096 + 26)

    assert payload(infiniband(printed, generation)).high_gb_per_s * 8 == pytest.approx(
        data * headers, rel=1e-4
    )


def test_ethernet_rates_are_data_rates_in_every_generation_that_linux_prints():
    """A port at 40GbE prints `40 Gb/sec (4X FDR10)`, one at 10GbE `10 Gb/sec (1X QDR)`."""
    port = NetworkPort(
        rate_gbit_per_s=10, link_layer="Ethernet", mtu_bytes=4096, ip_version=4, generation="QDR"
    )

    assert payload(port) == payload(roce(10, 4096))


def test_an_unknown_mtu_widens_the_bounds():
    bounds = payload(roce(100, None))

    assert bounds.high_gb_per_s == payload(roce(100, 4096)).high_gb_per_s
    assert bounds.low_gb_per_s == payload(roce(100, 1024)).low_gb_per_s


def test_a_port_of_another_kind_is_bounded_only_by_its_rate():
    bounds = payload(NetworkPort(rate_gbit_per_s=100, link_layer="Unspecified"))

    assert bounds.high_gb_per_s == 12.5
    assert bounds.low_gb_per_s < 10


@pytest.mark.parametrize(
    ("vendor", "device", "reported", "expected"),
    [("1d0f", "efa0", 100.0, 100.0), ("1d0f", "efa2", 100.0, 200.0), ("1d0f", "efa3", 0.0, 400.0),
     ("1d0f", "efa2", 800.0, 800.0), ("15b3", "efa2", 100.0, None), ("1d0f", "efa9", 100.0, None)],
)  # fmt: skip
def test_the_id_of_an_efa_tells_a_rate_that_its_driver_may_not_know(vendor, device, reported, expected):
    port = efa_port(vendor, device, reported)
    assert (port.rate_gbit_per_s if port else None) == expected


@pytest.mark.parametrize(
    ("interface", "rdma"),
    [(1500, 1024), (2200, 2048), (4200, 4096), (9000, 4096), (4191, 2048), (300, None)],
)
def test_the_rdma_mtu_follows_from_the_interface_mtu_as_in_linux(interface, rdma):
    """include/rdma/ib_addr.h, iboe_get_mtu(): 96 bytes are reserved."""
    assert roce_mtu(interface) == rdma


def test_tcp_at_1500_carries_941_in_a_thousand():
    assert tcp_payload(10, 1500) * 8 == pytest.approx(9.41, abs=0.01)
