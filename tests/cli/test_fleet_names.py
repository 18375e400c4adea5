"""What a node calls itself is not trusted: no list of `gdr fleet` means more than the nodes in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from gdrkit.cli import main
from gdrkit.cli.exit import NO_INPUT
from gdrkit.fleet import runs
from gdrkit.fleet.build import build
from gdrkit.fleet.document import Standing
from gdrkit.fleet.headline import repeated
from gdrkit.fleet.hostlist import expand
from gdrkit.fleet.judge import without_answer
from gdrkit.html.anonymous import anonymous_fleet
from gdrkit.html.fleet_page import fleet_page
from tests.fleet.fleets import row
from tests.fleet.programs import install, sends_file
from tests.fleet.test_hostlist import MORE_THAN_A_NAME, ORDINARY, SPECIAL


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """Runs are kept in a folder of the test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def node(folder: Path, hostname: str) -> Path:
    """The evidence of a node of which only its name is known, so that it is in need."""
    (folder / "proc/sys/kernel").mkdir(parents=True)
    (folder / "proc/sys/kernel/hostname").write_text(f"{hostname}\n")
    return folder


def listed(capsys, *words):
    main(["fleet", "doctor", *map(str, words), "--nodes-only", "unknown"])
    return capsys.readouterr()


def test_a_node_with_a_special_name_is_listed_as_its_folder(tmp_path, capsys):
    """No hostlist has it either: not one of the document, and not one to copy from the page."""
    wrong = (*SPECIAL, *MORE_THAN_A_NAME)
    for number, name in enumerate(wrong):
        node(tmp_path / f"nodes/gpu{number:03d}", name)
    printed = listed(capsys, tmp_path / "nodes")
    main(["fleet", "doctor", "--run", "last", "--json"])
    document = json.loads(capsys.readouterr().out)

    folders = [f"gpu{number:03d}" for number in range(len(wrong))]
    assert printed.out == f"gpu[000-{len(wrong) - 1:03d}]\n"
    assert [one["name"] for one in document["nodes"]] == folders
    assert {name for group in document["groups"] for name in expand(group["nodes"])} == set(folders)


def test_nodes_with_ordinary_names_are_listed_by_them(tmp_path, capsys):
    for number, name in enumerate(ORDINARY):
        node(tmp_path / "nodes" / str(number), name)
    assert sorted(expand(listed(capsys, tmp_path / "nodes").out)) == sorted(ORDINARY)


def test_a_node_whose_folder_has_such_a_name_too_is_left_out_and_said_so(tmp_path, capsys):
    folders = ["ALL", "localhost", "n[1-3]", "@group", "-x", "a b"]
    for folder in folders:
        node(tmp_path / "nodes" / folder, "ALL")
    node(tmp_path / "nodes" / "gpu7", "gpu7")
    printed = listed(capsys, tmp_path / "nodes")

    assert printed.out == "gpu7\n"
    lines = printed.err.splitlines()
    assert len(lines) == len(folders) and all("left out" in line for line in lines)
    assert all(any(folder in line for line in lines) for folder in folders)


def test_a_kept_run_that_someone_else_wrote_lists_no_such_name_either(tmp_path, capsys):
    listed(capsys, node(tmp_path / "gpu7", "gpu7"))
    (run,) = (tmp_path / "state/gdrkit/fleet").iterdir()
    run.write_text(run.read_text().replace('"name":"gpu7"', '"name":"ALL"'))
    printed = listed(capsys, "--run", run)

    assert printed.out == ""
    assert "left out, 'ALL'" in printed.err


def test_beside_a_list_stands_what_its_nodes_call_themselves(tmp_path, capsys):
    listed(capsys, node(tmp_path / "gpu7", "gpu7"))
    (run,) = (tmp_path / "state/gdrkit/fleet").iterdir()
    run.write_text(run.read_text().replace('"name":"gpu7"', '"name":"gpu7","calls_itself":"ALL"'))
    printed = listed(capsys, "--run", run)

    assert printed.out == "gpu7\n"
    assert printed.err == "gdr fleet doctor: gpu7 calls itself ALL\n"


def run(capsys, *words):
    code = main(["fleet", "doctor", *map(str, words)])
    return code, capsys.readouterr()


def test_a_file_that_is_no_evidence_has_a_whole_sentence_and_is_in_no_list(tmp_path, capsys):
    """A photograph, notes and half a bundle beside the bundles: nobody knows a node by their names."""
    (tmp_path / "rack.jpg").write_bytes(b"\xff\xd8\xff\xe0\0\x10JFIF\0" + bytes(range(256)))
    (tmp_path / "gpu031.tar.gz").write_text("the cable of gpu031 was moved\n")
    (tmp_path / "gpu032.tar.gz").write_bytes(b"\x1f\x8b")
    run(capsys, tmp_path)
    _, document = run(capsys, "--run", "last", "--json")
    _, listed = run(capsys, "--run", "last", "--nodes-only", "unknown")

    causes = {cause for group in json.loads(document.out)["groups"] for cause in group["causes"]}
    assert not [cause for cause in causes if cause.endswith("it")]
    assert {"unsupported format", "not a bundle or sosreport"} <= causes
    assert listed.out == "" and listed.err.count("left out, 'gpu03") == 2 and "rack.jpg" in listed.err


def test_a_word_that_is_neither_a_file_nor_a_host_says_so_with_the_folder_that_was_meant(
    tmp_path, capsys, monkeypatch
):
    """ssh alone said that it could not resolve `bundels`, and the report wrote a page about that."""
    (tmp_path / "bundles").mkdir()
    monkeypatch.chdir(tmp_path)
    says = 'echo "ssh: Could not resolve hostname $node: Name or service not known" >&2; exit 255'
    install(tmp_path / "bin", "ssh", says, monkeypatch)
    _, judged = run(capsys, "bundels", "gpu[1-2]", "--json")
    rows = {row["name"]: row for row in json.loads(judged.out)["nodes"]}
    code = main(["fleet", "report", "bundels", "-o", "page.html"])

    why = "no such file or folder here, so it was asked as a node, did you mean 'bundles'?"
    assert rows["bundels"]["summary"].startswith(why)
    assert rows["gpu1"]["summary"].startswith("cannot connect")
    assert code == NO_INPUT and why in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


def test_a_group_that_is_not_there_is_answered_with_those_that_are(capsys):
    """One more than the screen shows: the ready ones are a group, too."""
    rows = [row("b1", Standing.BLOCKED), row("r1")]
    runs.keep(build(rows, started="2026-11-28T02:00:00Z"))
    _, printed = run(capsys, "--run", "last", "--group", "4")

    assert printed.err.endswith("no group 4; there is 1 (blocked), 2 (ready)\n")


@pytest.fixture
def asked(tmp_path, monkeypatch, capsys):
    """What `gdr fleet doctor` prints on nodes over ssh that call themselves so."""

    def run(names: dict[str, str]) -> str:
        lines = []
        for host, own in names.items():
            bundle = tmp_path / f"{host}.tar.gz"
            root = node(tmp_path / host, own)
            main(["collect", "--root", str(root), "--output", str(bundle), "--no-probe"])
            lines.append(f"[ $node = {host} ] && {{ {sends_file(bundle)}; }}")
        install(tmp_path / "bin", "ssh", "\n".join(lines), monkeypatch)
        capsys.readouterr()
        main(["fleet", "doctor", ",".join(names)])
        return capsys.readouterr().out

    return run


def test_only_the_name_that_was_asked_counts_and_another_one_is_said(asked, capsys):
    names = {"gpu1": "ALL", "gpu3": "localhost", "gpu4": "gpu2", "gpu5": "@group", "gpu6": "gpu[1-9]"}
    text = asked(names)
    main(["fleet", "doctor", "--run", "last", "--json"])
    found = json.loads(capsys.readouterr().out)["nodes"]

    assert {one["name"]: one["calls_itself"] for one in found} == names
    main(["fleet", "doctor", "--run", "last", "-v"])
    whole = capsys.readouterr().out
    assert f"Answered by another name: {len(names)} nodes\n    gpu1 calls itself ALL\n" in text
    for host, own in names.items():
        assert f"    {host} calls itself {own}" in whole


def test_the_same_name_is_not(asked):
    text = asked({"gpu1": "gpu1", "gpu2": "GPU2", "gpu3": "gpu3.example.com"})
    assert "another name" not in text and "None of 3 nodes needs anything" in text


def test_files_of_one_host_name_are_named_and_are_in_no_list(tmp_path, capsys):
    for folder in ("a.tar.gz", "b.tar.gz"):
        node(tmp_path / folder, "gpu7")
    node(tmp_path / "gpu8", "gpu8")
    _, screen = run(capsys, tmp_path)
    _, whole = run(capsys, "--run", "last", "-v")
    _, listed = run(capsys, "--run", "last", "--nodes-only", "unknown")
    page = fleet_page(runs.read("last"), "x")

    says = "Host name gpu7 appears 2 times: a.tar.gz,b.tar.gz"
    assert says in screen.out.splitlines() and says in whole.out.splitlines()
    assert "another name" not in screen.out + whole.out + page
    assert "Host names that appear more than once" in page
    assert listed.out == "gpu8\n"
    assert listed.err.count("is one of several that call themselves 'gpu7'") == 2


def test_a_host_name_that_was_asked_and_is_in_a_file_is_named_with_both():
    files = [replace(row("gpu7"), target=f"/x/{name}.tar.gz") for name in "ab"]
    asked = replace(row("gpu7"), target="ssh://gpu7")

    assert repeated(build([*files, asked])) == ["Host name gpu7 appears 3 times: a.tar.gz,b.tar.gz,gpu7"]
    assert repeated(build([asked, row("gpu8")])) == repeated(build(files[:1])) == []


def test_files_of_one_name_that_show_no_node_have_no_host_name():
    silent = [without_answer(f"/{folder}/a.tar.gz", "", "empty", Standing.UNREADABLE) for folder in "xy"]

    assert [one.calls_itself for one in build(silent).nodes] == ["", ""] and not repeated(build(silent))


def test_the_page_names_both_and_an_anonymous_one_neither():
    asked = replace(row("tray31", calls_itself="storage9"), target="ssh://tray31")
    report = build([asked, row("tray32")])

    assert "storage9" in fleet_page(report, "x")
    hidden = fleet_page(anonymous_fleet(report, {})[0], "x")
    assert "storage9" not in hidden and "tray31" not in hidden and "Answered by another name" in hidden
