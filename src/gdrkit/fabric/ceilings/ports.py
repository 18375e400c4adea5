"""The RDMA payload rate of a network port, in one direction."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.fabric.ceilings.interval import Interval, between

TRANSPORT_BYTES = 12 + 4
"""Base transport header and invariant CRC of every packet (InfiniBand Architecture Specification 1, 9.2 and
7.8.1). The 16 bytes of an RDMA header (9.3) occur once per message and are negligible in large ones."""

INFINIBAND_BYTES = 8 + 2
"""Local route header and variant CRC (InfiniBand Architecture Specification 1, 7.7 and 7.8.2)."""

ETHERNET_BYTES = 14 + 4 + 8 + 12
"""Header, frame check sequence, preamble with start delimiter, and gap of every frame (IEEE 802.3, 3.1.1 and
4.4.2)."""

IP_AND_UDP_BYTES = {4: 20 + 8, 6: 40 + 8}
"""RoCE v2: InfiniBand Architecture Specification 1, Annex A17; RFC 791, RFC 8200, RFC 768."""

TCP_BYTES = {4: 20 + 20 + 12, 6: 40 + 20 + 12}
"""IP, TCP and its timestamps, which Linux sends: RFC 9293, RFC 7323."""

DATA_SHARE = {"SDR": 0.8, "DDR": 0.8, "QDR": 0.8, "FDR": 54.5454 / 56.0}
"""InfiniBand's share of data in the rate that Linux prints: 8b/10b up to QDR, and for FDR 14.0625 GBd at
64b/66b, printed as 14 per lane (InfiniBand Architecture Specification 2, 5.6; Linux
drivers/infiniband/core/sysfs.c, rate_show()). From EDR on, and always for Ethernet, the printed rate is the
data rate."""

TUNED_SHARE = 0.96
"""The lowest share of the bound seen for large messages where only the port limits them: 95.4 of
99.4 Gbit/s over EDR, github.com/linux-rdma/perftest/pull/98. Most reach 0.99."""

OTHER_SHARE = 0.75
"""The same for a port that is neither InfiniBand nor Ethernet (EFA reports Unspecified): its headers are not
public. A conservative guess."""

AMAZON = "1d0f"
EFA_GBIT_PER_S = {"efa0": 100.0, "efa1": 100.0, "efa2": 200.0, "efa3": 400.0}
"""The rate of an Elastic Fabric Adapter by its PCI device id: p4d, p5, p5en and P6-B200, whose
4, 32, 16 and 8 cards have 400, 3200, 3200 and 3200 Gb/s together (Amazon EC2, "Accelerated computing").
Drivers that do not know the speed report 100 Gb/s for all of them: Linux
drivers/infiniband/hw/efa/efa_verbs.c, efa_query_port()."""

INFINIBAND_MTU, ROCE_MTU = (2048, 4096), (1024, 4096)
"""The range of path MTUs where they are not readable. A subnet manager sets 2048 or 4096 (opensm(8),
partition configuration); an Ethernet MTU of 1500 leads to 1024."""

DOWN = ("DOWN", "INIT", "ARMED")
"""States in which a port carries no data: InfiniBand Architecture Specification 1, 7.2.7, and Linux
drivers/infiniband/core/sysfs.c, state_show(). ACTIVE_DEFER may end at any moment; NOP does not show a
state."""


class NetworkPort(Struct, frozen=True, kw_only=True):
    """One physical port."""

    rate_gbit_per_s: float
    link_layer: str  # InfiniBand, Ethernet, or what else the driver reports
    mtu_bytes: int | None = None  # of RDMA packets; None if it was not readable
    ip_version: int | None = None  # 4 or 6, for RoCE v2
    generation: str = ""  # SDR to XDR, of InfiniBand; empty where it is not known

    def __str__(self) -> str:
        speed = f" {self.generation}" if self.generation else ""
        mtu = f", MTU {self.mtu_bytes}" if self.mtu_bytes else ""
        return f"{self.rate_gbit_per_s:g} Gb/s {self.link_layer}{speed}{mtu}"


def efa_port(vendor: str, device: str, rate_gbit_per_s: float) -> NetworkPort | None:
    """The port of an Elastic Fabric Adapter, by its PCI id; None for any other function."""
    known = EFA_GBIT_PER_S.get(device)
    if known is None or vendor != AMAZON:
        return None
    return NetworkPort(rate_gbit_per_s=max(known, rate_gbit_per_s), link_layer="EFA")


def payload(port: NetworkPort) -> Interval:
    """The RDMA payload rate of a port."""
    rate = port.rate_gbit_per_s / 8
    if port.link_layer == "InfiniBand":
        rate *= DATA_SHARE.get(port.generation, 1.0)
        mtus = (port.mtu_bytes,) if port.mtu_bytes else INFINIBAND_MTU
        shares = [_share(mtu, INFINIBAND_BYTES) for mtu in mtus]
    elif port.link_layer == "Ethernet":
        mtus = (port.mtu_bytes,) if port.mtu_bytes else ROCE_MTU
        versions = (port.ip_version,) if port.ip_version else (4, 6)
        shares = [_share(m, ETHERNET_BYTES + IP_AND_UDP_BYTES[v]) for m in mtus for v in versions]
    else:
        return between(rate * OTHER_SHARE, rate)
    return between(rate * min(shares) * TUNED_SHARE, rate * max(shares))


def tcp_payload(rate_gbit_per_s: float, interface_mtu: int | None) -> float:
    """The TCP payload rate over Ethernet in GB/s, without the cost of processors.

    If the MTU is not known, 9000 is assumed: jumbo frames, a size that vendors share and no standard
    sets."""
    mtu = interface_mtu or 9000
    return rate_gbit_per_s / 8 * (mtu - TCP_BYTES[4]) / (mtu + ETHERNET_BYTES)


def _share(mtu: int, headers: int) -> float:
    return mtu / (mtu + TRANSPORT_BYTES + headers)
