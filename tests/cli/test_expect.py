"""`gdr expect` and `gdr doctor --expect`, as the owner of one good node and many others uses them."""

import json
import shutil
import tomllib
from pathlib import Path

import pytest

from gdrkit.cli import main
from tests.evidence_nodes import laid_down

GOOD = "ubuntu-6.8-h100"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("expect") / "node.toml"
    assert main(["expect", str(laid_down(GOOD)), "-o", str(path)]) == 0
    text = path.read_text().replace("nics = 10\n", "nics = 8\n")  # the others have no NICs for storage
    path.write_text(text)
    return path


def doctor(node, file, *options):
    return main(["doctor", str(laid_down(node)), "--expect", str(file), *options])


def test_the_file_is_small_and_says_what_the_node_has(capsys):
    assert main(["expect", str(laid_down(GOOD))]) == 0
    text = capsys.readouterr().out
    table = tomllib.loads(text)

    assert len(text.splitlines()) < 40
    assert (table["gpus"], table["nics"], len(table["rails"])) == (8, 10, 1)
    assert table["rails"][0] == {
        "count": 8, "gpu": "NVIDIA H100 80GB HBM3", "nics": 1, "nic": "MT_0000000838", "distance": "PIX",
        "state": "ACTIVE", "rate": 400, "width": 16, "gpu_width": 16,
    }  # fmt: skip
    assert table["versions"]["modules"] == "open"


def test_a_good_node_is_as_expected(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path("node.toml")  # a longer name may be wrapped
    main(["expect", str(laid_down(GOOD)), "-o", str(path)])
    assert doctor(GOOD, path) == 0
    assert f"{path}: this node is as expected" in capsys.readouterr().out


def test_what_most_nodes_of_a_folder_have_is_expected_of_all(tmp_path, capsys):
    """Learned from four, one of which has lost a GPU; written, read again, and that one departs from it."""
    folder, learned = tmp_path / "bundles", tmp_path / "learned.toml"
    folder.mkdir()
    names = [GOOD, GOOD, GOOD, "gpu-gone", "a6000-tower"]
    for number, name in enumerate(names):
        shutil.copytree(laid_down(name), folder / f"{number}", symlinks=True)
    (folder / "damaged.tar.gz").write_bytes(b"\x1f\x8b damaged")

    assert main(["expect", str(folder), "-o", str(learned)]) == 0
    notes = capsys.readouterr().err
    assert "1 nodes of another kind are left out" in notes and "damaged.tar.gz" in notes
    table = tomllib.loads(learned.read_text())
    assert (table["gpus"], table["rails"][0]["count"]) == (8, 8)
    assert learned.read_text().startswith("# What most of 4 nodes have; written by gdr expect")

    assert doctor(GOOD, learned) == 0
    assert doctor("gpu-gone", learned) == 2
    assert main(["expect", str(folder), "-o", str(learned)]) == 64  # an existing file is kept


def test_a_folder_without_a_node_that_can_be_read_is_an_error(tmp_path, capsys):
    (tmp_path / "damaged.tar.gz").write_bytes(b"\x1f\x8b damaged")

    assert main(["expect", str(tmp_path)]) == 66
    assert "no node can be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    "node, code, first, differs",
    [
        ("rail-down", 2, "port-down", ["expected-rail-differs"]),
        ("nic-gone", 2, "expected-nic-missing", ["expected-nic-missing"]),
        ("gpu-gone", 2, "expected-gpu-missing", ["expected-gpu-missing"]),
        ("display-card", 1, "", ["unexpected-device"]),
        ("no-rdma-device", 2, "no-rdma-device", ["expected-gpu-missing", "expected-nic-missing"]),
        ("no-gpu", 2, "no-gpu", ["expected-gpu-missing", "expected-nic-missing"]),
    ],
)
def test_the_other_nodes(node, code, first, differs, file, capsys):
    assert doctor(node, file, "--json") == code
    report = json.loads(capsys.readouterr().out)

    assert report["expectation"]["met"] == "no"
    assert [c for c in report["expectation"]["differs"] if "version" not in c] == differs
    assert report["verdict"]["summary"].startswith(first)


def test_without_an_expectation_the_key_is_null(capsys):
    main(["doctor", str(laid_down(GOOD)), "--json"])
    assert json.loads(capsys.readouterr().out)["expectation"] is None


@pytest.mark.parametrize("node, text", [("no-rdma-device", "nics = 0"), ("gpus-gone", "gpus = 0")])
def test_an_expectation_of_none_is_one_way_out(node, text, tmp_path, capsys):
    path = tmp_path / "none.toml"
    path.write_text(text)

    assert main(["doctor", str(laid_down(node)), "-q"]) == 2
    assert doctor(node, path) == 0
    screen = capsys.readouterr().out
    assert screen.startswith("IMPOSSIBLE") and ", as expected" in screen


@pytest.mark.parametrize("node, text", [("no-rdma-device", "nics = 0"), ("gpus-gone", "gpus = 0")])
def test_a_repair_follows_the_same_expectation(node, text, tmp_path, capsys):
    path = tmp_path / "none.toml"
    path.write_text(text)
    target = str(laid_down(node))

    assert main(["fix", target, "-q"]) == 2
    assert main(["fix", target, "--expect", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"]["state"] == "impossible"


def test_a_repair_refuses_a_file_that_is_no_expectation(tmp_path, capsys):
    path = tmp_path / "none.toml"
    path.write_text("nics = none")

    assert main(["fix", str(laid_down(GOOD)), "--expect", str(path)]) >= 64
    assert "none.toml: " in capsys.readouterr().err


@pytest.mark.parametrize("node, way", [("no-rdma-device", "nics = 0"), ("gpus-gone", "gpus = 0")])
def test_the_first_screen_and_the_page_name_that_way_out(node, way, capsys):
    main(["doctor", str(laid_down(node))])
    assert f"--expect FILE with {way}" in " ".join(capsys.readouterr().out.split())
    main(["codes", "no-rdma-device" if node == "no-rdma-device" else "no-gpu"])
    assert f"`{way}`" in " ".join(capsys.readouterr().out.split())


def test_what_cannot_be_compared_is_unknown_and_no_pass(tmp_path, capsys):
    path = tmp_path / "x.toml"
    path.write_text('[versions]\nnccl = "2.26.2"\n')
    styles = ("gdr", "nagios", "npd", "slurm")
    codes = {
        style: doctor("gpu-operator-already-loaded", path, "--line", "--exit-style", style)
        for style in styles
    }
    line = capsys.readouterr().out.splitlines()[0]

    assert codes == {"gdr": 3, "nagios": 3, "npd": 2, "slurm": 0}
    assert "expectation unknown" in line


def test_drift_is_a_warning_also_where_the_hardware_cannot(tmp_path, capsys):
    path = tmp_path / "x.toml"
    path.write_text('nics = 0\n[versions]\nkernel = "6.9.0"\n')
    assert doctor("no-rdma-device", path, "--line") == 1
    assert "impossible, warning expected-version-differs: kernel" in capsys.readouterr().out


def test_the_line_names_what_was_expected_before_a_warning_that_changes_nothing(tmp_path, capsys):
    path = tmp_path / "x.toml"
    path.write_text('[versions]\nkernel = "6.9.0"\n')
    doctor("zgx-3285", path, "--json")
    codes = [
        one["code"] for one in json.loads(capsys.readouterr().out)["findings"] if one["status"] == "warning"
    ]
    assert codes.index("mixed-signers") < codes.index("expected-version-differs")
    assert doctor("zgx-3285", path, "--line") == 1
    assert "impossible, warning expected-version-differs: kernel" in capsys.readouterr().out


def test_the_line_and_the_styles_follow_what_is_missing(file, capsys):
    assert doctor("gpu-gone", file, "--line", "--exit-style", "slurm") == 1
    assert capsys.readouterr().out.startswith(
        "rail-09: blocked [hardware] expected-gpu-missing: 7 of 8 NVIDIA"
    )


def test_a_bad_node_is_written_with_a_note(capsys):
    assert main(["expect", str(laid_down("rail-down"))]) == 0
    printed = capsys.readouterr()
    assert 'state = "DOWN"' in printed.out and "note: this node is blocked (port-down" in printed.err


def test_what_the_evidence_does_not_show_is_left_out_and_named(capsys):
    main(["expect", str(laid_down("gpu-operator-already-loaded"))])
    text = capsys.readouterr().out
    assert "# not known: versions.nccl: libnccl (not collected)" in text
    assert "nccl" not in tomllib.loads(text)["versions"]


@pytest.mark.parametrize(
    "content, words",
    [
        (b"gpu = 8\n", "unknown key \"gpu\", did you mean 'gpus'?"),
        (b"\xff\xfe", "not UTF-8"),
        (b"gpus", "not TOML"),
        (b"#" * (1 << 20) + b"##", "larger than 1 MiB"),
        (None, "no such file"),
    ],
)
def test_a_bad_file_is_one_clear_line(content, words, tmp_path, capsys):
    path = tmp_path / "bad.toml"
    if content is not None:
        path.write_bytes(content)
    assert doctor(GOOD, path) == 66
    printed = capsys.readouterr()
    assert words in printed.err.splitlines()[0] and len(printed.err.splitlines()) <= 2 and not printed.out


def test_for_slurm_a_bad_file_drains_nothing(tmp_path):
    assert doctor(GOOD, tmp_path / "none.toml", "--exit-style", "slurm") == 0
