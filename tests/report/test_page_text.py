"""Pages of codes on a terminal: no Markdown is left, nothing is lost, and every line fits."""

import re

import pytest

from gdrkit.catalogue import CODES
from gdrkit.report.page_text import page_text
from gdrkit.report.pages import HEADINGS, page


def words(text):
    return re.findall(r"\w+", text)


@pytest.mark.parametrize("code", sorted(CODES))
def test_a_page_keeps_its_words_and_headings_and_fits(code):
    raw, shown = page(code), page_text(page(code), width=60)

    assert max(map(len, shown.splitlines())) <= 60
    assert [line for line in shown.splitlines() if line in HEADINGS] == list(HEADINGS)
    assert not re.search(r"^#|\*\*|\]\(|<http", shown, re.MULTILINE)
    assert "".join(words(shown)) == "".join(words(re.sub(r"^\s*```\w*$", "", raw, flags=re.MULTILINE)))


def test_code_has_a_colour_on_a_terminal_and_backticks_elsewhere():
    text = (
        "# x\n\nRun `gdr fix` now, see <https://docs.nvidia.com/c>.\n\n| a | b |\n|---|---|\n| 1 | `2` |\n"
    )

    plain, coloured = page_text(text, width=80), page_text(text, width=80, colour=True)

    assert "Run `gdr fix` now, see https://docs.nvidia.com/c." in plain and "\x1b" not in plain
    assert "`" not in coloured and "\x1b[36mgdr fix\x1b[0m" in coloured
    assert "|---" not in plain and re.search(r"^ *1 +`2`$", plain, re.MULTILINE)


def test_escape_sequences_in_a_page_stay_text():
    assert "\x1b" not in page_text("\x1b[2J `\x1b]0;x\x07`", width=80)
