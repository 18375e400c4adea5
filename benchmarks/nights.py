"""The page "Nightly" followed on two nights: 60 nodes behind a real sshd, Slurm, node-exporter, Prometheus.

    uv run --no-sync python -m benchmarks.nights

The nodes send bundles of the machine generator; one never answers, and one calls itself by the name of a
healthy one. Programs of ours stand for `mail`, and for sudo on the nodes; the deadline in the script is
shorter. Exit code 1 if Slurm, Prometheus or a mail has anything else than was planted.
"""

from __future__ import annotations

import copy
import json
import random
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from machines.faults import BY_NAME
from machines.fleet import bundles
from machines.machine import Machine
from tests.cli.test_nightly import PAGE
from tests.cli.test_streams import GDR
from tests.fleet.prometheus_daemon import prometheus
from tests.fleet.slurm_cluster import cluster
from tests.fleet.ssh_daemon import server

from machines import draw

SIZE, DEADLINE_S, WAIT_S = 60, 60, 60
NODES = tuple(f"gpu{number:03d}" for number in range(SIZE))
DEAD, LOST, DEGRADED, BOOT, UNKNOWN, HANGS, LIES, LATER, IMPOSTOR_OF = (
    NODES[at] for at in (4, 11, 17, 23, 29, 35, 41, 47, 53)
)
PLANTED = {
    DEAD: "GPU off the bus",
    LOST: "GPU gone",
    DEGRADED: "lost lanes",
    BOOT: "new kernel without the driver",
    LIES: "port down",
    LATER: "port down",
}
SEED = 7
"""A machine of eight GPUs and rails that is ready, and that each of these faults fits."""
# -- the nodes ------------------------------------------------------------------------------------------


def machine(name: str, fault: str = "") -> Machine:
    """A node of the fleet, perhaps with a fault."""
    made = draw.machine(SEED, random.Random(f"night {SEED}"), "rails")
    made.in_use, made.name = "", name
    if fault:
        BY_NAME[fault].plant(made, random.Random(1))
    return made


def sent(folder: Path) -> dict[str, Path]:
    """The bundle of each node in the first night, and of `later` and `mended` in the second one."""
    usual = machine("usual")
    found = {}
    for name in NODES:
        one = machine(name, PLANTED[name]) if name in PLANTED and name != LATER else copy.deepcopy(usual)
        one.name = IMPOSTOR_OF if name == LIES else name
        if name == UNKNOWN:
            one.hidden = {"sys/bus/pci": "denied"}
        (found[name],) = bundles((one,), folder / name)
    (found["later"],) = bundles((machine(LATER, PLANTED[LATER]),), folder / "later")
    (found["mended"],) = bundles((machine(DEAD),), folder / "mended")
    return found


def answer(home: Path, packed: Path | None) -> None:
    """Let a node send a bundle for its collector, or hang."""
    said = f"exec /bin/cat {shlex.quote(str(packed))}" if packed else f"exec /bin/sleep {2 * DEADLINE_S}"
    (home / "bin/sudo").write_text(f"#!/bin/sh\n/bin/cat >/dev/null\n{said}\n")


# -- the site -------------------------------------------------------------------------------------------


class Site:
    """A machine from which the script is run, beside the daemons that it works with."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment, self.out = folder, environment, folder / "out"

    def night(self) -> str:
        """Run the script of the page; returns its mail."""
        words = ["/bin/sh", self.folder / "gdr-nightly", self.folder / "hosts", self.out, "root"]
        done = subprocess.run(words, env=self.environment, timeout=300, check=False)
        assert done.returncode == 0, (self.out / "errors.txt").read_text()
        return (self.folder / "mail").read_text()

    def drained(self) -> dict[str, str]:
        """The nodes that Slurm has as drained, with the reason."""
        words = ["scontrol", "--oneliner", "show", "node"]
        text = subprocess.run(words, env=self.environment, capture_output=True, text=True, check=True).stdout
        rows = re.findall(r"NodeName=(\S+) .*?State=(\S+).*?(?: Reason=(.*?) \[|$)", text, re.MULTILINE)
        assert len(rows) == SIZE
        return {name: reason for name, state, reason in rows if "DRAIN" in state}


@contextmanager
def site(folder: Path, packed: dict[str, Path]) -> Iterator[tuple[Site, dict[str, Path]]]:
    """The site, and the home of each node."""
    with server() as sshd, cluster(NODES) as slurm:
        homes = {name: sshd.node(name, {"sudo": "exit 1"}) for name in NODES}
        for name, home in homes.items():
            answer(home, None if name == HANGS else packed[name])
        sshd.configure(dict.fromkeys(NODES, ""))
        (script,) = re.findall(r"^```bash\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
        assert script.count("--timeout 1800 ") == 1
        (folder / "gdr-nightly").write_text(script.replace("1800", str(DEADLINE_S)))
        (folder / "hosts").write_text(f"gpu[000-{SIZE - 1:03d}]\n")
        for name in ("out", "bin"):
            (folder / name).mkdir()
        programs = {
            "gdr": f'exec {shlex.join(GDR)} "$@"',
            "mail": f'{{ echo "$2"; cat; }} > {shlex.quote(str(folder / "mail"))}',
        }
        for called, text in programs.items():
            (folder / "bin" / called).write_text(f"#!/bin/sh\n{text}\n")
            (folder / "bin" / called).chmod(0o755)
        path = f"{folder}/bin:{sshd.environment['PATH']}"
        environment = {**slurm.environment, "PATH": path, "XDG_STATE_HOME": str(folder / "state")}
        yield Site(folder, environment), homes


# -- the nights -----------------------------------------------------------------------------------------

ALWAYS = {
    ("GPUDirectRDMAFleetBlocked", "blocked"),
    ("GPUDirectRDMAFleetDegraded", LOST),
    ("GPUDirectRDMAFleetDegraded", DEGRADED),
    ("GPUDirectRDMAFleetNextBoot", "next-boot"),
    ("GPUDirectRDMAFleetUnknown", "unknown"),
}
PORT_DOWN = "gdrkit: port-down"
REASONS = {DEAD: "gdrkit: device-not-answering; gpu-needs-reset", LIES: PORT_DOWN}
STANDINGS = {
    LIES: "blocked",
    LATER: "blocked",
    LOST: "warnings",
    DEGRADED: "warnings",
    BOOT: "next-boot",
    UNKNOWN: "unknown",
}
"""In the second night, without those that are ready."""
SILENT = {("GPUDirectRDMAFleetBlocked", "unreachable")}


def wrong(name: str, found: object, wanted: object) -> int:
    """Print whether something is as it was planted; returns 1 if it is not."""
    print(f"  {'as planted' if found == wanted else 'WRONG'}: {name}")
    if found != wanted:
        print(f"    found  {found}\n    wanted {wanted}")
    return int(found != wanted)


def named(text: str) -> set[str]:
    return set(re.findall(r"\bgpu\d{3}\b", text))


def nights(folder: Path) -> int:
    """Two nights: in the second one the dead GPU is back, the silent node answers, another port is down."""
    packed = sent(folder / "sent")
    (folder / "server").mkdir()
    with site(folder, packed) as (here, homes), prometheus(folder / "server", here.out) as alerts:
        begun = time.monotonic()
        mail = here.night()
        print(f"first night, {SIZE} nodes, {time.monotonic() - begun:.0f} s\n{indented(mail)}")
        faults = wrong("drained by Slurm", here.drained(), REASONS)
        faults += wrong("firing in Prometheus", alerts.until(ALWAYS | SILENT), ALWAYS | SILENT)
        answer(homes[HANGS], packed[HANGS])
        answer(homes[DEAD], packed["mended"])
        answer(homes[LATER], packed["later"])
        begun = time.monotonic()
        mail = here.night()
        print(f"\nsecond night, {time.monotonic() - begun:.0f} s\n{indented(mail)}")
        faults += wrong("drained by Slurm", here.drained(), {**REASONS, LATER: PORT_DOWN})
        faults += wrong("firing in Prometheus", alerts.until(ALWAYS), ALWAYS)
        faults += wrong("nodes in the mail", named(mail), {DEAD, HANGS, LATER})
    lines = (here.out / "nodes.jsonl").read_text().splitlines()[SIZE:]
    found = {row["name"]: row["standing"] for row in map(json.loads, lines) if row["standing"] != "ready"}
    return faults + wrong("lines of JSON", found, STANDINGS)


def indented(mail: str) -> str:
    return "".join(f"  | {line}".rstrip() + "\n" for line in mail.splitlines()[1:])


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="gdr-nights-") as name:
        faults = nights(Path(name))
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(f"\n{sum(one.ru_utime + one.ru_stime for one in used):.0f} s of CPU for all of it")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
