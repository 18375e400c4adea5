"""What `gdr modprobe` prints in addition to the lines of modprobe and the kernel."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gdrkit.cli.exit import BLOCKED, OK, UNKNOWN
from gdrkit.cli.modprobe import _text, main
from gdrkit.loader import Prediction
from gdrkit.report.build import modprobe_section
from gdrkit.report.pages import code_page
from tests.evidence_nodes import build, laid_down

REFUSED = Prediction(
    module="x",
    tainted=0,
    exit_code=1,
    loaded=False,
    reason="module-crc-mismatch",
    assumes=("nvidia",),
    certain_lines=0,
)


def test_a_failure_after_an_unknown_init_names_the_assumption() -> None:
    assert "assuming that the init function of nvidia succeeds" in _text(REFUSED).splitlines()


def test_an_unknown_result_names_no_assumptions() -> None:
    text = _text(
        Prediction(module="x", tainted=0, exit_code=0, loaded=True, assumes=("x",), result_unknown=True)
    )
    assert "assuming" not in text and "result unknown" in text


def test_options_are_accepted_between_module_and_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(laid_down("ofed-rebuilt"))
    assert (
        main(["nvidia_peermem", "--json", target]) == main(["nvidia_peermem", target, "--json"]) == BLOCKED
    )
    assert capsys.readouterr().out.count('"exit_code": 1') == 2


def test_a_target_in_the_place_of_the_module_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """It would be looked for among the modules of this machine."""
    with pytest.raises(SystemExit) as ended:
        main(["bundles/node17.tar.gz"])
    assert ended.value.code == 64
    assert "got a path: bundles/node17.tar.gz" in capsys.readouterr().err


def test_without_collected_modules_the_result_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bug report has no module files."""
    assert main(["nvidia_peermem", str(build("geforce-desktop", tmp_path))]) == UNKNOWN
    printed = capsys.readouterr()
    assert printed.out == ""
    *_, error, hint = printed.err.splitlines()
    assert error.endswith("not collected")
    assert hint == "  to find out, run: ls /lib/modules/6.8.0-45-generic"


def test_without_collected_modules_a_kernel_without_the_api_still_refuses_every_build(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on a DGX Spark; gdr does not say which error it would be."""
    tree = build("spark-two-cables", tmp_path)
    shutil.rmtree(tree / "lib" / "modules")
    assert main(["nvidia-peermem", str(tree)]) == BLOCKED
    assert capsys.readouterr().out == "no build of nvidia_peermem can load here: rdma-lacks-peer-api\n"
    assert main(["nvidia-peermem", str(tree), "--json"]) == BLOCKED
    section = json.loads(capsys.readouterr().out)
    assert (section["loaded"], section["exit_code"]) == (False, None)
    assert main(["nvidia-uvm", str(tree)]) == UNKNOWN


@pytest.mark.parametrize("option", [[], ["-q"], ["--json"]])
def test_an_unknown_result_is_no_success(option: list[str], tmp_path: Path) -> None:
    """An install command decides whether the module loads, and it is not run."""
    target = str(build("dgx-os-5-nv-peer-mem", tmp_path))
    assert main(["nvidia_peermem", target, *option]) == UNKNOWN


def test_a_success_with_a_check_that_was_not_made_is_unknown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Prediction(module="x", tainted=0, exit_code=0, loaded=True, unless=("module-symbol-missing",))
    monkeypatch.setattr("gdrkit.loader.modprobe", lambda *_: found)
    assert main(["x", str(laid_down("no-gpu"))]) == UNKNOWN
    assert "unless module-symbol-missing (not checked: evidence missing)" in capsys.readouterr().out
    assert main(["x", str(laid_down("no-gpu")), "--json"]) == UNKNOWN
    assert json.loads(capsys.readouterr().out)["unless"] == ["module-symbol-missing"]


def test_what_is_refused_is_refused_whatever_else_was_not_checked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An "unless" after "would not load" would be read as a way out."""
    assert main(["nvidia-peermem", str(laid_down("nv-peer-mem-conflict"))]) == BLOCKED
    printed = capsys.readouterr().out
    assert "unless" not in printed
    assert "without effect on the exit code: module-symbol-missing (evidence missing)" in printed


def test_a_module_that_is_loaded_is_not_said_to_be_about_to_load(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["nvidia", str(laid_down("peermem-blacklisted"))]) == OK
    assert capsys.readouterr().out.startswith("nvidia is loaded already\n")
    main(["nvidia-peermem", str(laid_down("peermem-blacklisted"))])
    assert "nvidia_peermem would load\n" in capsys.readouterr().out


def test_a_module_that_is_built_in_is_not_said_to_stay_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["udmabuf", str(laid_down("peermem-blacklisted"))]) == OK
    assert capsys.readouterr().out.startswith("udmabuf is built into the kernel\n")


@pytest.mark.parametrize(
    ("loaded", "exit_code", "unless", "unknown", "shown"),
    [
        (True, 0, ("module-unknown-key",), False, (None, None)),
        (False, 0, (), True, (None, None)),
        (False, 1, ("install-override",), False, (None, None)),
        (False, 1, ("module-unknown-key",), False, (1, False)),  # refused, whichever check comes first
        (True, 0, (), False, (0, True)),
    ],
)
def test_an_open_answer_has_neither_an_exit_code_nor_a_loaded_module(
    loaded: bool,
    exit_code: int,
    unless: tuple[str, ...],
    unknown: bool,
    shown: tuple[int | None, bool | None],
) -> None:
    prediction = Prediction(
        module="x", tainted=0, exit_code=exit_code, loaded=loaded, unless=unless, result_unknown=unknown
    )
    section = modprobe_section(prediction)
    assert (section.exit_code, section.loaded) == shown
    assert prediction.undecided is (shown == (None, None))


def test_a_module_that_would_not_load_says_why_and_where_it_matters(capsys):
    target = str(laid_down("spark-two-cables"))
    main(["nvidia-peermem", target])
    shown = " ".join(capsys.readouterr().out.split())

    assert f"why: {code_page('peermem-stub')[0]}" in shown
    assert f"`gdr codes peermem-stub`; `gdr doctor {target}` says whether it matters here" in shown


def test_a_module_that_loads_needs_no_why(capsys):
    main(["nvidia-peermem", str(laid_down("peermem-blacklisted"))])

    assert "why:" not in capsys.readouterr().out
