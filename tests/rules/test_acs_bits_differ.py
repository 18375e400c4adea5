"""ACS bits, groups and ATS by layout; rdma-core's own check is the second source."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrkit.evidence.target import open_host
from gdrkit.node import Node
from gdrkit.rules.acs_bits_differ import acs_bits_differ
from gdrkit.rules.acs_redirect import acs_redirect
from gdrkit.rules.iommu import iommu_groups_differ, iommu_groups_shared
from gdrkit.rules.nic_ats_unexpected import nic_ats_unexpected
from gdrkit.rules.rule import Failed, NotApplicable, Passed, Rule, Unknown
from gdrkit.verdict.check_results import check_results, trail_of
from gdrkit.verdict.findings import subject_name
from tests.acs_layouts import dump, layout

HERE = Path(__file__).parent
VERDICTS = [line.split() for line in (HERE / "acs_verdicts.txt").read_text().splitlines()]


def node_of(name: str) -> Node:
    return Node(open_host(str(HERE / "dumps" / name)))


def failures(node: Node, *rules: Rule) -> list[Failed]:
    found = (result.outcome for result in check_results(node, rules))
    return [outcome for outcome in found if isinstance(outcome, Failed)]


def test_the_right_bits_of_a_gb300_are_no_fault():
    node = node_of("gb300-right.json")

    assert not failures(
        node, acs_bits_differ, acs_redirect, iommu_groups_differ, iommu_groups_shared, nic_ats_unexpected
    )
    found = {subject_name(one.subject): one for one in check_results(node, [acs_bits_differ])}
    passed = {port: one.outcome.why for port, one in found.items() if isinstance(one.outcome, Passed)}
    assert passed == {
        "0000:00:00.0": "0x1d = xx111x1",
        "0008:00:00.0": "0x1c = xx111x0",
        "0008:02:00.0": "0x19 = xx110x1",
        "0008:02:01.0": "0x15 = xx101x1",
        "0008:05:00.0": "0x1d = xx111x1",
    }
    without = {port for port, one in found.items() if one.outcome == NotApplicable("the port has no ACS")}
    assert without == {"0008:01:00.0", "0008:04:00.0"} == found.keys() - passed.keys()
    sources = trail_of(node, found["0008:02:00.0"]).sources
    assert "ReqRedir- CmpltRedir+" in {source.text for source in sources if source.locator == "ACSCtl"}


def test_each_wrong_port_of_a_gb300_is_named_with_the_bits_to_change():
    found = failures(node_of("gb300-wrong.json"), acs_bits_differ, iommu_groups_differ)

    assert [(f.subject, f.seen, f.expected) for f in found] == [
        ("0008:00:00.0", "ACSCtl 0x1d (0011101)", "0x1c (xx111x0): SrcValid-"),
        ("0008:02:00.0", "ACSCtl 0x1d (0011101)", "0x19 (xx110x1): ReqRedir-"),
        ("0008:02:01.0", "ACSCtl 0x1d (0011101)", "0x15 (xx101x1): CmpltRedir-"),
        ("0008:06:00.0", "GPU in group 21, 0008:03:00.0 in 20", "one group for GPU and NIC"),
    ]
    argument = "pci=config_acs=xx111x0@0008:00:00.0;xx110x1@0008:02:00.0;xx101x1@0008:02:01.0"
    assert f"`{argument}`" in found[0].advice


@pytest.mark.parametrize(("seed", "name", "verdict"), [(int(s), n, v) for s, n, *v in VERDICTS])
def test_rdma_topo_and_the_rules_agree(seed: int, name: str, verdict: list[str], tmp_path: Path):
    made, functions = layout(seed)
    file = tmp_path / "dump.json"
    file.write_bytes(dump(functions))
    node = Node(open_host(str(file)))
    ports = sorted(failure.subject for failure in failures(node, acs_bits_differ))
    groups = failures(node, iommu_groups_differ, iommu_groups_shared)
    ats = failures(node, nic_ats_unexpected)

    assert made == name
    if verdict == ["unsupported"]:
        assert not ports and not ats  # groups: what the driver refuses does not depend on the layout's shape
    else:
        expected = [",".join(ports) or "-", "groups" if groups else "-", "ats" if ats else "-"]
        assert verdict == expected


def test_a_data_direct_layout_of_another_shape_is_unknown(tmp_path: Path):
    _, functions = layout(0)
    lacking = [f for f in functions if not f.path.endswith("0008:04:00.0")]
    file = tmp_path / "dump.json"
    file.write_bytes(dump([f._replace(path=f.path.replace("0008:04:00.0/", "")) for f in lacking]))
    found = [result.outcome for result in check_results(Node(open_host(str(file))), (acs_bits_differ,))]

    assert [type(outcome) for outcome in found] == [Unknown]
    assert found[0].missing.ask == "sudo rdma_topo check"  # type: ignore[union-attr]
