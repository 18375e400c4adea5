"""Why a rack's traffic goes through its NICs is the same line in doctor, explain and nccl."""

from __future__ import annotations

import pytest

from gdrkit.diagnosis import report_on
from gdrkit.explain.text import text as explained
from gdrkit.jobs.document import document
from gdrkit.jobs.text import text as nccl_text
from gdrkit.programs.environment import Environment, environment, parse_conf
from gdrkit.programs.mnnvl.facts import imex_channels
from gdrkit.report.rack_traffic import rack_line
from gdrkit.report.text import text
from tests.explain.explaining import explained as explanation_of
from tests.jobs.samples import info, warn
from tests.jobs.test_samples import analysed
from tests.repair.remedies.test_pairs import in_a_rack, plain

CONF = "etc/nccl.conf"
FABRIC = "MNNVL busId 0x801000 fabric UUID a4.7d cliqueId 0x7ffe state 3 healthMask 0xaa"
ALONE = "MNNVL busId 0x801000 fabric UUID 0.0 cliqueId 0x0 state 3 healthMask 0x0"
CUMEM = "NCCL_CUMEM_ENABLE set by environment to 0."
OFF = "NCCL_MNNVL_ENABLE set by environment to 0."
IMEX = (
    "MNNVL (cliqueSize 8) is available but not working on this system. Check the IMEX configuration "
    "(nvidia-imex-ctl -N). Set NCCL_MNNVL_ENABLE=0 to ignore this issue."
)
CHANNEL = (
    "MNNVL (cliqueSize 8) is available but not working on this system. Check the IMEX channel "
    "configuration (/dev/nvidia-caps-imex-channels). Set NCCL_MNNVL_ENABLE=0 to ignore this issue."
)


def one_line(shown: str) -> str:
    return " ".join(shown.split())


def log(*words: str, warning: str = "") -> str:
    lines = info("n1:7", 0, "NCCL version 2.27.5+cuda12.9", *words)
    return lines + (warn("n1:7", 0, "mnnvl.cc:67", warning) if warning else "")


@pytest.mark.parametrize(
    ("text_of_job", "causes"),
    [
        (log(FABRIC, CUMEM), ["mnnvl-cumem-off"]),
        (log(FABRIC, OFF), ["mnnvl-disabled-by-env"]),
        (log(FABRIC.replace("state 3", "state 2")), ["mnnvl-fabric-incomplete"]),
        (log(FABRIC, warning=CHANNEL), ["mnnvl-imex-channel-missing"]),
        (log(FABRIC, warning=IMEX),
         ["mnnvl-imex-not-ready", "mnnvl-imex-channel-missing", "mnnvl-clique-differs"]),
    ],
)  # fmt: skip
def test_a_log_of_a_rack_has_the_line_of_its_causes(text_of_job, causes):
    line = rack_line(causes)
    assert line in one_line(nccl_text(document(analysed(text_of_job))))
    if "mnnvl-fabric-incomplete" not in causes:  # explain knows no node by a line of a log alone
        assert line in one_line(explained(explanation_of(text_of_job)))


@pytest.mark.parametrize("text_of_job", [log(ALONE, CUMEM), log(CUMEM), log(FABRIC), log(ALONE, OFF)])
def test_a_host_alone_and_a_rack_without_a_fault_have_none(text_of_job):
    assert "of the rack" not in nccl_text(document(analysed(text_of_job)))
    assert "of the rack" not in explained(explanation_of(text_of_job))


def test_the_report_on_a_node_has_it():
    conf = Environment(CONF, "node", parse_conf("NCCL_CUMEM_ENABLE=0\n", CONF))
    here = imex_channels.becomes((0,))
    without = in_a_rack(imex_channels.becomes(()))
    off = in_a_rack(here, environment.becomes(conf, CONF))
    for node, code in ((without, "mnnvl-imex-channel-missing"), (off, "mnnvl-cumem-off")):
        assert rack_line([code]) in one_line(text(report_on(node)))
    for node in (in_a_rack(here), plain("ubuntu-6.8-h100")):
        assert "of the rack" not in text(report_on(node))


def test_a_line_whose_cause_may_be_another_one_says_nothing_of_racks():
    assert rack_line([]) == ""
    assert rack_line(["mnnvl-imex-not-ready", "port-down"]) == ""
