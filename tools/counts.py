"""What the repository holds, counted: for blocks `<!-- counted: NAME -->` of pages (tools/measured.py)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parent.parent
NCCL, RESULTS = ROOT / "tests" / "fabric" / "nccl", ROOT / "benchmarks" / "results"


def counted(name: str) -> str:
    """The text of a block. Raises KeyError if there is no such count."""
    return COUNTS[name]()


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table in Markdown."""
    cells = [list(head), *([str(cell) for cell in row] for row in rows)]
    cells.insert(1, ["---"] * len(cells[0]))
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def lab() -> str:
    """Every recorded case of the lab by the word kept for it, which tests/lab/test_golden.py compares with
    the prediction. What a module's own init returns is in no bundle, so that these open cases have a column
    of their own."""
    from lab.compare import INITS, Result
    from lab.kernels import FLAVOURS

    from lab import golden, words

    inits = {f"{Result.OPEN}: {reason}" for reason in INITS}
    rows: list[tuple[str, list[int]]] = []
    for flavour in FLAVOURS:
        if not (sessions := golden.recorded(flavour.name)):
            continue
        found: list[str] = []
        for name in sessions:
            cases = (case.name for case in golden.read(flavour.name, name).cases)
            found += words.expected(flavour.name, name, cases).values()
        totals = Counter(re.split("[:,]", word)[0] for word in found)
        results = [totals[result] for result in Result]
        own = totals[Result.OPEN] - sum(word in inits for word in found)
        rows.append((f"`{flavour.name}`", [len(sessions), len(found), *results, own]))
    sums = [sum(column) for column in zip(*(numbers for _, numbers in rows), strict=True)]
    return table(
        ("kernel", "profiles", "cases", *Result, "open, and not for an init"),
        ((name, *numbers) for name, numbers in [*rows, ("all", sums)]),
    )


def lab_open() -> str:
    """What leaves the open cases of the lab open, by the kernel's trace: tests/lab/golden/*/words.json."""
    from lab.compare import Result
    from lab.kernels import FLAVOURS

    from lab import golden, words

    rows: dict[str, dict[str, int]] = {}
    recorded = [flavour.name for flavour in FLAVOURS if golden.recorded(flavour.name)]
    for name in recorded:
        for profile in words.read(name).values():
            for word, cases in profile.items():
                if word.startswith(Result.OPEN):
                    row = rows.setdefault(word.removeprefix(f"{Result.OPEN}: "), dict.fromkeys(recorded, 0))
                    row[name] += len(cases)
    return table(
        ("open, because the bundle does not show", *(f"`{name}`" for name in recorded)),
        ((reason, *row.values()) for reason, row in sorted(rows.items())),
    )


def fix_scenarios() -> str:
    """What the lab does to `gdr fix` besides letting it finish."""
    from lab.fix_scenarios import MADE_KEY, PLAIN, SECURE

    every = (*PLAIN, *SECURE, *MADE_KEY)
    killed = [row for row in every if row.apply_code == -9 or row.kill_undo]
    stopped = [row for row in every if row.apply_code == 1]
    failed = [row for row in every if row.apply_code == 2]
    rows = [
        ("without enforced signatures", len(PLAIN), ""),
        ("with Secure Boot", len(SECURE), ""),
        ("a key that gdr makes and the firmware enrols, with a reboot in between", len(MADE_KEY), ""),
        ("of all these, gdr is killed", len(killed), _names(killed)),
        ("gdr stops for a reboot", len(stopped), _names(stopped)),
        ("a step fails or is refused", len(failed), _names(failed)),
    ]
    return table(("scenarios", "number", "which"), rows)


def _names(rows: Iterable[object]) -> str:
    return ", ".join(f"`{row.name}`" for row in rows)


def nccl_gpus() -> str:
    """The comparison with NCCL on GPUs: lab/nccl/on_gpus.py recorded its answers."""
    from lab.nccl.judge import judge
    from lab.nccl.record import jobs_in

    version, jobs = jobs_in((NCCL / "nccl_on_h200.json.xz").read_bytes())
    verdicts = [judge(job, version) for job in jobs]
    drawn = sum(job.name.isdigit() for job in jobs)
    differ = sum(len(verdict.disagreements) for verdict in verdicts)
    rows = (
        ("entries of path tables: type, GB/s, hops", f"{sum(row.paths for row in verdicts):,}"),
        (
            "lines about pairs and network channels, each direction",
            f"{sum(row.decisions for row in verdicts):,}",
        ),
        ("of both, different", differ),
    )
    head = (
        f"NCCL {version}, {drawn} random topologies and {len(jobs) - drawn} runs of the machine",
        "number",
    )
    return table(head, rows)


def nccl_source() -> str:
    """The kept answers of NCCL's own graph code, which tests/fabric/nccl/test_judge.py compares."""
    answers = json.loads((NCCL / "nccl_from_source.json").read_text())
    each = sorted({len(row) for row in answers.values()})
    return table(
        ("kept of NCCL's graph code", "number"),
        (
            ("releases", len(answers)),
            ("topologies for each", " to ".join(map(str, dict.fromkeys((each[0], each[-1]))))),
            ("answers, of which the tests compare all", f"{sum(map(len, answers.values())):,}"),
        ),
    )


def ceilings() -> str:
    """How far `gdr estimate` is from published measurements (docs/measurements.md)."""
    import statistics

    from tests.fabric.ceilings.published import PUBLISHED

    errors = [row.prediction_error for row in PUBLISHED]
    limited = [row.prediction_error for row in PUBLISHED if not row.limited_by]
    below = sum(row.gb_per_s < row.ceiling.low_gb_per_s for row in PUBLISHED)
    return table(
        ("published measurements", "number"),
        (
            ("rows, none of which exceeds its upper bound by more than its own error", len(PUBLISHED)),
            ("rows below their lower bound", below),
            (
                "distance of the middle of the interval, median of all rows",
                f"{statistics.median(errors):.1%}",
            ),
            ("at most", f"{max(errors):.1%}"),
            ("rows that only a link or port limits", len(limited)),
            (
                "of these, distance of the middle of the interval, median",
                f"{statistics.median(limited):.1%}",
            ),
            ("at most", f"{max(limited):.1%}"),
        ),
    )


def machines() -> str:
    """What gdrkit said of machines of unseen seeds at first sight, and what it says of them now."""
    paths = [RESULTS / f"machines-{name}.json" for name in ("first", "mended")]
    results = [json.loads(path.read_text()) if path.exists() else {"output": "-"} for path in paths]
    shares = [_shares(result["output"]) for result in results]
    names = dict.fromkeys(name for share in shares for name in share)
    rows = [(name, *(share.get(name, "-") for share in shares)) for name in names]
    made = [f"commit `{one['commit']}`, {one['date']}" if "commit" in one else "-" for one in results]
    shown = table(("", "first sight", "fixed"), [("printed by", *made), *rows])
    return f"`{results[0]['command']}`:\n\n{shown}"


def _shares(output: str) -> dict[str, str]:
    """The lines of `python -m machines --summary`: a name, and behind two spaces or more its number."""
    head, *lines = output.rstrip("\n").splitlines()
    rows = (re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in lines)
    return {"machines": head, **{row[0]: row[1] for row in rows}}


BYTES, SECONDS, NUMBER = "bytes", "s", ""
LIMITS = (
    ("file that is unpacked to", "evidence.stream", "TOTAL_LIMIT_BYTES", BYTES),
    ("unpacked to packed, for larger files", "evidence.stream", "RATIO_LIMIT", NUMBER),
    ("members of an archive", "evidence.archive", "MEMBERS_LIMIT", NUMBER),
    ("extended header of one member", "evidence.archive", "EXTENSION_LIMIT_BYTES", BYTES),
    ("extended headers of an archive", "evidence.archive", "EXTENSIONS_LIMIT_BYTES", BYTES),
    ("records of one extended header", "evidence.archive", "RECORDS_LIMIT", NUMBER),
    ("records of all of them that are read", "evidence.archive", "ARCHIVE_RECORDS_LIMIT", NUMBER),
    ("compressed streams of a file", "evidence.stream", "STREAMS_LIMIT", NUMBER),
    ("PCI functions of an `rdma_topo` dump", "evidence.rdma_topo", "FUNCTIONS_LIMIT", NUMBER),
    ("file of an archive that is kept", "evidence.tarball", "FILE_LIMIT_BYTES", BYTES),
    ("files of an archive in memory", "evidence.memory_store", "MEMORY_LIMIT_BYTES", BYTES),
    ("files of an archive on disk", "evidence.memory_store", "SPILL_LIMIT_BYTES", BYTES),
    ("file of this machine", "evidence.live", "READ_LIMIT_BYTES", BYTES),
    ("output of a command", "evidence.live", "COMMAND_LIMIT_BYTES", BYTES),
    ("time of a command", "evidence.live", "COMMAND_TIMEOUT_S", SECONDS),
    ("time of all probes together", "evidence.live", "PROBE_TIMEOUT_S", SECONDS),
    ("time of all commands of `collect`", "agent.collect.collector", "COMMANDS_LIMIT_S", SECONDS),
    ("time of a read of `collect`", "agent.collect.timeouts", "LIMIT_S", SECONDS),
    ("time of `zstd` of `collect`", "agent.collect.unpack", "ZSTD_LIMIT_S", SECONDS),
    ("bundle that `collect` writes", "agent.collect.bundle", "TOTAL_LIMIT_BYTES", BYTES),
    ("time to connect by ssh", "agent.launch", "CONNECT_TIMEOUT_S", SECONDS),
    ("time of a node behind ssh", "evidence.ssh", "COLLECT_TIMEOUT_S", SECONDS),
    ("bundle of a node behind ssh", "evidence.ssh", "BUNDLE_LIMIT_BYTES", BYTES),
    ("error output of a node that is shown", "evidence.ssh", "SHOWN_LIMIT_BYTES", BYTES),
    ("RDMA devices of a node", "facts.rdma", "DEVICES_LIMIT", NUMBER),
    ("pairs that `doctor` judges", "facts.rdma", "PAIRS_LIMIT", NUMBER),
    ("pairs that `topo` judges", "fabric.topology.graph", "PAIRS_LIMIT", NUMBER),
    ("XML", "formats.xml_text", "MAX_BYTES", BYTES),
    ("YAML, in characters", "formats.yaml_text", "CHARACTERS_LIMIT", NUMBER),
    ("documents of YAML", "formats.yaml_text", "DOCUMENTS_LIMIT", NUMBER),
    ("events of YAML: keys, values, ends", "formats.yaml_text", "EVENTS_LIMIT", NUMBER),
    ("text for `explain` that is held", "cli.explain", "LIMIT_BYTES", BYTES),
    ("text for `explain` whose ends are read", "cli.long_text", "LONGEST_BYTES", BYTES),
    ("time of an answer of `mcp`", "cli.mcp_server", "SECONDS", SECONDS),
    ("file for `config check`", "cli.config", "LIMIT_BYTES", BYTES),
    ("nodes of a list, a folder or a cluster", "fleet.hostlist", "NODES_LIMIT", NUMBER),
    ("time to judge a node of `fleet`", "fleet.pool", "TASK_LIMIT_S", SECONDS),
    ("time of a command of `fix`", "repair.apply.commands", "LIMIT_S", SECONDS),
    ("output of a command of `fix`", "repair.apply.commands", "OUTPUT_LIMIT_BYTES", BYTES),
    ("time in which a second process for a log counts nothing", "jobs.workers", "STALLED_S", SECONDS),
    ("time of an answer of NVML's process", "transport.measure.counters_process", "ANSWER_S", SECONDS),
    ("line of a job's log", "jobs.logs", "LONGEST_LINE_BYTES", BYTES),
    ("steps of a prediction of modprobe", "loader.effort", "STEPS_LIMIT", NUMBER),
    ("time of a handshake", "transport.reception", "HANDSHAKE_SECONDS", SECONDS),
    ("handshakes at a time", "transport.reception", "MOST", NUMBER),
    ("handshakes of one address or IPv6 /64", "transport.reception", "MOST_PER_SOURCE", NUMBER),
    ("write requests without their data", "transport.connection", "_MOST_WRITES", NUMBER),
    ("control message", "transport.sealed_socket", "FRAME_LIMIT", BYTES),
)


def limits() -> str:
    """The bounds on what a stranger can make gdr read, keep or wait for, with the home of each constant."""

    def shown(value: float, unit: str) -> str:
        if unit != BYTES:
            return f"{value:,g} {unit}".rstrip() if value < 1e6 else f"{value:,.0f}"
        power = next(power for power in (30, 20, 10) if value >= 1 << power)
        return f"{int(value) >> power} {'KMG'[power // 10 - 1]}iB"

    rows = []
    for what, module, name, unit in LIMITS:
        value = getattr(import_module(f"gdrkit.{module}"), name)
        rows.append((what, shown(value, unit), f"`{name}`, `{module.replace('.', '/')}.py`"))
    return table(("of", "at most", "constant"), rows)


def planted_secrets() -> str:
    """How many of the secrets that are planted in files are not in what `gdr collect` keeps of them."""
    from tests.agent.collect.planted_secrets import ARGUMENTS, FILES, PATHS, RANDOM, WORD, rows

    from gdrkit.agent.collect.redact import without_secrets

    def removed(path: str, text: str) -> bool:
        words = (RANDOM,) if (path, text) in PATHS else (RANDOM, WORD)
        return not any(word.encode() in without_secrets(text.format(word).encode(), path) for word in words)

    found = [removed(*row) for row in rows()]
    parts = (("kernel arguments", len(ARGUMENTS)), ("texts in files", len(FILES) + len(PATHS)))
    cells = []
    for what, many in parts:
        cells.append((what, many, sum(found[:many])))
        found = found[many:]
    return table(("planted in", "secrets", "removed"), cells)


def doca_on_ubuntu() -> str:
    """The commands of `gdr fix` that set up DOCA-OFED on the Ubuntu of a node of tests/evidence."""
    import tempfile

    from tests.evidence_nodes import build

    from gdrkit.diagnosis import node_of
    from gdrkit.evidence.target import open_host
    from gdrkit.repair.platforms.debian import DEBIAN
    from gdrkit.repair.platforms.doca import repository

    with tempfile.TemporaryDirectory() as folder:
        node = node_of(open_host(str(build("ubuntu-6.8-h100", Path(folder)))))
        commands = repository(node).commands
    install = " ".join(("sudo", *DEBIAN.install, *DEBIAN.ofed))
    return "\n".join(("```sh", *commands, install, "```\n"))


def pairs_example() -> str:
    """What `gdr fleet bench` prints about made-up rates: a slow node, a slow pair, a silent node."""
    from gdrkit.fleet.document import Standing
    from gdrkit.fleet.judge import without_answer
    from gdrkit.fleet.pair_document import PairRow, What, build, text
    from gdrkit.fleet.rounds import rounds_of

    nodes = [f"gpu{number:03}" for number in range(64)]
    silent, rounds = "gpu050", list(zip((1, 2, 3), rounds_of(nodes), strict=False))
    slow_pair = next(pair for pair in rounds[0][1] if not {"gpu017", silent} & set(pair))
    rows = []
    for number, pairs in rounds:
        for pair in pairs:
            rate = 11.6 if "gpu017" in pair else 23.0 if pair == slow_pair else 46.1
            if silent not in pair:
                rows.append(PairRow(nodes=pair, round=number, gb_per_s=rate, streaming_gb_per_s=rate))
    refused = f"ssh: connect to host {silent} port 22: Connection refused"
    lost = {silent: without_answer(f"ssh://{silent}", silent, refused, Standing.UNREACHABLE)}
    document = build(rows, lost, nodes, What("verbs", 0, "mlx5_0", "", 16 << 20))
    shown = text(document, size="16 MiB", compare="gdr fleet doctor", width=80)
    return f"```text\n{shown.rstrip()}\n```\n"


COUNTS: dict[str, Callable[[], str]] = {
    "lab": lab,
    "lab open": lab_open,
    "ceilings": ceilings,
    "limits": limits,
    "machines": machines,
    "fix scenarios": fix_scenarios,
    "NCCL on GPUs": nccl_gpus,
    "NCCL from source": nccl_source,
    "planted secrets": planted_secrets,
    "DOCA-OFED on Ubuntu": doca_on_ubuntu,
    "pairs of made-up rates": pairs_example,
}
