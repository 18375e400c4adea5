"""`gdr doctor A B`: two nodes, and what must be the same on both."""

from __future__ import annotations

import copy
import json
import posixpath
import re

import pytest
from machines.compose import compose, write
from machines.fleet import fleet

from gdrkit.cli import main
from tests.fleet.sparks import spark_machine

FLEET = fleet(31, 2)
BASE = next(machine for machine in FLEET.machines if machine.name != FLEET.planted)


def pair(tmp_path, change):
    """Two bundles of a machine, the second one changed."""
    paths = []
    for name in ("left", "right"):
        machine = copy.deepcopy(BASE)
        machine.name = name
        if name == "right":
            change(machine)
        paths.append(str(write(machine, tmp_path)))
    return paths


def another_nccl(machine):
    machine.libraries.nccl = "2.28.9" if machine.libraries.nccl != "2.28.9" else "2.29.2"


def a_smaller_mtu(machine):
    for nic in machine.nics:
        at = f"sys/class/net/{nic.net}"
        machine.dropped.append(at)
        machine.files[f"{at}/mtu"] = "1500\n"


def ports_say(command, output):
    """Change what a command about each interface printed."""

    def change(machine):
        for nic in machine.nics:
            machine.files[f"sos_commands/{command}_{nic.net}"] = output

    return change


def another_network(machine):
    """The second node's first port is in the network of no port of the first one."""
    at = "sos_commands/gdr/ip_-j_addr"
    machine.files[at] = compose(machine).files[at].replace(b"192.168.1.", b"192.168.201.")


def a_traffic_class(machine):
    for nic in machine.nics:
        machine.files[real(machine, f"sys/class/infiniband/{nic.rdma}/tc/1/traffic_class")] = (
            "Global tclass=236\n"
        )


def another_gid_index(machine):
    files = compose(machine).files
    for nic in machine.nics:
        for kind in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
            at = real(machine, f"sys/class/infiniband/{nic.rdma}/ports/1/{kind}")
            machine.files[f"{at}/5"] = files[f"{at}/3"]
            machine.dropped.append(f"{at}/3")


def real(machine, path):
    """A path in sys/class with its link followed."""
    links = compose(machine).links
    folder = "/".join(path.split("/")[:4])
    return posixpath.normpath(f"{posixpath.dirname(folder)}/{links[folder]}{path[len(folder) :]}")


NO_PFC = "pfc-cap 8 macsec-bypass off delay 7 \nprio-pfc 0:off 1:off 2:off 3:off 4:off 5:off 6:off 7:off \n"
PAUSED = "Pause parameters for eth0:\nAutonegotiate:\toff\nRX:\t\ton\nTX:\t\ton\n"
LOSSY = "out_of_sequence and packet_seq_err rise"


def settings(machine):
    machine.nccl_conf["NCCL_IB_TIMEOUT"] = "22"


def no_direct_path(machine):
    machine.driver.loaded = False


@pytest.mark.parametrize(
    ("change", "trait", "shows_as"),
    [
        (another_nccl, "NCCL left ", "Mismatched NCCL version detected"),
        (a_smaller_mtu, "MTU left 9000 right 1500", "LOC_LEN_ERR"),
        (settings, "NCCL settings left ", "NCCL environment: mismatch"),
        (no_direct_path, "paths left ", "loses GDRDMA"),
        (another_network, "networks left 192.168.1.0/24 right 192.168.201.0/24", "Network is unreachable"),
        (another_gid_index, "GID index left 3 right 5", "one NCCL_IB_GID_INDEX for all nodes"),
        (a_traffic_class, "traffic class left none right Global tclass=236", LOSSY),
        (ports_say("gdr/dcb_pfc_show_dev", NO_PFC), "flow control left PFC 3 right PFC off", LOSSY),
        (ports_say("gdr/dcb_-N_app_show_dev", "\n"), "priorities left DSCP right VLAN", LOSSY),
        (ports_say("networking/ethtool_-a", PAUSED), "pause frames left rx off, tx off right rx on", LOSSY),
    ],
)
def test_a_mismatch_is_shown_with_the_message_by_which_it_shows(tmp_path, capsys, change, trait, shows_as):
    code = main(["doctor", *pair(tmp_path, change)])
    printed = " ".join(capsys.readouterr().out.split())

    assert code == (2 if change is no_direct_path else 1)
    before, _, after = printed.partition("Must be the same for a job on both")
    assert trait in after and shows_as in after
    assert before.startswith("1 difference in what must be the same for a job on both, ")
    assert "left: " in before and "right: " in before


@pytest.mark.parametrize("change", [another_network, ports_say("gdr/dcb_pfc_show_dev", NO_PFC)])
def test_what_one_node_does_not_show_is_unknown_and_no_mismatch(tmp_path, capsys, change):
    """What was not collected is neither equal nor different."""
    command = "ip_-j_addr" if change is another_network else "dcb_pfc_show_dev"

    def hidden(machine):
        nets = [f"_{nic.net}" for nic in machine.nics] if change is not another_network else [""]
        machine.hidden.update({f"sos_commands/gdr/{command}{net}": "not-collected" for net in nets})

    assert main(["doctor", *pair(tmp_path, hidden)]) == 0
    printed = capsys.readouterr().out
    assert "Must be the same" not in printed and "right  not known" in printed
    assert re.match(r"No difference in what is compared; [12] traits? not known of one node\n", printed)


def routed(machine):
    for nic in machine.nics:
        machine.files[f"sos_commands/gdr/ip_route_show_table_all_dev_{nic.net}"] = (
            "default via 192.168.1.254\n"
        )


def test_ports_with_a_gateway_need_no_common_network(tmp_path, capsys):
    paths = []
    for name in ("left", "right"):
        machine = copy.deepcopy(BASE)
        machine.name = name
        routed(machine)
        if name == "right":
            another_network(machine)
        paths.append(str(write(machine, tmp_path)))

    assert main(["doctor", *paths]) == 0
    assert capsys.readouterr().out.startswith("No difference")


@pytest.mark.parametrize("command", ["doctor", "report"])
def test_a_node_that_is_compared_with_itself_is_said_to_be(command, tmp_path, capsys):
    """A slip of the hand reads as the good news that nothing differs."""
    one, linked = write(BASE, tmp_path), tmp_path / "other"
    linked.symlink_to(one)
    main([command, str(one), str(linked), *(["-o", str(tmp_path / "page")] if command == "report" else [])])

    assert "note: both are the same" in capsys.readouterr().err


def test_two_equal_nodes_have_no_difference(tmp_path, capsys):
    assert main(["doctor", *pair(tmp_path, lambda machine: None)]) == 0
    assert capsys.readouterr().out.startswith("No difference in what is compared\n")


def test_what_may_differ_is_listed_apart_and_changes_no_exit_code(tmp_path, capsys):
    def another_ucx(machine):
        machine.libraries.ucx = "1.18.0" if machine.libraries.ucx != "1.18.0" else "1.19.0"

    assert main(["doctor", *pair(tmp_path, another_ucx)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("0 differences in what must be the same for a job on both, 1 in the rest\n")
    assert (
        "Must be the same for" not in printed and "  UCX\n    left   1." in printed.partition("Differs")[2]
    )


def test_json_is_the_document_of_a_fleet(tmp_path, capsys):
    main(["doctor", *pair(tmp_path, another_nccl), "--json"])
    document = json.loads(capsys.readouterr().out)

    assert document["schema"] == "gdrkit.fleet/1"
    assert [row["trait"] for row in document["mismatches"]] == ["NCCL"]


def test_options_for_one_node_are_refused_with_two(tmp_path, capsys):
    assert main(["doctor", "a", "b", "--line"]) == 64
    assert "--line has no effect with two nodes" in capsys.readouterr().err


def test_two_sparks_are_one_answer(tmp_path, capsys):
    """Cable, addresses, rate, and what to set: as text and as JSON."""
    paths = [str(write(spark_machine(name, at), tmp_path)) for at, name in enumerate(("spark-a", "spark-b"))]

    code = main(["doctor", *paths])
    printed = " ".join(capsys.readouterr().out.split())
    assert code == 0
    assert "connected, at most 200 Gbit/s cable p0 of spark-a to p0 of spark-b (in one network)" in printed
    assert "What to set on both nodes" in printed and "NCCL_IB_HCA='=roceP2p1s0f0:1,rocep1s0f0:1'" in printed

    main(["doctor", *paths, "--json"])
    cabling = json.loads(capsys.readouterr().out)["cabling"]
    assert cabling["cables"] == [["p0", "p0"]] and len(cabling["pairs"]) == 2


def test_a_pair_of_sparks_that_does_not_meet_needs_something(tmp_path, capsys):
    one, other = (spark_machine(name, at) for at, name in enumerate(("spark-a", "spark-b")))
    for nic in other.nics:
        nic.state = "DOWN"

    assert main(["doctor", str(write(one, tmp_path)), str(write(other, tmp_path))]) == 1
    printed = capsys.readouterr().out
    assert "Between the two nodes: 1 problem\n  ! no port of spark-b is up" in printed
