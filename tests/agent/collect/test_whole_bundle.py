"""The whole bundle of a known machine, and what is replaced in an anonymized one.

The expected texts are in bundles/. After a change that is meant, look at the difference, and write them with
`python -m tests.agent.collect.test_whole_bundle`.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import sys
import tempfile
from pathlib import Path

from gdrkit.agent.collect import main
from tests.agent.collect import machine
from tests.agent.collect.conftest import Opened
from tests.agent.collect.test_sources import table

EXPECTED = Path(__file__).parent / "bundles"
NIC = f"{machine.BRIDGES}/{machine.NIC}"
FORMS = f"""\
# addresses, each twice, and what only looks like one
ec:0d:9a:44:b2:c4 EC:0D:9A:44:B2:C5 ec:0d:9a:44:b2:c4 ff:ff:ff:ff:ff:ff 00:00:00:00:00:00
ec-0d-9a-44-b2-c4 01-ec-0d-9a-44-b2-c4 ec-0d-9a-03-00-44-b2-c4 ec0d.9a44.b2c4 1234.5678.9012
bare ec0d9a44b2c4 0xec0d9a030044b2c4 0123456789ab mac=0123456789ac BOOTIF=0123456789ad wwn 0x500507630300c562
port_name: 0x500507630300c563 rd.zfcp=0.0.fc00,0x500507630300c564,0x4010403200000000
ec0d:9a03:0044:b2c4 ec0d:9a03:0044:b2c5 0000:0000:0000:0000 ec:0d:9a:03:00:44:b2:c4
80:00:00:48:fe:80:00:00:00:00:00:00:ec:0d:9a:03:00:44:b2:c4
00:01:02:03:04:05:06:07:08:09:0a:0b:0c:0d:0e:0f:10:11:12:13
fe80::ee0d:9aff:fe44:b2c4 2001:db8::17 2001:0db8:0000:0000:0000:0000:0000:0017 ::1 :: ff02::1
2001:db8:0:1::17/64 ::ffff:192.168.77.12 ::ffff:c0a8:4d0c 0000:0000:0000:0000:0000:ffff:c0a8:4d0c
192.168.77.12 192.168.77.13 192.168.77.0 192.168.77.255 192.168.78.12 10.0.0.1 0.0.0.0 127.0.0.1
255.255.255.0 224.0.0.1 version 28.39.10.02 firmware: 16.35.20.30 1.2.3.4.5 300.1.1.1 fw=1.2.3.4
enxec0d9a44b2c4 ibxec0d9a030044b2c4 rocexec0d9a030044b2c4 enx01 eth0
0a1b2c3d-1111-2222-3333-444455556666 0A1B2C3D-1111-2222-3333-444455556666
0a1b2c3d-1111-2222-3333-444455556667
00000000-0000-0000-0000-000000000000 8be4df61-93ca-11d2-aa0d-00e098032b8c
Serial Number: MT2043X12345 serial_no = "0123" Serial: N/A Serial Number: NONE serial nr: ABC chassis_id=77-A
[SN] Serial number: MT2043X12346
[V0] Misc: PCIe x16 77
[PN] Part number: MCX755106AS-HEAT
Jan  3 04:05:06 {machine.HOSTNAME} kernel: hello
2026-01-03T04:05:06+00:00 node17-a systemd[1]: hello
Hostname set to <build-host-4>. hostname=alpha fqdn: beta7.example.com hostname=localhost
ip=10.0.0.2::10.0.0.1:255.255.255.0:gamma8:eno1:none
user=carol login: dave owner='erin' user=root /home/frank/x /Users/grace/y /home/alice/z
https://harry@example.com/ ftp://root@example.com/
iqn.2003-01.com.example:storage nqn.2014-08.org.nvmexpress:x /dev/disk/by-id/ata-Disk_1 LABEL=data
ESSID="office net" machine-id=0123456789abcdef0123456789abcdef
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 carol@host sk-ssh-ed25519@openssh.com AAAAGnNr
audit: type=1400 audit(1700000000.1:2): apparmor="DENIED" name="/home/frank/x"
    Name                              : /home/frank/train.py
lab.example.com {machine.HOSTNAME}.lab.example.com zgx-3285x x-zgx-3285 ALICE bob7 max alice2
link 5 mlx5_0 0000:03:00.0 6.1.0-56-amd64 corp7.example.net 9.example Liddell nobody9 backup9 broken9
version{" " * 20}192.168.77.14
"""


def build(folder: Path) -> machine.Root:
    """The machine of the other tests, with more of what is reduced and replaced."""
    root = machine.build(folder)
    root.file("etc/modprobe.d/forms.conf", FORMS)
    root.file("etc/modprobe.d/binary.conf", b"\0\1\2 zgx-3285 ec:0d:9a:44:b2:c4 \xff")
    root.file("etc/hostname", "link\n")
    root.file("etc/nv_tegra_release", "x" * (70 << 10))
    block = "processor\t: {}\nmodel name\t: {}\nflags\t\t: fpu\n"
    root.file(
        "proc/cpuinfo", "\n".join(block.format(n, "big" if n < 3 else "small") for n in range(5)) + "\n"
    )
    root.file("proc/1/environ", "HOME=/\0container=podman\0TERM=linux\0")
    root.file("proc/self/environ", "HOME=/root\0NCCL_IB_HCA=mlx5\0SSH_AUTH_SOCK=/x\0UCX_TLS=rc\0")
    root.file(
        "proc/self/mountinfo",
        "22 1 0:21 / /proc rw,nosuid shared:5 - proc proc rw\n"
        "23 1 8:1 / / rw - ext4 /dev/mapper/customer-root rw,errors=remount-ro\n"
        "24 1 0:50 / /mnt/customer rw - cifs //server/share rw,username=alice,password=x\n"
        "25 1 0:51 / / rw - overlay overlay rw,lowerdir=/var/lib/docker/x\n"
        "26 1 0:52 /sub /dev/shm rw shared:3 master:1 - tmpfs shm rw,size=64k\n"
        "27 1 0:53 /sub /host rw - xfs /dev/sda2 rw\n"
        "short line\n28 1 0:54 / /sys rw nothing follows here at all\n",
    )
    root.file(
        "var/lib/dpkg/status",
        "Package: rdma-core\nStatus: install ok installed\nMaintainer: A <a@example.com>\nVersion: 50\n\n"
        "Package: vim\nVersion: 9\n\nPackage: libnccl2\nArchitecture: amd64\nVersion: 2.28\n",
    )
    root.file("etc/ucx/ucx.conf", "UCX_TLS = rc\nAPI_TOKEN = x\n  SECRET:y\n# all\nUCX_NET_DEVICES: all\n")
    root.file("etc/resolv.conf", "search corp7.example.net .\nnameserver 192.0.2.53\ndomain 9.example\n")
    root.file(
        "etc/passwd",
        "root:x:0:0:Root User:/root:/bin/sh\nalice:x:1000:100:Alice Liddell,room 5:/home/alice:/bin/sh\n"
        "bob7:x:1001:100::/home/bob7:/bin/sh\nmax:x:59999:100::/home/max:/bin/sh\n"
        "nobody9:x:60000:1::/:/bin/false\nbackup9:x:999:1::/:/bin/false\nbroken9:x\nodd9:x:1e3:1::/:/x\n",
    )
    root.link("etc/modprobe.d/loop.conf", "loop.conf")
    root.link("etc/modprobe.d/dangling.conf", "/nowhere/at/all")
    root.link("etc/modprobe.d/outside.conf", "../../../../../../../../../etc/modprobe.d/nvidia.conf")
    (root.folder / "etc/modprobe.d/folder.conf").mkdir()
    (root.folder / "etc/modules-load.d").mkdir()
    root.file("sys/class/net/eno1/address", "ec:0d:9a:44:b2:c6\n")
    root.file("sys/class/fc_host/host0/port_name", "0x500507630300c562\n")
    for index, key in enumerate(("0xffff", "0x0000", "0x8001")):
        root.file(f"{NIC}/infiniband/mlx5_0/ports/1/pkeys/{index}", f"{key}\n")
    root.file(f"{NIC}/vpd", b"\x82\x04\0CX-7\x90\x0b\0SN\x08MT2043X1")
    root.file(f"{NIC}/resource", "0x0 0x1 0x2\n" * 3)
    root.file("proc/modules", "ib_core 479232 1 ib_uverbs, Live 0x0\n\ntiny 16384 0 - Live 0x0 (O)\n")
    root.file("proc/meminfo", "MemTotal: 1 kB\n")
    root.file("boot/config-6.1.0-56-amd64", "CONFIG_DMABUF=y\nCONFIG_KEY=x\n")
    return root


def kept(data: bytes) -> str:
    """A short text itself, the digest of anything else."""
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" not in text.strip("\0") and len(text) <= 4500:
        return repr(text)
    return f"{len(data)} bytes {hashlib.sha256(data).hexdigest()[:16]}"


def shown(bundle: Opened) -> list[str]:
    """A line for each entry of the manifest, each file and each link."""
    manifest = {name: value for name, value in bundle.manifest.items() if name not in ("collected", "user")}
    files, folders = manifest.pop("files"), manifest.pop("folders")
    lines = [f"{name}: {json.dumps(value)}" for name, value in sorted(manifest.items())]
    for name, rows in (("file", files), ("folder", folders)):
        lines += [f"{name} {path} {json.dumps(row, sort_keys=True)}" for path, row in sorted(rows.items())]
    members = sorted((path, data) for path, data in bundle.files.items() if path != "gdr_manifest.json")
    lines += [f"{path}: {kept(data)}" for path, data in members]
    return lines + [f"{path} -> {target}" for path, target in sorted(bundle.links.items())]


def found(folder: Path) -> dict[str, list[str]]:
    """What each of the texts in bundles/ should be."""
    root = build(folder / "root")
    texts: dict[str, list[str]] = {}
    for name, arguments in (("plain.txt", []), ("anonymized.txt", ["--anonymize"])):
        out = folder / f"{name}.tar.gz"
        with contextlib.redirect_stdout(sys.stderr):
            assert main(["--root", str(root.folder), "-o", str(out), "--quiet", *arguments]) == 0
        texts[name] = [row.replace(str(folder), "FOLDER") for row in shown(Opened(out))]
    hidden = difflib.unified_diff(texts["plain.txt"], texts["anonymized.txt"], n=0, lineterm="")
    texts["anonymized.txt"] = [row for row in hidden if row.startswith("+")][1:]
    return texts


def test_all_of_it_is_as_it_should_be(tmp_path):
    for name, now in found(tmp_path).items():
        expected = (EXPECTED / name).read_text().splitlines()
        difference = "\n".join(difflib.unified_diff(expected, now, name, "now", n=0, lineterm=""))
        assert not difference, difference


if __name__ == "__main__":
    EXPECTED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name, lines in {**found(Path(scratch)), "table.txt": table()}.items():
            (EXPECTED / name).write_text("\n".join(lines) + "\n")
