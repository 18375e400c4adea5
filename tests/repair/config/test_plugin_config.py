"""The JSON with which the Network Operator's device plugins are configured, as the plugins read it."""

from __future__ import annotations

import json

import pytest

from gdrkit.repair.config.check import check
from gdrkit.repair.config.output import rendered
from tests.repair.config.outputs import OUTPUTS, names_of

POLICY = """\
apiVersion: mellanox.com/v1alpha1
kind: KIND
metadata: {name: nic-cluster-policy}
spec:
  PLUGIN:
    image: a
    repository: b
    version: c
    config: |
"""
SHARED, SRIOV = "rdmaSharedDevicePlugin", "sriovDevicePlugin"
FIRST_LINE = 10
GOOD = {"resourceName": "a", "rdmaHcaMax": 63, "selectors": {"vendors": ["15b3"]}}
VF = {"resourceName": "a", "selectors": {"vendors": ["15b3"], "isRdma": True}}


def found(plugin: str, config: str, kind: str = "NicClusterPolicy") -> list[str]:
    text = POLICY.replace("KIND", kind).replace("PLUGIN", plugin)
    text += "".join(f"      {line}\n" for line in config.splitlines())
    return [f"{one.line} {one.severity} {one.code} {one.path.rpartition('config.')[2]}"
            for one in check(text.encode(), "policy.yaml").faults]  # fmt: skip


def shared(*items: object, **more: object) -> list[str]:
    return found(SHARED, json.dumps({"configList": items, **more}))


def sriov(*items: object) -> list[str]:
    return found(SRIOV, json.dumps({"resourceList": items}))


@pytest.mark.parametrize("name", names_of("network-operator"))
def test_what_gdrkit_writes_has_no_fault(name):
    assert check(rendered(OUTPUTS[name]).encode(), "nicclusterpolicy.yaml").faults == ()


def test_what_both_plugins_take_has_no_fault():
    assert shared(GOOD, {**GOOD, "resourceName": "b", "resourcePrefix": "nvidia.com"}) == []
    assert shared({**GOOD, "selectors": {"ifNames": ["ib0"], "linkTypes": ["infiniband"]}}) == []
    assert shared(GOOD, periodicUpdateInterval=0) == []
    assert sriov(VF, {**VF, "resourcePrefix": "other.com"}, {**VF, "resourceName": "a-b"}) == []
    assert sriov({"resourceName": "a", "selectors": [{"pfNames": ["ens1f0#0-3"], "isRdma": True}]}) == []
    sub = {"auxTypes": ["sf"], "pfNames": ["ens1f0"]}
    assert sriov({"resourceName": "a", "deviceType": "auxNetDevice", "selectors": [sub]}) == []


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"resourceName": "rdma-a"}, "error wrong-value configList.0.resourceName"),  # the webhook takes it
        ({"rdmaHcaMax": "63"}, "error wrong-type configList.0.rdmaHcaMax"),
        ({"rdmaHcaMax": -1}, "error wrong-value configList.0.rdmaHcaMax"),
        ({"rdmaHcaMax": 0}, "warning wrong-value configList.0.rdmaHcaMax"),
        ({"selectors": {}}, "error missing-key configList.0"),
        ({"selectors": {"vendors": []}}, "error missing-key configList.0"),
        ({"devices": ["ib0"]}, "error wrong-value configList.0"),
        ({"selectors": {"vendors": "15b3"}}, "error wrong-type configList.0.selectors.vendors"),
        ({"selectors": {"vendors": ["0x15b3"]}}, "error wrong-value configList.0.selectors.vendors"),
        ({"selectors": {"deviceIDs": ["A2DC"]}}, "error wrong-value configList.0.selectors.deviceIDs"),
        ({"selectors": {"linkTypes": ["IB"]}}, "error wrong-value configList.0.selectors.linkTypes"),
        ({"selector": {"vendors": ["15b3"]}}, "error unknown-key configList.0.selector"),
    ],
)
def test_a_fault_of_the_shared_plugin_is_named_at_its_line(changed, fault):
    assert f"{FIRST_LINE} {fault}" in shared({**GOOD, **changed})
    assert not any(
        "configList.1" in line for line in shared({**GOOD, **changed}, {**GOOD, "resourceName": "z"})
    )


def test_a_quoted_configuration_has_its_faults_at_its_own_line():
    text = POLICY.replace("KIND", "NicClusterPolicy").replace("PLUGIN", SHARED)
    text = text.replace(" |\n", f" '{json.dumps({'configList': [{**GOOD, 'rdmaHcaMax': -1}]})}'\n")
    (fault,) = check(text.encode(), "policy.yaml").faults
    assert (fault.line, fault.code) == (FIRST_LINE - 1, "wrong-value")


def test_go_reads_a_key_in_any_case_and_the_webhook_does_not():
    (fault,) = shared({**GOOD, "selectors": {"deviceIds": ["a2dc"]}})
    assert fault == f"{FIRST_LINE} warning unknown-key configList.0.selectors.deviceIds"


def test_each_line_of_the_json_has_its_faults():
    config = '{"configList": [\n{"resourceName": "a", "rdmaHcaMax": 1, "selectors": {"drivers": ["b"]}},\n'
    config += '\t{"resourceName": "a", "rdmaHcaMax": 1,\n"devices": ["ib0"]}]}'
    assert found(SHARED, config) == [
        f"{FIRST_LINE + 2} error duplicate-key configList.1.resourceName",
        f"{FIRST_LINE + 3} note not-honoured configList.1.devices",
    ]


@pytest.mark.parametrize("plugin", [SHARED, SRIOV])
@pytest.mark.parametrize("config", ["{", '{"configList": [1,]}', "configList: []", "[1] 2"])
def test_yaml_that_is_no_json_is_a_fault(plugin, config):
    assert found(plugin, config)[0] == f"{FIRST_LINE} error wrong-value spec.{plugin}.config"


@pytest.mark.parametrize(
    ("item", "fault"),
    [
        ({"resourceName": "a"}, "error missing-key resourceList.0"),
        ({**VF, "resourceName": "a.b"}, "error wrong-value resourceList.0.resourceName"),
        ({**VF, "deviceType": "netdevice"}, "error wrong-value resourceList.0.deviceType"),
        ({**VF, "selectors": []}, "error missing-key resourceList.0.selectors"),
        ({**VF, "selectors": {"isRdma": "true"}}, "error wrong-type resourceList.0.selectors.isRdma"),
        ({**VF, "selectors": {"vendors": ["15b3"]}}, "note missing-key resourceList.0.selectors"),
        ({**VF, "selectors": {"deviceIDs": ["a"]}}, "error unknown-key resourceList.0.selectors.deviceIDs"),
        ({**VF, "deviceType": "auxNetDevice"}, "error wrong-value resourceList.0.selectors.auxTypes"),
    ],
)
def test_a_fault_of_the_sriov_plugin_is_named(item, fault):
    assert f"{FIRST_LINE} {fault}" in sriov(item)


def test_an_empty_list_ends_both_plugins_and_a_policy_of_some_nodes_is_judged_too():
    assert found(SHARED, '{"configList": []}', "NicNodePolicy") == [
        f"{FIRST_LINE} error missing-key configList"
    ]
    assert sriov() == [f"{FIRST_LINE} error missing-key resourceList"]
    assert sriov(VF, VF) == [f"{FIRST_LINE} error duplicate-key resourceList.1.resourceName"]
