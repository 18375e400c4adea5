"""Walk nodes over platforms, and list advice that names what a platform does not have.

    python -m tools.platforms --seed 7 --count 300      # machines of the generator, each on every platform

A platform is supposed of a node: another os-release, a container, or the GPU Operator's driver container.
What each lacks is listed here anew, from the documents of the platform, and not taken from gdrkit.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gdrkit.catalogue import CODES
from gdrkit.diagnosis import report_on
from gdrkit.evidence.target import open_host
from gdrkit.facts.driver_files import has_driver_container
from gdrkit.facts.machine import Distribution, distribution
from gdrkit.facts.module_index import module_path
from gdrkit.facts.virtual import scope
from gdrkit.fleet.groups import fixes
from gdrkit.fleet.judge import row_of
from gdrkit.node import Node, Supposition, if_missing
from gdrkit.repair.config.check import check
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.means import means
from gdrkit.repair.platforms.procedures import procedure_for
from gdrkit.repair.remedies import every_remedy
from gdrkit.report.answers import first_screen
from gdrkit.report.document import Report
from gdrkit.report.fix import FixOptions, actions, fix_report
from gdrkit.report.fix_document import ActionSection, FixReport
from gdrkit.report.here import advice_here
from gdrkit.report.pages import advice

_DEBIAN, _RHEL, _SUSE = ("apt-get", "dpkg", "update-grub"), ("dnf", "yum", "grubby"), ("zypper", "pbl")
_PACKAGES = (*_DEBIAN, *_RHEL, *_SUSE, "dkms", "mokutil", "dracut", "update-initramfs")
_OFED = ("DOCA-OFED", "install-ofed", "rebuild-driver", "load-peermem", "persist-peermem")
_FOLDERS = ("/etc/modprobe.d", "/etc/modules-load.d", "/etc/default/grub", "/etc/init.d", "/etc/security")
_FILES = (*_FOLDERS, "modprobe.d", "/lib/modules")
_ROOT = ("sudo", "systemctl", "modprobe", "rmmod", "nvidia-smi", "mlxfwreset")


def _any(*words: str) -> re.Pattern[str]:
    """Any of these words. setpci, which needs a shell, may only follow what starts a container with it."""
    named = "|".join(map(re.escape, words))
    return re.compile(rf"(?<![\w-])(?:{named})(?![\w-])|(?<!-- )(?<!IMAGE )(?<!bin/)\bsetpci -s")


class Setting(NamedTuple):
    """A platform: what is supposed of a node, and what its advice must not name."""

    suppose: tuple[Supposition, ...]
    lacks: re.Pattern[str]


def _of(system: Distribution, inside: str = "host", *, operator: bool = False) -> tuple[Supposition, ...]:
    kept = scope.becomes(inside), has_driver_container.becomes(operator)
    return (distribution.becomes(system), *kept)


_UBUNTU = Distribution("ubuntu", "24.04", ("debian",), "Ubuntu")
_ROCKY = Distribution("rocky", "9.4", ("rhel", "fedora"), "Rocky Linux")
_SLES = Distribution("sles", "15.6", ("suse",), "SLES")
_RHCOS = Distribution("rhel", "9.6", ("fedora",), "CoreOS", "coreos")
_FCOS = Distribution("fedora", "43", (), "Fedora CoreOS", "coreos")
_MICRO = Distribution("sl-micro", "6.1", ("suse",), "SL Micro")
_ROCKET = Distribution("bottlerocket", "1.53", (), "Bottlerocket", "aws-k8s-1.33-nvidia")
_OF_HOST = re.compile(  # of a host whose driver a container installs
    r"(?<![\w-])dkms\b|(?:apt-get|dnf|zypper) [^\n]*nvidia(?!-peer-memory)|\bmokutil\b|write /etc/mod"
)
_INSIDE = re.compile(
    r"\bapt-get\b|\bdnf\b|\bzypper\b|(?<![\w-])dkms\b|/etc/mod|\bsudo (?!gdr collect)|systemctl|\bmodprobe -"
    r"|setpci"
)
_CODE_PAGE = re.compile(r"`gdr (?:codes [\w-]+|modprobe [^`]+)`|talosctl -n NODE (?:list -l|read) \S+")
"""What is not advice: names of codes, which contain names of tools; gdr modprobe, which predicts; and what
talosctl shows of the image."""
_LOADED = re.compile(r"`sudo modprobe (\w+)`")
"""Root can load what is in the image, where there is a shell; nvidia-peermem has a hyphen and is a stub."""
_WITH_SHELL = ("fedora-coreos", "flatcar", "sl-micro")
SETTINGS = {
    "debian": Setting(_of(_UBUNTU), re.compile(r"\b(?:dnf|zypper|grubby|pbl|talosctl|apiclient)\b")),
    "rhel": Setting(_of(_ROCKY), re.compile(r"\b(?:apt-get|zypper|pbl|update-grub|rpm-ostree)\b")),
    "suse": Setting(_of(_SLES), re.compile(r"\b(?:apt-get|dnf|grubby|update-grub|transactional)\b")),
    "gpu-operator": Setting(_of(_UBUNTU, operator=True), _OF_HOST),
    "container": Setting(_of(_UBUNTU, "container"), _INSIDE),
    "talos": Setting(
        _of(Distribution("talos", "v1.13", (), "Talos")), _any(*_PACKAGES, *_FILES, *_ROOT, *_OFED)
    ),
    "rhcos": Setting(_of(_RHCOS), _any(*_PACKAGES, *_FOLDERS, "sudo", "modprobe")),
    "fedora-coreos": Setting(_of(_FCOS), _any(*_PACKAGES, "/etc/modprobe.d", "modprobe", *_OFED)),
    "flatcar": Setting(
        _of(Distribution("flatcar", "4230", ("coreos",), "Flatcar")),
        _any(*_PACKAGES, "/etc/modprobe.d", "modprobe", *_OFED),
    ),
    "bottlerocket": Setting(_of(_ROCKET), _any(*_PACKAGES, *_FILES, *_ROOT, *_OFED)),
    "cos": Setting(
        _of(Distribution("cos", "121", (), "COS")), _any(*_PACKAGES, *_FILES, "modprobe", *_OFED)
    ),
    "sl-micro": Setting(
        _of(_MICRO), _any("zypper", *_DEBIAN, *_RHEL, "dkms", "/etc/modprobe.d", "modprobe", *_OFED)
    ),
}


def on(node: Node, name: str) -> Node:
    """The node as if it were on a platform."""
    return node.after(f"on {name}", SETTINGS[name].suppose)


def faults_of_steps(node: Node, name: str) -> list[str]:
    """The same of every remedy, whether the node needs it or not."""
    here = on(node, name)
    found = []
    for remedy in every_remedy():
        way = means(here, remedy)
        procedure = procedure_for(here, remedy, ProcedureChoices())
        words = [way.undo, *(_words(one) for one in actions(procedure))]
        lacking = () if way.cannot else filter(None, map(SETTINGS[name].lacks.search, words))
        found += [f"{remedy.name}: {one[0]!r} in {one.string!r}" for one in lacking]
    return found


_ORDER = re.compile(
    r"`(?:kubectl|talosctl|apiclient|oc|gdr|sudo|lspci|lsmod|cat|rdma|ibv_\w+|modinfo|ls) |"
    r"(?:^|[.:;,] )(?:or |then |first )?"
    r"(?:ask|do|run|set|use|add|remove|install|give|let|leave|load|build|start|stop|reboot|restart|reseat|drain|"
    r"delete|deploy|change|check|choose|compare|find|look|search|read|raise|take|turn|unset|upgrade|write|make|"
    r"rebuild|register|reset|clean|fix|put|enable|nothing)\b",
    re.IGNORECASE,
)
"""A next step: a command, an order, or that there is nothing to do."""


def without_step(node: Node, name: str) -> list[str]:
    """The codes whose advice on a platform lacks a next step, or names what the platform lacks."""
    here, found = on(node, name), []
    for code in CODES:
        words = advice_here(here, code)
        if words and not _ORDER.search(words):
            found.append(f"{code}: no next step in {words!r}")
        shown = words or advice(code)  # what is followed as the page has it is judged too
        if lacking := _lacking(shown, here, name):
            found.append(f"{code}: {lacking} in {shown!r}")
    return found


def _lacking(text: str, node: Node, name: str) -> str:
    """What a text names although the platform lacks it; "" if that is nothing."""

    def in_image(found: re.Match[str]) -> str:
        has_it = name in _WITH_SHELL and if_missing("", module_path, node, found[1])
        return "" if has_it else found[0]

    lacking = SETTINGS[name].lacks.search(_LOADED.sub(in_image, _CODE_PAGE.sub("", text)))
    return repr(lacking[0]) if lacking else ""


def faults(node: Node, name: str) -> list[str]:
    """What the advice for a node on a platform names although the platform lacks it, or does in an order
    that cannot work."""
    here = on(node, name)
    report = report_on(here)
    fix = fix_report(here, FixOptions())
    found = []
    for where, text in (*_of_doctor(here, report), *_of_fix(fix)):
        if lacking := _lacking(text, here, name):
            found.append(f"{where}: {lacking} in {text!r}")
    return [*found, *_disorder(fix), *_refused(fix)]


def _of_doctor(node: Node, report: Report) -> Iterator[tuple[str, str]]:
    screen = first_screen(report)
    yield "now", screen.now
    for plan in report.plan:
        for step in plan.steps:
            yield f"plan {step.remedy}", f"{step.remedy}; {step.effect}; {step.undo}"
    for finding in report.findings:
        if finding.status in ("failed", "warning"):
            yield f"advice {finding.code}", finding.advice
            yield f"remedies {finding.code}", " ".join(finding.remedies)
    for one in fixes((row_of(node, report, "x", "x"),)):
        yield "fleet", one.advice


def _of_fix(fix: FixReport) -> Iterator[tuple[str, str]]:
    for action in fix.by_hand:
        yield "by hand", _words(action)
    for step in (*(step for plan in fix.plans for step in plan.steps), *fix.further):
        yield f"step {step.remedy}", f"{step.remedy}; {step.title}; {step.effect}; {step.undo}"
        for action in step.actions:
            yield f"action of {step.remedy}", _words(action)


def _words(action: ActionSection) -> str:
    return "\n".join((action.line, *action.commands, action.content, *action.undo))


def _disorder(fix: FixReport) -> Iterator[str]:
    """Resources that wait for one that comes later, or that is never made."""
    for plan in fix.plans:
        done: list[str] = []
        for action in (action for step in plan.steps for action in step.actions):
            waits = "useHostMofed: false" in action.content and "enabled: true" in action.content
            if waits and not any("NicClusterPolicy" in one for one in done):
                yield "order: a ClusterPolicy that waits for an OFED which is never deployed"
            if "kernelModuleConfig:" in action.content and not any("kind: ConfigMap" in one for one in done):
                yield "order: a ClusterPolicy before its ConfigMap"
            done.append(_words(action))


_WRITTEN = re.compile(r"^(?:apiVersion|kind|machine):", re.MULTILINE)
"""The beginning of a manifest: `gdr config check` does not read options for `docker run`."""


def _refused(fix: FixReport) -> Iterator[str]:
    """Resources that `gdr config check` does not accept."""
    for step in (*(step for plan in fix.plans for step in plan.steps), *fix.further):
        for action in step.actions:
            if action.kind == "ask-person" and _WRITTEN.search(action.content):
                for fault in check(action.content.encode(), "written").faults:
                    yield f"config check: {step.remedy}: {fault.code}: {fault.seen}"


def main() -> int:
    """Print the counts and each fault once, with the machine that shows it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--named", action="store_true", help="the nodes of tests/evidence too")
    options = parser.parse_args()
    seen: dict[str, str] = {}
    walked = 0
    for title, path in _paths(options):
        walked += 1
        node = Node(open_host(str(path)))
        kept = ["talos"] if title == "talos" else list(SETTINGS)  # its manifests are of no other system
        for fault in (f"{name}: {fault}" for name in kept for fault in faults(node, name)):
            if fault[:200] not in seen:
                print(f"{title}: {fault[:400]}", flush=True)
            seen.setdefault(fault[:200], title)
    print(f"{walked} nodes on {len(SETTINGS)} platforms: {len(seen)} faults")
    return bool(seen)


def _paths(options: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    from machines.cases import case
    from machines.judge import written
    from tests.evidence_nodes import laid_down, names

    for name in names() if options.named else ():
        yield name, laid_down(name)
    for number in range(options.first, options.first + options.count):
        with written(case(options.seed, number, "").machine) as path:
            yield f"--seed {options.seed} --first {number}", path


if __name__ == "__main__":
    raise SystemExit(main())
