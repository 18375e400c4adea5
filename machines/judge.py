"""Ask gdrkit about a machine, as a user would, and compare its answers with the truth.

With words.py, the adapter: the only files here that know how gdrkit says what truth.py knows."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from machines import compose, remedies
from machines.cases import Case
from machines.cost import changed
from machines.facts import facts
from machines.faults.beside import OF_NO_NIC
from machines.faults.fault import Fault
from machines.install import memory
from machines.loading import NOT_FOUND, modprobe
from machines.machine import Machine
from machines.truth import ANY_JOB, Truth, of_now
from machines.words import BY_NEXT_BOOT, STEP_OF, known, named

SEEN = ("failed", "warning", "note")
NODE = "node"
CONFIDENT = ("certain", "likely")
EXITS = {"active": (0, 1), "ready": (0, 1), "blocked": (2,), "unknown": (3,), "impossible": (0,)}


def unknown_to_gdrkit(fault: Fault) -> bool:
    """Whether gdrkit has neither a code for a fault nor states it as its verdict after the next boot."""
    return not known(fault.codes) and not BY_NEXT_BOOT.issuperset(fault.codes)


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

    kind: str  # state, headline, named, device, cost, remedy, claim, modprobe, repair, crash, ...
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
    code, report, complaint = _gdr("doctor", "--json", "--debug", "--consumer", "nccl", str(path))
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
    """Everything that gdrkit says differently from the truth.

    Where a machine has a fault of which gdrkit has no code, all of it is of one kind: not recognised."""
    misses = _compare(case, answer)
    if not any(unknown_to_gdrkit(fault) for fault in case.faults):
        return misses
    return [
        miss if miss.kind == "crash" else Miss("not recognised", f"{miss.kind}: {miss.expected}", miss.got)
        for miss in misses
    ]


def _compare(case: Case, answer: Answer) -> list[Miss]:
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
        and answer.headline not in known(truth.headline | truth.perhaps)
    ):
        misses.append(Miss("headline", "/".join(sorted(truth.headline)), answer.headline))
    misses += _initiated(case, answer)
    misses += _unnamed(case, answer) + _claims(case, answer) + _plans(case, answer)
    misses += _devices(case, answer) + _costs(case, answer) + _remedies(case, answer)
    misses += _promises(case, answer) + _next_boot(case, answer)
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
        if BY_NEXT_BOOT.issuperset(fault.codes):
            continue  # _next_boot() compares it
        if fault.hidden_by(case.faults) or any(code in seen for code in known(fault.codes)):
            continue
        is_unknown = any(code in unknown for code in known(fault.codes))
        if not (is_unknown and fault.undecided):
            misses.append(Miss("named", fault.codes[0], "unknown" if is_unknown else "not reported"))
    return misses


def _claims(case: Case, answer: Answer) -> list[Miss]:
    """Confident claims that are not true, and failures on a machine where nothing fails."""
    misses = []
    working = all(case.truth.states[name] <= {"ready", "active"} for name in ANY_JOB)
    true = known(case.truth.codes)
    for code, findings in answer.codes("failed").items():
        sure = [finding for finding in findings if finding["confidence"] in CONFIDENT]
        if not sure:
            continue
        about = f"{code} {sure[0]['subject']}: {sure[0]['seen']}"[:150]
        if code not in true:
            misses.append(Miss("claim", "not true", about))
        elif working:
            misses.append(Miss("claim", "nothing fails", about))
    for code, findings in answer.codes("warning", "note").items():
        if code not in true and code not in _HARMLESS:
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


def _true_names(truth: Truth) -> dict[str, frozenset[str]]:
    """The names of what is true, by gdrkit's codes."""
    found: dict[str, frozenset[str]] = {}
    for kind, names in truth.subjects.items():
        for code in known((kind,)):
            found[code] = found.get(code, frozenset()) | names
    return found


def _seen_faults(case: Case, answer: Answer) -> Iterator[tuple[Fault, dict[str, list[dict[str, Any]]]]]:
    """The planted faults that gdrkit reports, each with its findings."""
    seen = answer.codes(*SEEN)
    for fault in case.faults:
        found = {code: seen[code] for code in known(fault.codes) if code in seen}
        if found and not fault.hidden_by(case.faults):
            yield fault, found


def _devices(case: Case, answer: Answer) -> list[Miss]:
    """Findings of another device, module or file than the one that has the fault, and planted ones of which
    no finding names the device."""
    true, before, misses = _true_names(case.truth), _true_names(case.healthy_truth), []
    for code, findings in answer.codes(*SEEN).items():
        for finding in findings if code in true else ():
            name = named(case.machine, finding["subject"])
            if name == NODE or {name} <= true[code] or set(name.split()) <= true[code]:
                continue
            of = "/".join(sorted(true[code])[:4])
            misses.append(Miss("device", f"{code} {of}", name))
            if finding["status"] == "failed" and finding["confidence"] in CONFIDENT:
                misses.append(Miss("claim", "not true", f"{code} of {name}"))
    for _, found in _seen_faults(case, answer):
        names = [named(case.machine, one["subject"]) for ones in found.values() for one in ones]
        said = {*names, *(word for name in names for word in name.split())}
        for code in found.keys() & true.keys():
            planted = true[code] - before.get(code, frozenset()) or true[code]
            if not said & planted:
                misses.append(
                    Miss("device", f"{code} {'/'.join(sorted(planted)[:4])}", "/".join(sorted(said)))
                )
    return misses


def _costs(case: Case, answer: Answer) -> list[Miss]:
    """Ceilings above what a link or port can, or far below it; another path that is left; a fault that costs
    something, without a word of what."""
    misses = []
    rdma = {nic.address: nic.rdma for nic in case.machine.nics}
    pairs = {(pair["gpu"], pair["device"]): pair.get("ceiling") for pair in answer.report["pairs"]}
    for bound in case.truth.bounds:
        said = pairs.get((bound.gpu, rdma[bound.nic]))
        low, most = bound.gb_per_s * LEAST_OF_BOUND, bound.gb_per_s
        if said and not low <= said["high_gb_per_s"] <= most * ROUNDED:
            expected = f"{bound.gpu} {bound.nic}: {low:.2f} to {most:.2f} GB/s"
            misses.append(Miss("cost", expected, f"{said['high_gb_per_s']}"))
    left = answer.report["verdict"]["best_fallback"]
    if answer.state == "blocked" and (left or "") != case.truth.fallback and not case.truth.nothing_to_judge:
        misses.append(Miss("cost", f"left: {case.truth.fallback}", str(left)))
    for fault, found in _seen_faults(case, answer):
        if _costs_something(case, fault) and not any(one["cost"] for ones in found.values() for one in ones):
            misses.append(Miss("cost", f"{fault.codes[0]}: what it costs", "nothing"))
    return misses


LEAST_OF_BOUND = 0.88
"""A ceiling is at least so much of what no transfer exceeds: longer headers, and the network's."""
ROUNDED = 1.001


def _costs_something(case: Case, fault: Fault) -> bool:
    """Whether a fault alone stops jobs, or lowers what a link lets pass; beside another it may not."""
    if len(case.faults) > 1:
        return False
    return bool(changed(case.healthy, case.machine)) or bool(case.truth.headline & set(fault.codes))


def _remedies(case: Case, answer: Answer) -> list[Miss]:
    """Planted faults of whose remedies none makes the statement untrue. Beside a fault of another kind a
    remedy may need a second one first: there, only what plans promise is compared."""
    misses: list[Miss] = []
    if sum(fault not in OF_NO_NIC for fault in case.faults) > 1:
        return misses
    for fault, found in _seen_faults(case, answer):
        for code, findings in found.items():
            offered = {remedy for finding in findings for remedy in finding["remedies"]}
            steps = {STEP_OF[remedy] for remedy in offered if remedy in STEP_OF}
            kinds = [kind for kind in fault.codes if code in known((kind,))]
            if steps and len(steps) == len(offered) and not any(_cures(case, step, kinds) for step in steps):
                misses.append(Miss("remedy", f"a cure of {code}", "/".join(sorted(offered))))
    return misses


def _cures(case: Case, step: str, kinds: list[str]) -> bool:
    """Whether the statements are untrue after a step, or after it and a reboot that alone does not do it."""
    wanted = set(kinds) - case.healthy_truth.codes
    if not wanted & _true_of(remedies.after(case.machine, [step])):
        return True
    booted = remedies.after(case.machine, ["reboot"])
    return bool(wanted & _true_of(booted)) and not wanted & _true_of(
        remedies.after(case.machine, [step, "reboot"])
    )


def _true_of(machine: Machine) -> set[str]:
    return facts(machine, modprobe(machine)) | machine.claims


def _promises(case: Case, answer: Answer) -> list[Miss]:
    """Plans that say to end in ready, and do not."""
    misses = []
    for plan in answer.report["plan"]:
        steps = [step["remedy"] for step in plan["steps"]]
        if not steps or any(step not in STEP_OF for step in steps):
            continue
        if plan["steps"][-1]["then"]["state"] != "ready":
            continue
        reached = of_now(remedies.after(case.machine, [STEP_OF[step] for step in steps])).states["nccl"]
        if not reached & {"ready", "active", "unknown"}:
            misses.append(Miss("remedy", "/".join(sorted(reached)), f"ready after {', '.join(steps)}"))
    return misses


def _next_boot(case: Case, answer: Answer) -> list[Miss]:
    """The verdict on the next boot, where the description decides it and gdrkit gives one."""
    said, true = answer.report.get("next_boot"), case.truth.next_boot
    if not true or not said:
        return []
    wrong = said["state"] not in true | {"unknown"} and not accepts(true, said["state"])
    if wrong:
        return [Miss("next boot", "/".join(sorted(true)), said["state"])]
    boots = case.machine.next_kernel or said["kernel"]
    return [Miss("next boot", boots, said["kernel"])] if said["kernel"] not in ("", boots) else []


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
