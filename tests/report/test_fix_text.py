"""The plan of `gdr fix` in colours has the same words, and its commands stand out."""

import re

from gdrkit.diagnosis import node_of
from gdrkit.evidence.target import open_host
from gdrkit.report.fix import FixOptions, fix_report
from gdrkit.report.fix_text import fix_text
from tests.evidence_nodes import laid_down


def test_colours_change_no_word_and_commands_have_their_own():
    report = fix_report(node_of(open_host(str(laid_down("acs-redirect")))), FixOptions())
    plain, coloured = fix_text(report), fix_text(report, colour=True)

    assert "\x1b" not in plain and re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    commands = [line for line in coloured.splitlines() if re.search(r"do +\$ ", line)]
    others = [line for line in coloured.splitlines() if re.search(r"^\W*\d*m* +\| ", line)]
    assert commands and all(line.startswith("\x1b[") for line in commands)
    assert not any("\x1b" in line for line in others)
