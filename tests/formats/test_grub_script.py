"""Where GRUB ends a command, by grub-emu itself."""

from __future__ import annotations

import pytest

from gdrkit.formats.grub_script import command_end
from tests.grub import kernel_arguments, needs_grub

CUT = (
    ("a=1;2 last", 3),
    ("; last", 0),
    ("a 'b;c' d;e", 9),
    ('a "b;c" d;e', 9),
    (r"a\\;b", 3),
    (r"""a '\';b""", 5),
    ("a #b", 2),
    ('"a\\"b";c', 6),
    ('a "b\\c" ;', 8),
)
WHOLE = (
    "", "a=1 last", r"a=1\;2 last", "'a=1;2' last", 'a="1;2" last', "a#b last", "'#b' last", r"\#b",
    r'''"a\";b" last''', "a'b'\"c;\"d", r"a\'b",
)  # fmt: skip


@pytest.mark.parametrize(("text", "end"), CUT)
def test_a_bare_semicolon_or_a_comment_ends_the_command(text, end):
    assert command_end(text) == end


@pytest.mark.parametrize("text", WHOLE)
def test_what_is_quoted_or_inside_a_word_does_not(text):
    assert command_end(text) == -1


@needs_grub
@pytest.mark.parametrize("text", [text for text, _ in CUT] + list(WHOLE))
def test_grub_itself_ends_the_command_there(text, tmp_path):
    arguments = kernel_arguments(f"menuentry x {{\nlinux /vmlinuz {text} end\n}}\n", tmp_path)
    assert ("end" in arguments) is (command_end(text) < 0)
