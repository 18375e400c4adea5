"""modprobe's command line, held against modprobe itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrkit.facts.modprobe_arguments import ModprobeOptions, joined, read
from tests.loader.modprobe_witness import Machine, needs_modprobe
from tests.module_builder import build_module

WRONG = (
    ("--forc", "x"), ("--foo",), ("--foo=1",), ("-z", "x"), ("-C",), ("-nz",), ("--re", "x"), ("--ver",),
    ("--vers=1",), ("-w", "z", "x"), ("x", "--config"), ("-rw",), ("-w", "", "x"),
)  # fmt: skip


@needs_modprobe
@pytest.mark.parametrize("given", WRONG)
def test_a_wrong_command_line_has_modprobes_words(tmp_path: Path, given: tuple[str, ...]) -> None:
    said = Machine(tmp_path, {"extra/x.ko": build_module("x")}).modprobe(*given)
    assert (said.returncode, said.stderr) == (1, f"modprobe: {read(given)[0].wrong}\n")


@needs_modprobe
@pytest.mark.parametrize(
    ("given", "words", "fields"),
    [
        (("--dry", "x"), ("x",), {"dry_run": True}),
        (("x", "-n", "a=1", "--first"), ("x", "a=1"), {"dry_run": True, "first_time": True}),
        (("--ignore", "x"), ("x",), {"ignore_install": True}),
        (("-ib", "x"), ("x",), {"ignore_install": True, "use_blacklist": True}),
        (("-qs", "x"), ("x",), {"quiet": True, "to_syslog": True}),
        (("-C/dev/null", "x"), ("x",), {"elsewhere": True}),
        (("--conf=/dev/null", "x"), ("x",), {"elsewhere": True}),
        (("-w", "0x10", "x"), ("x",), {}),
        (("-fa", "x", "--", "x"), ("x", "x"), {"forces": True, "all_names": True}),
        (("-vvv", "x"), ("x",), {}),
        (("-V", "--nonsense"), (), {"answers": True}),
    ],
)
def test_options_are_read_as_modprobe_reads_them(
    tmp_path: Path, given: tuple[str, ...], words: tuple[str, ...], fields: dict[str, bool]
) -> None:
    assert read(given) == (ModprobeOptions(**fields), words)
    assert Machine(tmp_path, {"extra/x.ko": build_module("x")}).modprobe(*given).returncode == 0


def test_words_after_two_dashes_and_a_dash_alone_are_names() -> None:
    assert read(("--", "-r", "--all"))[1] == ("-r", "--all")
    assert read(("-", ""))[1] == ("-", "")


def test_a_value_with_a_space_gets_quotes() -> None:
    assert joined(("a=1 2", "b='c d'", "e", "f=")) == "a=\"1 2\" b='c d' e f="
