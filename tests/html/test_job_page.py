"""The report on a log of NCCL: each rank's devices, and the cause that a node of the job shows."""

from __future__ import annotations

import gzip
import re
import tarfile
from importlib.resources import files

import pytest
from backports import zstd

from gdrkit.cli import main
from gdrkit.cli.report import _is_job_log
from tests.evidence_nodes import laid_down
from tests.html.test_node_page import HOSTILE, Reader
from tests.jobs.large_job import large_job
from tests.jobs.samples import SAMPLES, info, warn

BY_NAME = {sample.name: sample for sample in SAMPLES}
BOUNCED = next(name for name in BY_NAME if name.startswith("2.4.7: GPU and index"))
DIRECT = next(sample.name for sample in SAMPLES if sample.legs[0] and not sample.legs[1] + sample.legs[2])


def written(text, tmp_path, *node):
    log, page = tmp_path / "job.log", tmp_path / "job.html"
    log.write_text(text)
    code = main(["report", str(log), *node, "-o", str(page), "--force"])
    return code, page.read_text()


def test_a_bounced_leg_leads_to_its_reason_with_the_line_and_every_possible_cause(tmp_path):
    code, text = written(BY_NAME[BOUNCED].text, tmp_path)
    assert code == 2 and "<h1>2 of 2 legs over the network are not direct.</h1>" in text
    page = Reader(text)
    links = [attributes["href"] for tag, attributes in page.elements if attributes.get("class") == "leg"]
    assert links == ["#why-1"] and any(a.get("id") == "why-1" for _, a in page.elements)
    for words in ("host memory", "mlx5_0", "job.log:7", *BY_NAME[BOUNCED].causes):
        assert words in page.text


def test_the_cause_that_a_node_of_the_job_shows_is_named_and_others_are_not(tmp_path):
    node = laid_down("a100-nccl-2.20")
    _, text = written(BY_NAME[BOUNCED].text, tmp_path, str(node))
    shown = {
        code: "The node shows it" in words
        for code, words in re.findall(r"<li><code>([\w-]+)</code>(.*?)</li>", text)
    }
    assert shown["nccl-misses-peermem"] and not shown["peermem-not-loaded"]


def test_the_findings_stand_on_the_page_with_the_step_of_this_job(tmp_path):
    """The log of `gdr example`: the level that one host lacks."""
    _, text = written((files("gdrkit.cli.examples") / "job.log").read_text(), tmp_path)
    page = Reader(text).text

    assert "<h2>Next</h2>" in text
    assert page.count("NCCL_NET_GDR_LEVEL=SYS on all ranks: gpu-2 lacks it") == 3  # of both, and at the head
    assert "a NIC at the GPU" not in page, "the level of the other host shows that it is the cause"
    assert page.index("env-differs-between-ranks") < page.index("pair-cross-socket")
    assert "Scroll the table sideways" not in page  # two devices fit


def test_errors_have_a_part_of_their_own_where_there_are_some(tmp_path):
    error = "NET/IB : Got completion from peer 10.0.0.2<3> with status=12 opcode=0 len=0 vendor err 129"
    log = BY_NAME[BOUNCED].text
    for text, shown in ((log, False), (log + warn("gpu05:7", 0, "net_ib.cc:1", error), True)):
        page = Reader(written(text, tmp_path)[1])
        assert ("What failed in the job." in page.text) is shown


def test_the_command_that_adds_a_node_names_the_log_that_was_read(tmp_path):
    log, page = tmp_path / "bad 16.log", tmp_path / "job.html"
    log.write_text(BY_NAME[BOUNCED].text)
    main(["report", str(log), "-o", str(page)])

    assert 'data-copy="gdr report &#x27;bad 16.log&#x27; node.tar.gz"' in page.read_text()


def test_a_job_whose_legs_are_direct_has_no_reason_to_show(tmp_path):
    code, text = written(large_job(hosts=2), tmp_path)
    assert code in (0, 1) and "Every leg over the network is direct." in text
    assert "Why not direct" not in text
    code, text = written(BY_NAME[DIRECT].text, tmp_path)
    assert code == 3 and "Every leg" not in text and "not in the log." in text, "near miss: one end"


def test_the_page_names_ranks_that_are_missing_and_says_where_no_network_is_needed(tmp_path):
    job = large_job(hosts=2)
    cut = "".join(line for line in job.splitlines(keepends=True) if not line.startswith("gpu02:4111:"))
    inside = "".join(line for line in large_job(hosts=1).splitlines(keepends=True) if "via NET" not in line)

    assert "<p>Rank 11 is not in the log.</p>" in written(cut, tmp_path)[1]
    assert "not in the log" not in written(job, tmp_path)[1]
    assert "<h1>No network is needed: all ranks are on one host.</h1>" in written(inside, tmp_path)[1]


def test_legs_that_were_meant_to_be_direct_are_not_called_so(tmp_path):
    refused = "NET/OFI Unable to register memory (type = {}) for device 3. RC: -22, Error: Invalid argument"
    job = large_job(hosts=2).replace("NET/IB/", "NET/AWS Libfabric/")
    gpu, host = (warn("gpu01:4100", 0, "register_mr_buffers:647", refused.format(kind)) for kind in (2, 1))

    code, page = written(job + gpu, tmp_path)
    assert code == 2 and "<h1>64 legs meant to be direct, but memory was not registered.</h1>" in page
    code, page = written(job + host, tmp_path)
    assert code == 1 and "Every leg over the network is direct." in page, (
        "of the host: a limit of locked memory"
    )


def test_a_large_job_is_shown_by_host_with_the_sentence_of_the_terminal(tmp_path):
    """128 ranks in two rows: the two hosts that are slower, and the fourteen others."""
    _, text = written(large_job(staged=("gpu05", "gpu11")), tmp_path)
    page = Reader(text)
    rows = re.findall(r'<th scope="row">(.*?)</th>', text)

    assert "<h1>2 of 16 hosts go through host memory: gpu05, gpu11 (all 8 NICs, 16 ranks).</h1>" in text
    assert rows == ["gpu05, gpu11 <small>16 ranks</small>", "gpu01 and 13 more <small>112 ranks</small>"]
    legs = (attributes for _, attributes in page.elements if attributes.get("class") == "leg")
    links = [attributes["href"] for attributes in legs if "href" in attributes]
    assert links == ["#why-1"] * 8 and text.count('class="entry"') == 1
    assert "gdr doctor ssh://gpu05 ssh://gpu01" in page.text
    assert "Scroll the table sideways: it has 8 devices." in page.text


@pytest.mark.parametrize(
    ("content", "is_log"),
    [
        (b"starting\nn1:1:2 [0] NCCL INFO Bootstrap\n", True),
        (b"starting\n", False),
        (b"\0starting\nn1:1:2 [0] NCCL INFO Bootstrap\n", False),
        (b"\0", False),
        (b"", False),
    ],
)
def test_a_text_with_a_line_of_nccl_is_a_log(content, is_log, tmp_path):
    (tmp_path / "file").write_bytes(content)
    assert _is_job_log(str(tmp_path / "file")) is is_log


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_a_packed_log_is_read_and_a_packed_bundle_is_no_log(pack, tmp_path):
    log, page = tmp_path / "job.log.packed", tmp_path / "job.html"
    log.write_bytes(pack(BY_NAME[BOUNCED].text.encode()))
    assert main(["report", str(log), "-o", str(page)]) == 2
    assert "<h1>2 of 2 legs over the network are not direct.</h1>" in page.read_text()
    node = tmp_path / "node.tar"
    with tarfile.open(node, "w") as archive:
        archive.add(tmp_path / "job.html", "gdr-n1/job.log")
    (tmp_path / "node.tar.packed").write_bytes(pack(node.read_bytes()))
    assert not _is_job_log(str(tmp_path / "node.tar.packed"))


def test_words_of_a_hostile_log_stay_text(tmp_path):
    lines = BY_NAME[BOUNCED].text + info("n1:1", 0, f"Channel 00 : 0[0] -> 1[0] [send] via NET/{HOSTILE}/0")
    _, text = written(lines.replace("mlx5_0", HOSTILE), tmp_path)
    page = Reader(text)
    assert sum(tag == "script" for tag, _ in page.elements) == 2
    assert not any(tag == "img" for tag, _ in page.elements)
    assert "\x1b" not in text and "\u202e" not in text
