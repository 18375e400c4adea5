"""A report without names: no host, address or GUID of the node is on the page, and the page still works."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from gdrkit.cli import main
from gdrkit.fleet.build import build as build_fleet
from gdrkit.fleet.document import Standing
from gdrkit.fleet.hostlist import expand
from gdrkit.html.anonymous import _renamed, anonymous_fleet
from gdrkit.html.fleet_page import fleet_page
from tests.evidence_nodes import build, laid_down
from tests.html.test_fleet_page import BAD, GOOD
from tests.html.test_node_page import Reader
from tests.jobs.samples import info

LINE = "Channel 00 : 0[1b000] -> 1[1b000] [send] via NET/IB/0/GDRDMA"


def written(folder, *arguments):
    page = folder / "page.html"
    main(["report", *arguments, "-o", str(page), "--force"])
    return page.read_text()


@pytest.mark.parametrize("name", ["rail-down", "spark-two-cables", "acs-redirect"])
def test_the_host_of_a_node_is_on_the_page_only_without_anonymize(name, tmp_path):
    node = str(laid_down(name))
    plain, hidden = written(tmp_path, node), written(tmp_path, node, "--anonymize")
    host = re.findall(r'<span class="crumb"><b>(.*?)</b>', plain)[0]
    assert host in plain and host not in hidden
    assert "\N{MIDDLE DOT} bundle" in hidden, "what is no name stays"
    bus = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d"
    assert re.findall(bus, plain) == re.findall(bus, hidden) != [], "places in the machine stay"


def test_links_of_an_anonymous_page_lead_to_their_place_and_the_policy_still_holds(tmp_path):
    node = str(laid_down("rail-down"))
    plain, hidden = (Reader(written(tmp_path, node, *more)) for more in ((), ("--anonymize",)))
    ids = {attributes["id"] for _, attributes in hidden.elements if "id" in attributes}
    links = [a["href"][1:] for tag, a in hidden.elements if tag == "a" and a["href"].startswith("#")]
    assert links and set(links) <= ids
    policies = [[a.get("content") for tag, a in page.elements if tag == "meta"] for page in (plain, hidden)]
    assert policies[0] == policies[1]


def test_hosts_and_addresses_of_a_log_are_replaced_each_always_by_the_same(tmp_path):
    log = tmp_path / "job.log"
    log.write_text(
        info("mercury-17:1", 0, "Bootstrap : Using eth0:10.1.2.3<0>", LINE) + info("mercury-18:1", 0, LINE)
    )
    plain, hidden = written(tmp_path, str(log)), written(tmp_path, str(log), "--anonymize")
    assert "mercury-17" in plain and "mercury-18" in plain
    assert "mercury" not in hidden and "10.1.2.3" not in hidden
    hosts = re.findall(r'<th scope="row">.*?<small>(.*?)</small>', hidden)
    assert len(set(hosts)) == 2


def test_a_fleet_has_no_name_of_a_node_in_words_lists_or_data_and_the_same_groups():
    names = [f"mercury-{n:02d}.hall3.example" for n in range(12)]
    bad = replace(BAD, summary="mercury-03 does not answer 10.1.2.3")
    rows = [
        replace(bad if n in (3, 4) else GOOD, name=name, target=f"/home/alice/{name}.tar.gz")
        for n, name in enumerate(names)
    ]
    report = build_fleet(rows, started="2026-11-22T23:31:05Z", seconds=1.0)
    hidden, racks = anonymous_fleet(report, dict.fromkeys(names, "hall3"))
    page = fleet_page(hidden, "a fleet", racks)
    for word in ("mercury", "hall3", "alice", "10.1.2.3"):
        assert word in fleet_page(report, "x", {names[0]: "hall3"}) and word not in page
    assert [group.count for group in hidden.groups] == [group.count for group in report.groups]
    assert len({row.name for row in hidden.nodes}) == 12
    (group,) = (group for group in hidden.groups if group.causes)
    assert set(expand(group.nodes)) == {row.name for row in hidden.nodes if row.causes}
    assert "rack01" in page
    assert anonymous_fleet(report, {})[1] == {}


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        ("/home/alice/gpu0.tar.gz", "gpu0.tar.gz"),
        ("gpu0.tar.gz", "gpu0.tar.gz"),
        ("ssh://ann@gpu0", "ssh://ann@gpu0"),
    ],
)
def test_of_a_file_its_folder_is_left_out(target, kept):
    assert _renamed({"target": target, "summary": target}, "", {}, str) == {
        "target": kept,
        "summary": target,
    }


def test_racks_are_numbered_from_one_beside_nodes_without_a_rack():
    report = build_fleet([replace(GOOD, name=name) for name in ("x1", "x2", "x3")], seconds=1.0)
    _, racks = anonymous_fleet(report, {"x1": "hall10", "x3": "hall9"})
    assert sorted(racks.values()) == ["rack01", "rack02"]


def test_a_fleet_whose_nodes_are_called_as_words_of_the_document_stays_whole():
    warned = replace(BAD, name="x1", standing=Standing.WARNINGS, remedies=("load-peermem",))
    names = ("standing", "warnings", "load-peermem", "nodes", "GPUs", "differences")
    rows = [replace(GOOD, name=name) for name in names]
    hidden, _ = anonymous_fleet(build_fleet([*rows, warned], seconds=1.0), {})
    assert len(hidden.nodes) == 7 and {row.standing for row in hidden.nodes} == {"ready", "warnings"}
    assert not set(names) & {row.name for row in hidden.nodes}


def test_the_command_writes_a_fleet_without_its_names(tmp_path):
    (tmp_path / "bundles").mkdir()
    build("rail-down", tmp_path / "bundles")
    page = tmp_path / "fleet.html"
    main(["fleet", "report", str(tmp_path / "bundles"), "-o", str(page), "--anonymize"])
    assert "rail-07" not in page.read_text() and str(tmp_path) not in page.read_text()
