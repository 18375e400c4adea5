"""Values that a shell gives variables, by sh itself."""

from __future__ import annotations

import subprocess

import pytest

from gdrkit.formats.errors import FormatError
from gdrkit.formats.shell_assignments import TEXT_CHARACTERS, assignments

TEXTS = (
    'A="quiet splash"\n',
    "A='quiet $A;' # comment\n",
    "A=quiet;B=x\nA=$A\\ more\n",
    'A="one"\nA="$A two"\nA="${A} three"\n',
    'A="pci=config_acs=\\"1@x;2@y\\""\n',
    'A="a \\; \\$b \\\\ c"\n',
    'A="first \\\n second"\n',
    "A=a\\\nb\n",
    "  export A='x'\"y\"z\n",
    "A=\n",
    "# A=no\nBA=no\nA=yes\n",
    'A="two\nlines"\nA="$A $UNSET."\n',
)


@pytest.mark.parametrize("text", TEXTS)
def test_the_value_is_the_one_that_sh_assigns(text):
    script = f'A=before\n{text}\nprintf "%s" "$A"'
    shown = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env={}).stdout
    assert assignments(text, ("A",), {"A": "before"})[-1].value == shown


def test_each_assignment_has_the_line_on_which_it_begins():
    text = '# x\nB=1\nA="a\nb"\nA=c\n'
    assert [(one.value, one.line) for one in assignments(text, ("A",), {})] == [("a\nb", 3), ("c", 5)]


@pytest.mark.parametrize("text", ["A=`date`\n", 'A="$(date)"\n', "A='open\n", "A=1\n" * TEXT_CHARACTERS])
def test_what_only_a_shell_could_say_is_an_error(text):
    with pytest.raises(FormatError):
        assignments(text, ("A",), {})


@pytest.mark.parametrize("text", ["A=x\n" + "A=$A$A\n" * 30, "A=1\n" * 1001], ids=["doubled", "many"])
def test_values_that_grow_without_end_are_an_error(text):
    with pytest.raises(FormatError, match="than any machine has"):
        assignments(text, ("A",), {})


def test_a_command_in_another_variable_is_of_no_concern():
    text = "B=`lsb_release -i -s 2> /dev/null || echo Debian`\nA=1\n"
    assert [one.value for one in assignments(text, ("A",), {})] == ["1"]
