"""What pages say was measured, counted or printed, was; and no other number in them is a measurement."""

from __future__ import annotations

import datetime
import re
import subprocess

import pytest
from tools.measured import BLOCK, PAGES, RESULTS, ROOT, page, result

from gdrkit.cli import first_words
from gdrkit.programs.nccl.releases import FROM_SOURCE, NEWEST, OLDEST, ROWS
from tests.system_programs import program

EXIST = [path for path in PAGES if path.exists() and path.name != "measurements.md"]
"""Without the page that tools/measurements.py writes as a whole."""
NAMES = sorted(path.stem for path in RESULTS.glob("*.json"))
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
UNITS = r"ns|us|ms|s|seconds|minutes|[KMGT]i?B|kB|[KMGT]i?B/s|Gb/s|[GT]FLOP/s|%"
MEASURE = re.compile(rf"\d[\d.,]*(?: (?:{UNITS})(?![\w/])|%)|\b\d[\d,]* (?:of|times) \d")
SOURCES: dict[str, dict[str, str]] = {
    "docs/architecture.md": {"Add a parser": "TIME_LIMIT_S and MEMORY_BYTES of tools/fuzz"},
    "docs/bundles.md": {"The manifest": "COMMANDS_LIMIT_S of agent/collect/collector.py"},
    "docs/commands.md": {
        "gdr probe": "SIZE_BYTES of agent/probe/memory_probe.py, as the help says",
        "gdr bench": "the limit of cli/bench.py, as the help says",
    },
    "docs/cost.md": {
        "How it is computed": "fabric/cost/, a source at each constant",
        "How far to trust it": "measured by others, as named; bounds and sums: tests/fabric/cost",
    },
    "docs/estimate.md": {
        "Limits": "fabric/ceilings/: memory.py and links.py have the sources",
        "DGX Spark": "the output above it",
    },
    "docs/explain.md": {
        "Long texts": "constants of cli/explain.py and LONGEST_BYTES of cli/long_text.py",
        "Why it reads no sentences": "the runs of the benchmark that the commit which took it away deleted",
    },
    "docs/fix.md": {"Signing modules for Secure Boot": "_XZ_DICTIONARY_BYTES of repair/apply/signing.py"},
    "docs/fleet.md": {
        "Nodes over ssh and Slurm": "JOB_LIMIT_MIN of fleet/slurm.py",
        "How fast pairs of nodes are": "ENOUGH of fleet/slow.py",
        "Ray": "WINDOW_BYTES and BUNDLE_LIMIT_BYTES of fleet/ray.py",
    },
    "docs/geforce.md": {"Patched or not": "measured by others, as named"},
    "docs/lab.md": {"What it needs": "the size of the cache", "How long things take": "lab/machine.py"},
    "docs/nccl-model.md": {"From file to graph": "src/graph/topo.cc of NCCL"},
    "docs/nccl.md": {"Supported logs": "WORTH_TWO_BYTES of jobs/workers.py"},
    "docs/performance.md": {"What was measured": "an assumption behind the limits"},
    "docs/probe.md": {"Asking the hardware": "SIZE_BYTES of agent/probe/memory_probe.py"},
    "docs/prove.md": {
        "How it works": "IDLE_SECONDS of transport/measure/prove.py",
        "What counts as evidence": "32 bits",
    },
    "docs/running-jobs.md": {
        "The answer for a process": "SOCKET_ and DATA_BYTES_PER_S of jobs/running/without_network.py",
        "What it costs": "INTERVAL_S of agent/probe/running_probe.py, WINDOW_S of agent/running/nvml.py",
    },
    "docs/machines.md": {"Machines of another hand": "the machine's limit"},
    "docs/testing.md": {
        "How a change is judged": "the limits of tools/mutate.py",
    },
    "docs/topo.md": {"What each source shows": "MAX_BYTES of formats/xml_text.py"},
    "docs/transport.md": {
        "Few hardware queues": "seen on H200s, without a time: tests/transport/driver_model.py",
        "When something goes wrong": "_KEEPALIVE of transport/reception.py",
        "Security": "HANDSHAKE_SECONDS of transport/reception.py",
        "What was run, and what was not": "benchmarks/staging.py, the block above it",
    },
}
"""For each heading whose text has numbers with units that are not measurements: where they come from."""


@pytest.mark.parametrize("path", EXIST, ids=lambda path: path.name)
def test_every_block_holds_what_its_program_prints(path):
    text = path.read_text()
    assert page(text) == text, "run python -m tools.measured"


@pytest.mark.parametrize("name", NAMES)
def test_every_result_names_a_command_that_exists_a_day_and_a_commit(name):
    row = result(name)
    day = datetime.date.fromisoformat(row.date)
    assert datetime.date(2026, 11, 1) <= day <= datetime.date.today()
    assert re.fullmatch(r"[0-9a-f]{7,12}", row.commit)
    assert row.machine and row.output.strip()
    program, *words = re.sub(r"^(?:\w+=\w+ )+", "", row.command).split()
    if row.command == "a comparison outside the repository":
        assert name == "lab-peermem"  # of NVIDIA's module, which is not ours to publish
    elif program == "gdr":
        assert words[0].rstrip(",") in first_words()
    else:
        assert (program, words[0]) == ("python", "-m")
        module, *rest = (word.rstrip(",") for word in words[1:])
        place = ROOT / module.replace(".", "/")
        assert module == "pytest" or place.is_dir() or place.with_suffix(".py").is_file()
        assert module != "pytest" or (ROOT / rest[-1]).is_file()


IN_TABLES = {"machines-first", "machines-mended"}
"""Results that a counted table puts side by side, with their commands."""


def test_every_result_is_in_a_page_and_every_block_is_well_formed():
    text = "".join(path.read_text() for path in EXIST)
    measured = {name for kind, name, _ in BLOCK.findall(text) if kind == "measured"}
    assert measured == set(NAMES) - IN_TABLES
    assert all(result(name).command in text for name in IN_TABLES & set(NAMES))
    assert text.count("<!-- end -->") == len(BLOCK.findall(text)) == text.count("<!--") // 2


@pytest.mark.parametrize("path", EXIST, ids=lambda path: path.name)
def test_no_measurement_is_typed_by_hand(path):
    allowed = SOURCES.get(str(path.relative_to(ROOT)), {})
    prose, heading, found = FENCED.sub("", BLOCK.sub("", path.read_text())), "", []
    seen = set()
    for line in prose.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif numbers := [match[0] for match in MEASURE.finditer(line)]:
            seen.add(heading)
            if heading not in allowed:
                found.append((heading, numbers, line))
    assert not found, "\n".join(map(str, found))
    assert seen >= set(allowed), "sources of headings without numbers"


@pytest.mark.parametrize("path", EXIST, ids=lambda path: path.name)
def test_no_output_of_a_command_is_typed_by_hand(path):
    """A fenced block outside of ours has commands alone."""
    for _, text in FENCED.findall(BLOCK.sub("", path.read_text())):
        lines = text.splitlines()
        if any(line.startswith("$ ") for line in lines):
            assert [line for line in lines if not re.match(r"\$ |#|$|\.\.\.$", line)] == []


def test_the_first_page_has_the_numbers_of_the_lab():
    """Its table is computed; counting it again for one sentence would take half a minute."""
    (row,) = re.findall(r"^\| all \|(.*)\|$", (ROOT / "docs/lab.md").read_text(), re.MULTILINE)
    _, cases, _, still_open, unanswered, wrong, _ = map(int, row.split("|"))
    said = f"Of the {cases:,} cases that we wrote, none is predicted wrong and {still_open:,} are left open"
    assert said in " ".join((ROOT / "README.md").read_text().split())
    assert unanswered == wrong == 0


def test_the_page_of_nccls_model_has_the_releases_that_were_read():
    page_of_model = (ROOT / "docs/nccl-model.md").read_text()
    assert f"from {OLDEST} to {NEWEST} and any environment" in page_of_model
    assert f"older than {OLDEST} or newer than {NEWEST}: assumed" in page_of_model
    releases = [row.since for row in ROWS]
    read = releases[releases.index(FROM_SOURCE[-1]) + 1 :]
    assert f"The sources of {' and '.join(read)} were read" in page_of_model
    assert f"built at each\ntag from {OLDEST} to {FROM_SOURCE[-1]}" in page_of_model


def test_commits_of_results_are_in_the_history():
    """A commit of a branch that was rebased away exists here, but in no clone."""
    git = program("git")
    known = subprocess.run(
        [git, "rev-parse", "--is-shallow-repository"], cwd=ROOT, capture_output=True, text=True
    )
    if known.stdout.strip() != "false":
        pytest.skip("needs the history: git fetch --unshallow")
    listed = subprocess.run(
        [git, "rev-list", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    missing = [name for name in NAMES if f"\n{result(name).commit}" not in f"\n{listed}"]
    assert missing == []
