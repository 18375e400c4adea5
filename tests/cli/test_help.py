"""Help is as wide as the terminal, and manual pages say the same: mandoc and groff accept them."""

import re
import subprocess

import pytest

from gdrkit.cli import COMMANDS, FAMILIES, GROUPS, main
from gdrkit.cli.described import described
from gdrkit.cli.help_text import wrapped
from tests.system_programs import program

NARROW = 60


def shown(capsys, *words):
    assert main([*words]) == 0
    printed = capsys.readouterr()
    assert not printed.err
    return printed.out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_command_is_the_help_of_the_command(command, capsys):
    assert shown(capsys, "help", *command.split()) == shown(capsys, *command.split(), "--help")


@pytest.mark.parametrize(
    "words", [["--help"], *([*name.split(), "--help"] for name in (*COMMANDS, *FAMILIES))], ids=" ".join
)
def test_only_an_example_is_wider_than_the_terminal(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(NARROW))
    long = [line for line in shown(capsys, *words).splitlines() if len(line) > NARROW]
    assert all(re.match(r"  (sudo )?gdr |  .* \| gdr ", line) and "   " not in line for line in long), long
    monkeypatch.setenv("COLUMNS", "160")
    assert len(shown(capsys, *words).splitlines()) < len(shown_at(capsys, monkeypatch, words))


def shown_at(capsys, monkeypatch, words):
    monkeypatch.setenv("COLUMNS", str(NARROW))
    return shown(capsys, *words).splitlines()


def test_a_long_example_keeps_its_command_in_one_line_and_wraps_its_comment():
    line = "  gdr doctor --expect node.toml    also compare it with a file of gdr expect"
    assert wrapped(line, 80) == line
    assert wrapped(line, 40).splitlines() == [
        "  gdr doctor --expect node.toml",
        "      also compare it with a file of gdr",
        "      expect",
    ]
    assert wrapped("exit codes: 0 well, 3 unknown", 16) == "exit codes: 0\nwell, 3 unknown"


NAMED = {f"gdr-{name.replace(' ', '-')}": name for name in COMMANDS}
PAGES = ("gdr", *NAMED)


@pytest.fixture(scope="module")
def manual(tmp_path_factory):
    folder = tmp_path_factory.mktemp("manual") / "man1"
    assert main(["man", "-o", str(folder)]) == 0
    return folder


def test_every_command_has_a_page_and_so_has_gdr(manual):
    assert sorted(path.name for path in manual.iterdir()) == sorted(f"{name}.1" for name in PAGES)
    overview = (manual / "gdr.1").read_text()
    assert all(f".SS {group}" in overview for group in GROUPS)
    assert all(f".BR {name.replace('-', chr(92) + '-')} (1)" in overview for name in NAMED)


NO_DATE = "missing date"
"""A page is made when it is asked for: the date of the text is that of the version, in the footer."""


@pytest.mark.parametrize("name", PAGES)
def test_mandoc_has_no_warning(name, manual):
    run = subprocess.run(
        [program("mandoc"), "-T", "lint", "-W", "warning", manual / f"{name}.1"],
        capture_output=True,
        text=True,
    )
    found = [line for line in run.stdout.splitlines() if ": STYLE:" not in line and NO_DATE not in line]
    assert found == []


@pytest.mark.parametrize("name", PAGES)
def test_groff_shows_all_that_the_help_says_without_a_warning(name, manual):
    words = [
        program("groff"),
        "-man",
        "-ww",
        "-Tutf8",
        "-P-cbou",
        "-rLL=120n",
        manual / f"{name}.1",
    ]
    run = subprocess.run(words, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    if name == "gdr":
        return
    command = described(NAMED[name])
    text = " ".join(run.stdout.split())
    assert " ".join(command.text.split()) in text
    for one in (*command.options, *command.arguments):
        assert all(part in text for part in one.names) and " ".join(one.help.split()) in text, one
    for line, comment in command.examples:
        assert " ".join(line.split()) in text and comment in text


def test_the_scan_of_a_page_finds_what_groff_would_take_as_its_own(tmp_path):
    """A dash that is a hyphen, and a quotation mark at the start of a line, come out as other characters."""
    from gdrkit.cli.man import _text

    line = ".x --a 'b' `c` \\d ^~"
    page = tmp_path / "page.1"
    page.write_text(f'.TH X 1 "2026-11-27" "" ""\n.SH NAME\nx \\- y\n.SH TEXT\n{_text(line)}\n')
    run = subprocess.run(
        [program("groff"), "-man", "-Tutf8", "-P-cbou", page],
        capture_output=True,
        text=True,
    )
    assert line in run.stdout


def test_existing_pages_are_replaced_only_with_force(manual, tmp_path, capsys):
    (tmp_path / "gdr.1").write_text("mine")
    assert main(["man", "-o", str(tmp_path)]) == 64 and "exists" in capsys.readouterr().err
    assert (tmp_path / "gdr.1").read_text() == "mine"
    assert main(["man", "-o", str(tmp_path), "--force"]) == 0
    assert (tmp_path / "gdr.1").read_text() == (manual / "gdr.1").read_text()


def test_a_folder_that_cannot_be_made(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["man", "-o", str(tmp_path / "file" / "man1")]) == 73
    assert "internal error" not in capsys.readouterr().err


def test_a_command_and_a_folder_exclude_each_other(tmp_path, capsys):
    assert main(["man", "doctor", "-o", str(tmp_path)]) == 64
    assert "--output" in capsys.readouterr().err and not list(tmp_path.iterdir())
