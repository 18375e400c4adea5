"""`gdr schema`: what commands write keeps to it."""

from __future__ import annotations

import json

import jsonschema
import pytest

from gdrkit.cli import main
from tests.evidence_nodes import build


@pytest.mark.parametrize(
    ("what", "command"),
    [
        ("fix", ("fix",)),
        ("fix", ("fix", "--module")),
        ("modprobe", ("modprobe", "nvidia_peermem")),
        ("modprobe", ("modprobe", "mlx5_ib")),
    ],
)
@pytest.mark.parametrize("name", ["acs-redirect", "zgx-3285", "h200-vm"])
def test_what_is_written_keeps_to_its_schema(tmp_path, capsys, what, command, name):
    main([*command, str(build(name, tmp_path)), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert main(["schema", what]) == 0
    schema = json.loads(capsys.readouterr().out)

    jsonschema.validate(told, schema)
    assert schema["title"] == f"gdrkit.{what}/1"
    told["module" if what == "modprobe" else "schema"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(told, schema)
