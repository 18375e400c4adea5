"""What `gdr modprobe` says beside the lines of modprobe and of the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrkit.cli.exit import BLOCKED, UNKNOWN
from gdrkit.cli.modprobe import _told, main
from gdrkit.loader import Prediction
from tests.evidence_nodes import build

REFUSED = Prediction(
    module="x", exit_code=1, loaded=False, reason="module-crc-mismatch", assumes=("nvidia",), certain_lines=0
)


def test_a_failure_behind_an_init_that_nobody_knows_names_it() -> None:
    assert "provided that the init of nvidia succeeds" in _told(REFUSED).splitlines()


def test_where_the_result_is_open_anyway_nothing_more_is_said_of_inits() -> None:
    told = _told(Prediction(module="x", exit_code=0, loaded=True, assumes=("x",), result_unknown=True))
    assert "provided" not in told and "cannot tell" in told


def test_options_may_stand_between_module_and_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(build("ofed-rebuilt", tmp_path))
    assert (
        main(["nvidia_peermem", "--json", target]) == main(["nvidia_peermem", target, "--json"]) == BLOCKED
    )
    assert capsys.readouterr().out.count('"exit_code": 1') == 2


def test_where_no_module_was_collected_it_is_one_line_and_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bug report holds no module files."""
    assert main(["nvidia_peermem", str(build("geforce-desktop", tmp_path))]) == UNKNOWN
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines()[-1].endswith("not-collected; ls /lib/modules/6.8.0-45-generic")
