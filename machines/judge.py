"""Ask gdrkit about a machine, as a user would, and compare its answers with the truth."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from machines import compose
from machines.cases import Case
from machines.install import memory
from machines.loading import NOT_FOUND, modprobe
from machines.machine import Machine
from machines.truth import ANY_JOB

SEEN = ("failed", "warning", "note")
CONFIDENT = ("certain", "likely")
EXITS = {"active": (0, 1), "ready": (0, 1), "blocked": (2,), "unknown": (3,), "impossible": (0,)}


class Answer(NamedTuple):
    """What gdrkit says of one machine."""

    report: dict[str, Any]
    exit_code: int
    modprobe: dict[str, Any]
    modprobe_code: int
    complaint: str = ""

    @property
    def state(self) -> str:
        return str(self.report.get("verdict", {}).get("state", "none"))

    @property
    def headline(self) -> str:
        return str(self.report.get("verdict", {}).get("summary", "")).split(":")[0].split(" ")[0]

    def codes(self, *statuses: str) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {}
        for finding in self.report.get("findings", []):
            if finding["status"] in statuses:
                found.setdefault(finding["code"], []).append(finding)
        return found


class Miss(NamedTuple):
    """One thing that gdrkit says differently."""

    kind: str  # state, headline, named, claim, modprobe, repair, crash
    expected: str
    got: str


@contextlib.contextmanager
def written(machine: Machine) -> Iterator[Path]:
    """The machine as a folder that is removed afterwards."""
    folder = tempfile.mkdtemp(prefix="machines-", dir=memory())
    try:
        yield compose.write(machine, Path(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def ask(machine: Machine, modprobe: bool = True) -> Answer:
    """gdrkit's answers about a machine."""
    with written(machine) as path:
        return ask_about(path, modprobe)


def ask_about(path: Path, modprobe_too: bool = True) -> Answer:
    """gdrkit's answers about a folder of evidence."""
    code, report, complaint = _gdr("doctor", "--json", "--debug", str(path))
    if not modprobe_too:
        return Answer(report, code, {}, 0, complaint)
    modprobe_code, modprobe, other = _gdr("modprobe", "--json", "--debug", "nvidia-peermem", str(path))
    return Answer(report, code, modprobe, modprobe_code, complaint or other)


def _gdr(*words: str) -> tuple[int, dict[str, Any], str]:
    from gdrkit.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(words))
    try:
        return code, json.loads(out.getvalue()), err.getvalue() if code >= 64 else ""
    except ValueError:
        return code, {}, err.getvalue()


def compare(case: Case, answer: Answer) -> list[Miss]:
    """Everything that gdrkit says differently from the truth."""
    if answer.complaint and not answer.report:
        return [Miss("crash", "an answer", answer.complaint.strip().splitlines()[-1][:200])]
    truth = case.truth
    misses = []
    consumers = answer.report["consumers"]
    for name, states in truth.states.items():
        state = consumers[name]["state"]
        if not accepts(states, state):
            kind = "state" if name == "nccl" else "other state"
            misses.append(Miss(kind, f"{name} {'/'.join(sorted(states))}", f"{name} {state}"))
    stopped = answer.state in ("blocked", "impossible")
    if (
        stopped
        and "state" not in {m.kind for m in misses}
        and answer.headline not in truth.headline | truth.perhaps
    ):
        misses.append(Miss("headline", "/".join(sorted(truth.headline)), answer.headline))
    misses += _initiated(case, answer)
    misses += _unnamed(case, answer) + _claims(case, answer) + _plans(case, answer)
    if answer.exit_code not in EXITS[answer.state]:
        misses.append(Miss("exit", f"{answer.state}: {EXITS[answer.state]}", str(answer.exit_code)))
    if all(fault.modprobe for fault in case.faults):
        misses += _modprobe(case, answer)
    return misses


def _initiated(case: Case, answer: Answer) -> list[Miss]:
    """Who is said to start the transfers of GPU kernels, where the truth is known."""
    misses = []
    for name, ways in case.truth.initiated.items():
        section = answer.report["consumers"][name]["initiated"]
        if answer.report["consumers"][name]["state"] in ("ready", "active") and section["by"] not in ways:
            misses.append(Miss("initiated", f"{name} {'/'.join(sorted(ways))}", f"{name} {section['by']}"))
    return misses


def accepts(states: frozenset[str], state: str) -> bool:
    """Whether a state is a true one. nvidia-peermem in use makes a path active, and is not modelled."""
    return state in states or (state == "active" and "ready" in states)


def _unnamed(case: Case, answer: Answer) -> list[Miss]:
    """The planted faults that gdrkit does not report, though their evidence is there."""
    seen, unknown = answer.codes(*SEEN), answer.codes("unknown")
    misses = []
    for fault in case.faults:
        if fault.hidden_by(case.faults) or any(code in seen for code in fault.codes):
            continue
        is_unknown = any(code in unknown for code in fault.codes)
        if not (is_unknown and fault.undecided):
            misses.append(Miss("named", fault.codes[0], "unknown" if is_unknown else "not reported"))
    return misses


def _claims(case: Case, answer: Answer) -> list[Miss]:
    """Confident claims that are not true, and failures on a machine where nothing fails."""
    misses = []
    working = all(case.truth.states[name] <= {"ready", "active"} for name in ANY_JOB)
    for code, findings in answer.codes("failed").items():
        sure = [finding for finding in findings if finding["confidence"] in CONFIDENT]
        if not sure:
            continue
        about = f"{code} {sure[0]['subject']}: {sure[0]['seen']}"[:150]
        if code not in case.truth.codes:
            misses.append(Miss("claim", "not true", about))
        elif working:
            misses.append(Miss("claim", "nothing fails", about))
    for code, findings in answer.codes("warning", "note").items():
        if code not in case.truth.codes and code not in _HARMLESS:
            first = findings[0]
            misses.append(
                Miss("untrue note", "not true", f"{code} {first['subject']}: {first['seen']}"[:150])
            )
    return misses


def _plans(case: Case, answer: Answer) -> list[Miss]:
    """Plans of one step that loads a module which modprobe cannot load."""
    refused = {
        "load-peermem": case.truth.modprobe.error,
        "load-driver": modprobe(case.machine, "nvidia").error if case.machine.driver else "",
    }
    misses = []
    for plan in answer.report["plan"]:
        steps = [step["remedy"] for step in plan["steps"]]
        if len(steps) == 1 and (error := refused.get(steps[0])):
            misses.append(Miss("plan", error, f"{steps[0]} then ready"))
    return misses


_HARMLESS = (
    "peermem-redundant",
    "peermem-not-persistent",
    "peermem-blocks-ofed",
    "shared-nic",
    "mixed-signers",
    "verbs-library-old",
    "peermem-not-loaded",
)


def _modprobe(case: Case, answer: Answer) -> list[Miss]:
    loading, got = case.truth.modprobe, answer.modprobe
    exit_code = 0 if not loading.error else 2
    allowed = {exit_code} | ({3} if loading.unsure else set())
    replaced = case.machine.running_stack != case.machine.disk_stack
    if replaced or (case.machine.driver and case.machine.driver.running_version):
        allowed.add(3)  # the checksums of what runs are in no file
    if answer.modprobe_code not in allowed:
        expected = loading.error or ("loads" if loading.loaded else "exits 0, loads nothing")
        said = f"exit {answer.modprobe_code}: {got.get('stderr', '')[-90:]} ({got.get('reason', '')})"
        return [Miss("modprobe", f"exit {exit_code}: {expected} ({'/'.join(sorted(loading.causes))})", said)]
    if answer.modprobe_code == 2 and not loading.unsure:
        text = got["stderr"]
        wanted = loading.error if loading.error != NOT_FOUND else "not found in directory"
        if wanted not in text:
            return [Miss("modprobe", wanted, text[-120:])]
    if answer.modprobe_code == 0 and got.get("loaded") is not None and got["loaded"] != loading.loaded:
        return [Miss("modprobe", f"loaded {loading.loaded}", f"loaded {got['loaded']}")]
    return []
