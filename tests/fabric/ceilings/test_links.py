"""Rates of PCIe links, compared with numbers computed and measured by others."""

import pytest

from gdrkit.fabric.ceilings.links import PcieLink, both_ways, payload
from gdrkit.facts.pci_path import raw_gbit_per_s


def link(gt_per_s, width, max_payload_bytes=None, read_request_bytes=None):
    return PcieLink(
        gt_per_s=gt_per_s,
        width=width,
        max_payload_bytes=max_payload_bytes,
        read_request_bytes=read_request_bytes,
    )


@pytest.mark.parametrize(
    ("gt_per_s", "width", "kernel_prints"),
    [  # Linux drivers/pci/pci.c, pcie_bandwidth_available(): "63.008 Gb/s available PCIe bandwidth"
        (2.5, 16, 32.0),
        (5.0, 8, 32.0),
        (8.0, 8, 63.008),
        (16.0, 16, 252.048),
        (32.0, 4, 126.028),
        (32.0, 16, 504.112),
    ],
)
def test_the_raw_rate_is_what_linux_prints_for_a_link(gt_per_s, width, kernel_prints):
    assert raw_gbit_per_s(gt_per_s, width) == pytest.approx(kernel_prints, rel=5e-4)


def test_flits_carry_236_bytes_of_packets_in_256():
    assert raw_gbit_per_s(64.0, 16) == pytest.approx(64 * 16 * 236 / 256)


def test_a_write_of_256_bytes_has_24_bytes_around_it():
    """PCI Express Base 5.0: four double words of header, a token of 4 bytes, a CRC of 4."""
    carried = payload(link(8.0, 8, 256), "write")

    assert carried.high_gb_per_s * 8 == pytest.approx(8 * 8 * 128 / 130 * 256 / 280)


def test_a_completion_has_a_shorter_header_than_a_write():
    reads, writes = (payload(link(16.0, 16, 256), direction) for direction in ("read", "write"))

    assert reads.high_gb_per_s > writes.high_gb_per_s
    assert both_ways(link(16.0, 16, 256)) == writes


def test_small_read_requests_lead_to_small_completions():
    assert payload(link(16.0, 16, 256, 128), "read") == payload(link(16.0, 16, 128), "read")
    assert payload(link(16.0, 16, 256, 4096), "read") == payload(link(16.0, 16, 256), "read")


def test_an_unknown_payload_size_widens_both_bounds():
    known, unknown = both_ways(link(32.0, 4, 256)), both_ways(link(32.0, 4))

    assert unknown.low_gb_per_s < known.low_gb_per_s
    assert unknown.high_gb_per_s > known.high_gb_per_s


def test_copies_measured_on_an_h200_are_within_the_bounds_of_its_link():
    """55.2 and 55.4 GB/s on 32 GT/s x16."""
    bounds = both_ways(link(32.0, 16, 256))

    assert 55.2 in bounds
    assert 55.4 in bounds
    assert 63.0 not in bounds  # the raw rate is not reachable


def test_one_function_of_a_dgx_spark_carries_about_12_gb_per_s():
    bounds = both_ways(link(32.0, 4))

    for gbit_per_s in (97.28, 102.2, 105.5, 111.71):  # docs/measurements.md
        assert gbit_per_s / 8 in bounds
    assert 12.0 in bounds
    assert 126.0 / 8 not in bounds
