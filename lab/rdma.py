"""RDMA in a guest: rdma_rxe over a veth pair, the output of the tools, traffic, and a verbs program.

The guest is emulated: this shows that things work and what they print, but not the speed of any real device.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import Struct

from lab.cache import LabError, say
from lab.kernels import Kernel
from lab.machine import Boot, Transcript, run_together
from lab.profiles import profile
from lab.rootfs import RDMA, modules_archive, packages_archive
from lab.session import boot, own_archive

FIXTURES = Path(__file__).parent.parent / "tests/lab/rdma"
SETUP = """set -e
M=/usr/sbin/modprobe; $M rdma_rxe; $M ib_uverbs; $M rdma_ucm
/bin/ip link set lo up
/bin/ip link add veth0 type veth peer name veth1
/bin/ip addr add 10.0.0.1/24 dev veth0
/bin/ip link set veth0 up; /bin/ip link set veth1 up
rdma link add rxe0 type rxe netdev veth0
"""
_TRAFFIC = """ib_write_bw -d rxe0 -x 1 -s 65536 -n 100 >/tmp/server 2>&1 &
sleep 3
ib_write_bw -d rxe0 -x 1 -s 65536 -n 100 127.0.0.1
"""
_TREE = """cd /sys/class/infiniband/rxe0 && find -L . -maxdepth 4 -type f -not -path './subsystem/*' \
-not -path './device/*' | sort | while read f; do v=$(cat $f 2>/dev/null | head -c 200 | tr '\\n' ' '); \
case "$v" in ''|'0000:0000:0000:0000:0000:0000:0000:0000 ') ;; *) echo "$f: $v";; esac; done
readlink -f /sys/class/infiniband/rxe0; ls /sys/class/infiniband/rxe0; ls -la /dev/infiniband"""


class Step(Struct, frozen=True):
    """A command whose output is saved under a name."""

    name: str
    line: str
    seconds: int = 60


STEPS = (
    Step("setup", SETUP),
    Step("ibv_devices", "ibv_devices"),
    Step("ibv_devinfo", "ibv_devinfo -v"),
    Step("rdma_link", "rdma link"),
    Step("rdma_-j_link", "rdma -j link"),
    Step("rdma_-j_dev", "rdma -j dev"),
    Step("rdma_system", "rdma system"),
    Step("ip_-j_addr", "/bin/ip -j addr"),
    Step("lsmod", "lsmod"),
    Step("sysfs", _TREE),
    Step(
        "memory_peers",
        "ls -la /sys/kernel/mm/memory_peers; grep -c ib_register_peer_memory_client /proc/kallsyms",
    ),
    Step("verbs", "python3 -E /lab/verbs.py"),
    Step("ib_write_bw", _TRAFFIC, 120),
)
_EXPECTED = {  # the required output of each step
    "setup": r"",
    "ibv_devinfo": r"hca_id:\s+rxe0[\s\S]*state:\s+PORT_ACTIVE",
    "rdma_link": r"link rxe0/1 state ACTIVE physical_state LINK_UP netdev veth0",
    "rdma_-j_link": r'"ifname": ?"rxe0"',
    "verbs": (
        r"rdma write: id 7 status 0 opcode 1, arrived True[\s\S]*ibv_reg_dmabuf_mr\(fd=-1\): EOPNOTSUPP"
    ),
    "ib_write_bw": r"65536\s+100\s+\d",
}


def outputs(kernel: Kernel) -> dict[str, str]:
    """The output of each step. Raises LabError if a step failed or did not print the required output."""
    session = boot(
        kernel, profile("plain"), (), seed=0, packages=RDMA, scripts=scripts_of(STEPS), files=guest_files()
    )
    say(f"RDMA guest: {session.transcript.seconds:.1f} s")
    return printed(session.transcript)


def scripts_of(steps: Iterable[Step]) -> list[dict[str, Any]]:
    """The steps, as a guest runs them."""
    return [
        {"name": step.name, "argv": ["/bin/sh", "-c", step.line], "seconds": step.seconds} for step in steps
    ]


def guest_files() -> dict[str, bytes]:
    """What the steps run in a guest."""
    return {"lab/verbs.py": (Path(__file__).parent / "guest/verbs.py").read_bytes()}


def printed(transcript: Transcript) -> dict[str, str]:
    """The output of each script. Raises LabError if a step failed or did not print the required output."""
    found = {}
    for event in transcript.of("script"):
        name, text = event["name"], event["stdout"]
        found[name] = text
        if name in _EXPECTED and (event["exit_code"] != 0 or not re.search(_EXPECTED[name], text)):
            raise LabError(f"{name}: exit {event['exit_code']}\n{text}\n{event['stderr']}\n{event['log']}")
    return found


_NETWORK = """set -e
M=/usr/sbin/modprobe; $M virtio_net; $M rdma_rxe; $M ib_uverbs; $M rdma_ucm
/bin/ip addr add 10.1.0.{own}/24 dev eth0
/bin/ip link set eth0 up
rdma link add rxe0 type rxe netdev eth0
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  busybox ping -c 1 -W 2 10.1.0.{other} >/dev/null && break; sleep 1
done
busybox ping -c 1 -W 2 10.1.0.{other}
"""
_SERVER = "busybox timeout 100 ib_write_bw -d rxe0 -x 1 -s 65536 -n 100"
_CLIENT = f"for _ in 1 2 3 4 5 6; do sleep 4; {_SERVER} 10.1.0.1 && exit 0; done; exit 1"
_WIRE = 24718  # a port on the loopback interface, as the network cable between two guests


def _between_two(kernel: Kernel) -> dict[str, str]:
    """The output of two guests on one network, one of which writes into the other's memory."""
    chosen = profile("plain")
    boots = []
    with TemporaryDirectory(prefix="gdrkit-lab-") as scratch:
        for own, line, wire in ((1, _SERVER, "listen"), (2, _CLIENT, "connect")):
            network = _NETWORK.format(own=own, other=3 - own)
            scripts = [
                {"name": "network", "argv": ["/bin/sh", "-c", network], "seconds": 90},
                {"name": "traffic", "argv": ["/bin/sh", "-c", line], "seconds": 150},
            ]
            plan = {"cases": [], "scripts": scripts, "pace": 0, "collect": []}
            part = Path(scratch, f"{own}.cpio")
            part.write_bytes(own_archive(kernel, chosen, plan, {}))
            archives = (packages_archive(kernel.flavour, RDMA), modules_archive(kernel), part)
            card = f"virtio-net-pci,netdev=wire,mac=52:54:00:00:00:0{own}"
            extra = ("-netdev", f"socket,id=wire,{wire}=127.0.0.1:{_WIRE}", "-device", card)
            boots.append(Boot(kernel, archives, chosen.append, extra=extra))
        transcripts = run_together(boots)
    printed = {}
    for role, transcript in zip(("server", "client"), transcripts, strict=True):
        for event in transcript.of("script"):
            if event["exit_code"] != 0:
                output = f"{event['stdout']}\n{event['stderr']}\n{event['log']}"
                raise LabError(f"{role}, {event['name']}: {output}")
            printed[f"two_guests_{role}_{event['name']}"] = event["stdout"]
    return printed


def two_guests(kernel: Kernel, *, write: bool) -> int:
    """Run traffic between two guests; with `write`, save the outputs as fixtures."""
    return _show(kernel, _between_two(kernel), write)


def smoke(kernel: Kernel, *, write: bool) -> int:
    """Run all steps; with `write`, save the outputs as fixtures."""
    return _show(kernel, outputs(kernel), write)


def _show(kernel: Kernel, printed: dict[str, str], write: bool) -> int:
    for name, text in printed.items():
        print(f"--- {name}\n{text.rstrip()}")
        if write and name != "setup" and not name.endswith("_network"):
            home = FIXTURES / kernel.flavour.name
            home.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text)
    return 0
