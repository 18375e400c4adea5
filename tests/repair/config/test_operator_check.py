"""`gdr config check` of policies that need an OFED: the same file's, the node's, or none."""

from __future__ import annotations

import pytest

from gdrkit.evidence.target import open_host
from gdrkit.node import Node
from gdrkit.repair.config.check import check
from tests.evidence_nodes import laid_down

POLICY = """\
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: cluster-policy}
spec:
  driver:
    rdma:
      enabled: ENABLED
      useHostMofed: HOST
"""
NETWORK = """\
---
apiVersion: mellanox.com/v1alpha1
kind: NicClusterPolicy
metadata: {name: nic-cluster-policy}
spec: {WHAT}
"""
WAITS, STUB = "operator-waits-for-ofed", "operator-stub"


def found(enabled: str, host: str, network: str = "", node: str = "") -> list[str]:
    """The codes about OFED, of a policy alone or beside a NicClusterPolicy."""
    text = POLICY.replace("ENABLED", enabled).replace("HOST", host)
    text += NETWORK.replace("WHAT", network) if network else ""
    on = Node(open_host(str(laid_down(node)))) if node else None
    faults = check(text.encode(), "policy.yaml", node=on).faults
    assert all(fault.line == 7 for fault in faults if fault.code in (WAITS, STUB))
    return [fault.code for fault in faults if fault.code in (WAITS, STUB)]


@pytest.mark.parametrize(
    ("enabled", "host", "network", "codes"),
    [
        ("true", "false", "psp: {}", [WAITS]),
        ("true", "false", "ofedDriver: {image: doca-driver}", []),
        ("true", "true", "psp: {}", []),  # the hosts have it, as far as the file shows
        ("false", "false", "psp: {}", []),
        ("true", "false", "", []),  # another file may have the NicClusterPolicy
    ],
)
def test_a_policy_waits_where_the_network_operator_deploys_no_ofed(enabled, host, network, codes):
    assert found(enabled, host, network) == codes


def test_a_policy_of_some_nodes_deploys_ofed_too():
    """NicNodePolicy, as the doctor counts it."""
    of_nodes = NETWORK.replace("NicClusterPolicy", "NicNodePolicy").replace("WHAT", "ofedDriver: {image: a}")
    text = POLICY.replace("ENABLED", "true").replace("HOST", "false") + NETWORK.replace("WHAT", "psp: {}")

    assert WAITS in [fault.code for fault in check(text.encode(), "policy.yaml").faults]
    assert WAITS not in [fault.code for fault in check((text + of_nodes).encode(), "policy.yaml").faults]


@pytest.mark.parametrize(
    ("node", "host", "codes"),
    [
        ("gpu-operator-stub", "true", [STUB]),
        ("rhel-9-mofed", "true", []),
        ("gpu-operator-stub", "false", []),  # no NicClusterPolicy was supplied
    ],
)
def test_a_policy_that_counts_on_the_hosts_ofed_needs_a_host_that_has_one(node, host, codes):
    assert found("true", host, node=node) == codes
