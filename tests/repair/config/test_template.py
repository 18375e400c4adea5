"""Templates: their marks, what is filled in, and that each belongs to a form."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from gdrkit.cli import main
from gdrkit.repair.config import KINDS, ConfigOutput, ConfigRequest, generate
from gdrkit.repair.config.output import OutputLine
from gdrkit.repair.config.template import Template, filled

NAMES = sorted(path.name for path in files("gdrkit.repair.config").joinpath("templates").iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_a_template_is_the_text_of_a_form_that_gdr_config_lists(name):
    kind, _, form = name.partition(".")
    forms = KINDS[kind].forms or ("yaml",)
    found = generate(kind, ConfigRequest(form=form if form in KINDS[kind].forms else ""))

    assert form in forms
    assert isinstance(found, ConfigOutput) and found.title and found.use


@pytest.mark.parametrize("name", NAMES)
def test_no_mark_and_no_place_is_left_in_what_is_written(name):
    found = filled(*name.split(".", 1), ConfigRequest())
    text = "\n".join(line.text for line in found.lines)

    assert not any(mark in text for mark in ("#: ", "## ", "#? ", "#+ ", "#| ", "GDR@", "@FOLDER"))
    assert any(line.why for line in found.lines)


def test_a_reason_belongs_to_the_line_below_it_and_to_no_other():
    lines = Template("systemd.export-timer", {}).lines

    assert OutputLine("OnBootSec=2min", "first when drivers had time to load") in lines
    assert OutputLine("[Timer]") in lines


def test_a_line_keeps_its_reason_wherever_gdr_is_installed(capsys):
    """A path that the shell must quote changed the line by whose beginning the reason was found."""
    why = {}
    for path in ("/usr/bin/gdr", "/opt/größe/gdr"):
        found = generate("npd", ConfigRequest(form="plugin", gdr=path))
        assert isinstance(found, ConfigOutput)
        why[path] = [line.why for line in found.lines]
        assert found.lines[0].why.startswith("passive")

    assert why["/usr/bin/gdr"] == why["/opt/größe/gdr"]


def test_another_template_is_included_at_the_indent_of_its_mark():
    rules, both = (Template(f"alerts.{form}", {}).lines for form in ("rules", "prometheusrule"))

    assert both[-len(rules) :] == [OutputLine(f"  {line.text}", line.why) for line in rules]


def test_a_file_within_yaml_has_no_reasons_and_keeps_its_first_line(capsys):
    assert main(["config", "daemonset", "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)["lines"]
    begin = next(n for n, line in enumerate(lines) if line["text"] == "  gdrkit.sh: |")
    end = next(n for n, line in enumerate(lines) if n > begin and line["text"] == "---")

    assert lines[begin + 1]["text"] == "    #!/bin/sh"
    assert not any(line["why"] for line in lines[begin:end])


def test_a_place_is_filled_in_but_not_read_as_a_mark():
    """Whoever calls this is not the command, whose option refuses such a path."""
    found = filled("npd", "plugin", ConfigRequest(gdr="/bin/gdr #? sure"))

    assert "'/bin/gdr #? sure'" in found.lines[0].text


@pytest.mark.parametrize("text", ["#? a reason\n", "#: titel: a title\n"])
def test_a_malformed_template_is_refused(text, tmp_path, monkeypatch):
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "any.form").write_text(text)
    monkeypatch.setattr("gdrkit.repair.config.template.files", lambda package: tmp_path)

    with pytest.raises(ValueError, match=r"reason without a line|not a key"):
        Template("any.form", {})
