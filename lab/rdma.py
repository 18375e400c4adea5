"""RDMA in a guest: rdma_rxe over a veth pair, the tools' own words about it, traffic, and a verbs program.

Emulated: it shows that things work and what they print, and says nothing about any real device's speed.
"""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

from lab.cache import LabError, say
from lab.kernels import Kernel
from lab.profiles import profile
from lab.rootfs import RDMA
from lab.session import boot

FIXTURES = Path(__file__).parent.parent / "tests/lab/rdma"
_SETUP = """set -e
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
    """A command whose output is kept under a name."""

    name: str
    line: str
    seconds: int = 60


STEPS = (
    Step("setup", _SETUP),
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
_EXPECTED = {  # what each step must show
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
    """What each step printed. Raises LabError where a step failed or did not show what it must."""
    guest = Path(__file__).parent / "guest/verbs.py"
    scripts = [
        {"name": step.name, "argv": ["/bin/sh", "-c", step.line], "seconds": step.seconds} for step in STEPS
    ]
    session = boot(
        kernel,
        profile("plain"),
        (),
        seed=0,
        packages=RDMA,
        scripts=scripts,
        files={"lab/verbs.py": guest.read_bytes()},
    )
    say(f"RDMA guest: {session.transcript.seconds:.1f} s")
    printed = {}
    for event in session.transcript.of("script"):
        name, text = event["name"], event["stdout"]
        printed[name] = text
        if name in _EXPECTED and (event["exit_code"] != 0 or not re.search(_EXPECTED[name], text)):
            raise LabError(f"{name}: exit {event['exit_code']}\n{text}\n{event['stderr']}\n{event['log']}")
    return printed


def smoke(kernel: Kernel, *, write: bool) -> int:
    """Run it all; keep the outputs as fixtures if asked to."""
    printed = outputs(kernel)
    for name, text in printed.items():
        print(f"--- {name}\n{text.rstrip()}")
        if write and name != "setup":
            home = FIXTURES / kernel.flavour.name
            home.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text)
    return 0
