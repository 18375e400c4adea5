"""The command line, from the package and from the one-file archive on an old Python."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import gdrkit
from gdrkit.agent import collect
from gdrkit.agent.collect import command, main, pyz, version
from gdrkit.agent.collect.collector import CollectSummary
from gdrkit.agent.collect.progress import CollectorProgress

HERE = Path(collect.__file__).parent
SOURCES = sorted(HERE.parent.rglob("*.py"))


def old_python() -> str | None:
    """A Python 3.8, if this machine has one."""
    versions = Path.home() / ".pyenv/versions"
    found = [shutil.which("python3.8"), *map(str, versions.glob("3.8.*/bin/python3.8"))]
    return next((path for path in found if path and "shims" not in path), None)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_the_grammar_is_that_of_python_3_8(path):
    ast.parse(path.read_text(), feature_version=(3, 8))


def test_the_version_is_that_of_gdrkit():
    assert gdrkit.__version__ == version.VERSION


def test_the_same_sources_give_the_same_file():
    assert pyz.archive() == pyz.archive()


@pytest.mark.parametrize(("denied", "named"), [(3, "f0, f1, f2"), (4, "f0, f1, f2, ...")])
def test_who_is_not_root_is_told_the_first_files_that_root_could_read(monkeypatch, capsys, denied, named):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    summary = CollectSummary({}, {}, [f"f{number}" for number in range(denied)], 0.0)

    command._print_summary(CollectorProgress(sys.stderr, quiet=False), "", 0, summary)

    assert capsys.readouterr().err.endswith(f"run as root to collect more: {named}\n")


def test_the_archive_collects_on_a_python_without_packages(root, tmp_path):
    python = old_python()
    if python is None:
        pytest.skip("needs Python 3.8: uv python install 3.8")
    program, bundle = tmp_path / "gdr-collect.pyz", tmp_path / "bundle.tar.gz"
    assert main(["--pyz", str(program), "--quiet"]) == 0

    child = subprocess.run(
        [python, "-I", "-S", program, "--root", root.folder, "-o", bundle],
        capture_output=True, text=True, cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}, check=False,
    )  # fmt: skip

    assert child.returncode == 0, child.stderr
    with tarfile.open(bundle) as archive:
        assert any(name.endswith("/gdr_manifest.json") for name in archive.getnames())


def test_this_machine_is_collected_through_standard_output(tmp_path):
    """A complete collection, with commands and probes."""
    program = tmp_path / "gdr-collect.pyz"
    program.write_bytes(pyz.archive())

    child = subprocess.run([sys.executable, program, "-o", "-", "--quiet"], capture_output=True, check=True)
    (tmp_path / "bundle.tar.gz").write_bytes(child.stdout)
    with tarfile.open(tmp_path / "bundle.tar.gz") as archive:
        name = next(name for name in archive.getnames() if name.endswith("/gdr_manifest.json"))
        stream = archive.extractfile(name)
        assert stream is not None
        manifest = json.loads(stream.read())
        probe = next(name for name in archive.getnames() if name.endswith("/sos_commands/gdr/probe_cuda"))
        stream = archive.extractfile(probe)
        assert stream is not None
        answers = json.loads(stream.read())

    commands = {tuple(command["argv"]): command for command in manifest["commands"]}
    assert {"dmesg", "lspci", "nvidia-smi"} <= {argv[0] for argv in commands}
    assert commands["gdr", "probe", "cuda", "--json"]["file"] == "sos_commands/gdr/probe_cuda"
    assert answers["schema"] == "gdrkit.probe.cuda/1"
    assert child.stderr == b""


def test_the_summary_counts_what_was_found_and_what_was_not(root, tmp_path, capsys):
    path = tmp_path / "b.tar.gz"

    assert main(["--root", str(root.folder), "-o", str(path)]) == 0

    said = capsys.readouterr().err
    assert re.search(rf"(?m)^{re.escape(str(path))}, \d\.\d MB: \d+ found, \d+ denied, \d+ absent; ", said)


def test_the_summary_as_json(root, tmp_path, capsys):
    path = tmp_path / "b.tar.gz"

    assert main(["--root", str(root.folder), "-o", str(path), "--json", "--quiet"]) == 0

    captured = capsys.readouterr()
    summary = json.loads(captured.out)
    assert captured.err == ""
    assert summary["schema"] == "gdrkit.collect/1"
    assert summary["size_bytes"] == path.stat().st_size
    assert summary["files"]["found"] > 20
    assert summary["denied"] == []  # root may not read a private key either


def test_the_name_of_an_anonymized_bundle_has_no_hostname(root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert main(["--root", str(root.folder), "--anonymize", "--quiet"]) == 0

    (bundle,) = tmp_path.glob("gdr-*.tar.gz")
    assert "zgx-3285" not in bundle.name


@pytest.mark.parametrize("arguments", [["--nonsense"], ["-o", "-", "--json"], ["--root", "/does/not/exist"]])
def test_wrong_usage_exits_64(arguments, capsys):
    assert main(arguments) == 64
    assert "gdr collect" in capsys.readouterr().err


def test_help_exits_0(capsys):
    assert main(["--help"]) == 0
    assert "--anonymize" in capsys.readouterr().out


def test_a_missing_folder_is_a_one_line_error(root, tmp_path, capsys):
    assert main(["--root", str(root.folder), "-o", str(tmp_path / "no/b.tar.gz"), "--quiet"]) == 73
    assert capsys.readouterr().err.count("\n") == 1


def test_an_interrupt_leaves_no_partial_file(root, tmp_path, monkeypatch, capsys):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gdrkit.agent.collect.walker.Walker.port_tables", interrupt)
    target = tmp_path / "out"
    target.mkdir()

    assert main(["--root", str(root.folder), "-o", str(target / "b.tar.gz"), "--quiet"]) == 130
    assert capsys.readouterr().err == "gdr collect: interrupted; nothing was written\n"
    assert list(target.iterdir()) == []


# -- what it says ----------------------------------------------------------------------------------


def said(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main([*arguments])
    found = capsys.readouterr()
    return code, found.out, found.err


EXISTS = "gdr collect: {} exists\n  name another output file, or replace it with --force\n"


def test_an_existing_file_is_replaced_only_with_force(root, tmp_path, capsys):
    path = tmp_path / "bundle.tar.gz"
    path.write_text("mine")
    arguments = ("--root", str(root.folder), "-o", str(path), "--quiet")
    assert said(capsys, *arguments) == (64, "", EXISTS.format(path))
    assert path.read_text() == "mine"
    assert said(capsys, *arguments, "--force") == (0, "", "")
    assert tarfile.is_tarfile(path)
    assert said(capsys, "--pyz", str(path)) == (64, "", EXISTS.format(path))


def test_a_file_that_is_named_like_standard_output_is_no_obstacle(root, tmp_path, capfdbinary, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-").write_text("mine")
    assert main(["--root", str(root.folder), "-o", "-", "--quiet"]) == 0
    found = capfdbinary.readouterr()
    assert (found.out[:2], found.err) == (b"\x1f\x8b", b"")
    assert (tmp_path / "-").read_text() == "mine"


def test_what_cannot_be_done_is_said(root, tmp_path, capsys):
    assert said(capsys, "--root", str(tmp_path / "none")) == (
        64, "", f"gdr collect: not a directory: {tmp_path / 'none'}\n",
    )  # fmt: skip
    both = "gdr collect: --json and -o - both write to standard output\n  use -o FILE with --json\n"
    assert said(capsys, "-o", "-", "--json") == (64, "", both)
    path = str(tmp_path / "no/such/bundle")
    code, out, err = said(capsys, "--root", str(root.folder), "-o", path, "--quiet")
    assert (code, out, err) == (73, "", f"gdr collect: cannot write {path}: No such file or directory\n")
    path = str(tmp_path / "no/such.pyz")
    code, out, err = said(capsys, "--pyz", path)
    assert (code, out, err) == (73, "", f"gdr collect: cannot write {path}: No such file or directory\n")


def test_the_summary_counts_what_was_found(root, tmp_path, capsys):
    path = tmp_path / "bundle.tar.gz"
    code, out, err = said(capsys, "--root", str(root.folder), "-o", str(path), "--json")
    report = json.loads(out)
    files = report["files"]
    kept = sum(files.get(status, 0) for status in ("found", "reduced", "listed"))
    size = path.stat().st_size
    assert (code, report["schema"]) == (0, "gdrkit.collect/1")
    assert (report["file"], report["size_bytes"]) == (str(path), size)
    assert files["absent"] > 100 and kept > 50 and report["commands"] == {}
    last = err.splitlines()[-1]
    counted = (
        f"{path}, {size / 1e6:.1f} MB: {kept} found, {files['denied']} denied, {files['absent']} absent"
    )
    assert re.fullmatch(re.escape(f"{counted}; 0 of 0 commands succeeded; ") + r"\d+\.\d s", last)
    assert report["denied"] == []  # a private key is not: root would not read it either


@pytest.mark.parametrize(("name", "fits"), [
    ("m", True), ("nvidia-peermem", True), ("_a9", True), ("a" * 55, True), ("a" * 56, False), ("", False),
    ("-a", False), ("../a", False), ("a b", False), ("ä", False), ("a\n", False),
])  # fmt: skip
def test_a_module_has_the_name_of_one(capsys, name, fits):
    if fits:
        assert command.parse([f"--module={name}"]).module == [name]
    else:
        wrong = f"gdr collect: argument --module: not a module's name: {name!r}\n  see gdr collect --help\n"
        assert said(capsys, f"--module={name}") == (64, "", wrong)


@pytest.mark.parametrize(("arguments", "wrong"), [
    *(((f"--{name}=",), f"empty value of --{name}") for name in ("output", "root", "pyz")),
    *((("--pyz", "x", *more), f"{more[0]} has no effect with --pyz, which collects nothing") for more in (
        ("--output", "x"), ("--anonymize",), ("--module", "x"), ("--no-probe",), ("--root", "/x"),
        ("--json",), ("--verbose",),
    )),
    (("--quiet", "--verbose"), "--verbose has no effect with --quiet"),
    (("--force", "-o", "-"), "--force has no effect with -o -"),
    (("--nonsense",), "unrecognized arguments: --nonsense"),
    (("--anon",), "unrecognized arguments: --anon"),
])  # fmt: skip
def test_an_option_without_effect_is_an_error(capsys, arguments, wrong):
    assert said(capsys, *arguments) == (64, "", f"gdr collect: {wrong}\n  see gdr collect --help\n")


@pytest.mark.parametrize("arguments", [(), ("--pyz", "x", "--root", "/"), ("--pyz", "x", "--force", "-q")])
def test_options_that_fit(arguments):
    assert command.parse([*arguments]).pyz == ("x" if arguments else None)


def test_the_summary_in_a_line(capsys):
    def line(path: str, size: int, missed: list[str], **numbers: int) -> str:
        files = {status.replace("_", "-"): number for status, number in numbers.items()}
        summary = CollectSummary(files, {"found": 2, "failed": 3}, missed, 1.25)
        command._print_summary(CollectorProgress(sys.stderr, quiet=False), path, size, summary)
        return capsys.readouterr().err

    rest = "2 of 5 commands succeeded; 1.2 s\n"
    assert line("", 0, []) == f"0 found, 0 denied, 0 absent; {rest}"
    counted = line("b", 1_550_000, [], found=1, reduced=2, listed=4, denied=3, absent=5, truncated=6)
    assert counted == f"b, 1.6 MB: 7 found, 3 denied, 5 absent, 6 truncated; {rest}"
    assert line("b", 0, [], timed_out=2) == f"b, 0.0 MB: 0 found, 0 denied, 0 absent, 2 timed-out; {rest}"


def test_a_closed_standard_output_is_one_line(root, tmp_path):
    words = [sys.executable, "-c", "import sys; from gdrkit.agent.collect import main; sys.exit(main())"]
    reader, writer = os.pipe()
    os.close(reader)
    child = subprocess.run(
        [*words, "--root", str(root.folder), "-o", "-", "-q"], stdout=writer, stderr=subprocess.PIPE,
        text=True, check=False,
    )  # fmt: skip
    os.close(writer)
    closed = "gdr collect: standard output was closed; the bundle is incomplete\n"
    assert (child.returncode, child.stderr) == (73, closed)


def test_the_archive_runs_by_its_own_name_and_says_how(tmp_path, capsys):
    path = tmp_path / "gdr-collect.pyz"
    written = f"wrote {path}; copy it to a node and run: sudo python3 gdr-collect.pyz\n"
    assert said(capsys, "--pyz", str(path)) == (0, "", written)
    assert path.read_bytes().startswith(pyz.SHEBANG)
    assert path.stat().st_mode & 0o777 == 0o755
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
    assert [entry.filename for entry in entries] == sorted(entry.filename for entry in entries)
    assert {(e.create_system, e.external_attr, e.compress_type) for e in entries} == {(3, 0o644 << 16, 0)}
    there = {f"gdrkit/agent/{path.relative_to(HERE.parent)}" for path in SOURCES}
    kept = {name for name in there if "/fleet/" not in name}
    assert {e.filename for e in entries} == kept | {"__main__.py", "gdrkit/__init__.py"}
