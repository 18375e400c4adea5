"""Processes as /proc shows them: real ones, ended ones, those of another user, hostile names."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gdrkit.agent.probe import running_probe
from gdrkit.agent.running import children, libraries, processes
from tests.system_programs import program as installed

HOLDER = """
import mmap, os, socket, sys
device, library = sys.argv[1:]
held = [os.open(device, os.O_RDWR), os.open(device, os.O_RDWR)] if device else []
one, other = socket.socketpair()
file = open(library, "rb") if library else None
mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if file else None
if file:
    file.close()
print("ready", flush=True)
sys.stdin.read()
"""
IN_A_NAMESPACE = """
import ctypes, os, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x20000) or libc.mount(b"none", b"/", None, 0x44000, None):
    sys.exit(77)
if libc.mount(b"tmpfs", b"/dev", b"tmpfs", 0, None):
    sys.exit(77)
os.mkdir("/dev/infiniband")
try:
    os.mknod("/dev/infiniband/uverbs0", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    os.mknod("/dev/nvidia3", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
except PermissionError:
    sys.exit(77)
open("/dev/nvidia0", "w").close()  # only the name of one
fds = [os.open(name, os.O_RDWR) for name in ("/dev/infiniband/uverbs0", "/dev/nvidia3", "/dev/nvidia3",
                                             "/dev/nvidia0")]
print("ready", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def started(code: str, *arguments: str, **environment: str):
    """A process that runs until the end of the block."""
    child = subprocess.Popen(
        [sys.executable, "-I", "-c", code, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**environment, "PATH": "/usr/bin"},
    )  # fmt: skip
    try:
        line = child.stdout.readline()
        if child.poll() == 77 or not line:
            child.wait(20)
            pytest.skip("needs CAP_SYS_ADMIN and CAP_MKNOD: run the tests as root on a machine of their own")
        yield child
    finally:
        child.stdin.close()
        child.stdout.close()
        child.wait(20)


def rows(proc: str = "/proc") -> dict[int, dict]:
    found: list[dict] = []
    processes.scan(found.append, proc)
    return {row["pid"]: row for row in found if "pid" in row}


def test_a_process_is_found_by_the_devices_that_it_holds_and_not_by_names():
    """It has a mount namespace with device nodes of its own: two real ones, and a file that is called so."""
    with started(IN_A_NAMESPACE, NCCL_IB_HCA="mlx5_0", NCCL_API_KEY="x1", HOME="/root") as child:
        row = rows()[child.pid]

    assert row["devices"] == {"/dev/infiniband/uverbs0": 1, "/dev/nvidia3": 2}
    assert row["environment"] == {"NCCL_IB_HCA": "mlx5_0", "NCCL_API_KEY": "(dropped)"}
    assert row["uid"] == os.geteuid() and row["started"] > 0 and row["denied"] == []


def test_a_process_that_holds_no_device_has_no_row():
    with started(HOLDER, "/dev/null", "") as child:
        assert child.pid not in rows()
        assert processes._row(processes.Reader(child.pid, "/proc")) == (None, [])  # or no longer holds it


@pytest.mark.parametrize("most", [1, 2, 9])
def test_of_many_descriptors_the_first_are_looked_at(most: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(processes, "DESCRIPTORS", most)
    with started(IN_A_NAMESPACE) as child:
        reader = processes.Reader(child.pid, "/proc")
        descriptors = len(reader.names("fd"))
        looked: list[str] = []
        link = reader.link
        monkeypatch.setattr(reader, "link", lambda name: looked.append(name) or link(name))
        processes.held_by(reader)

    assert 2 < descriptors <= 9
    assert len(looked) == min(most, descriptors)
    assert (reader.denied == ["the rest of fd"]) is (most < descriptors)


def test_the_descriptors_of_a_process_are_devices_and_sockets():
    with started(HOLDER, "/dev/null", "") as child:
        held = processes.held_by(processes.Reader(child.pid, "/proc"))
        inodes = {one.stat().st_ino for one in Path(f"/proc/{child.pid}/fd").iterdir()}

    assert len(held.sockets) == 2 and set(held.sockets) <= inodes
    assert held.devices == {} and held.buffers == []


def test_a_version_is_that_of_the_mapped_file_even_if_it_was_deleted(tmp_path):
    """The environment's NCCL_VERSION is the image's: on two H200s it said 2.28.3 beside a 2.28.9."""
    library = tmp_path / "libnccl.so.2"
    library.write_bytes(b"\0NCCL version 2.28.9+cuda13.0\0" + bytes(5000))
    with started(HOLDER, "", str(library), NCCL_VERSION="2.28.3-1") as child:
        assert versions(child.pid) == ("2.28.9+cuda13.0", "")
        library.unlink()
        library.write_bytes(b"\0NCCL version 2.30.7+cuda13.0\0")
        version, why = versions(child.pid)

    assert version == "2.28.9+cuda13.0" if os.geteuid() == 0 else why


def test_another_file_under_the_same_name_tells_no_version(tmp_path, monkeypatch):
    """Without map_files, which only root may read, the path may lead to a newer file."""
    library = tmp_path / "libnccl.so.2"
    library.write_bytes(b"\0NCCL version 2.28.9+cuda13.0\0")
    with started(HOLDER, "", str(library)) as child:
        (found,) = mapped(child.pid)
        (tmp_path / "newer").write_bytes(b"\0NCCL version 2.30.7+cuda13.0\0")
        (tmp_path / "newer").replace(library)
        emitted: list[dict] = []
        libraries.emit_versions({found.key: (child.pid, found._replace(area="0-1"))}, emitted.append)

    assert emitted == [{"file": f"{found.key[0]:x}:{found.key[1]}", "version": "",
                        "why": "another file has this name now"}]  # fmt: skip


@pytest.mark.parametrize(("deleted", "version"), [(False, "2.28.9+cuda13.0"), (True, "")])
def test_the_path_of_a_deleted_library_is_not_read(tmp_path, deleted, version):
    """Without map_files. Its number may belong to a newer file meanwhile."""
    library = tmp_path / "libnccl.so.2"
    library.write_bytes(b"\0NCCL version 2.28.9+cuda13.0\0")
    key = (1, library.stat().st_ino)
    one = libraries.ProcessLibrary("libnccl.so.2", str(library), "0-1", key, deleted)
    emitted: list[dict] = []
    libraries.emit_versions({key: (os.getpid(), one)}, emitted.append)

    assert (emitted[0]["version"], bool(emitted[0]["why"])) == (version, deleted)


def test_a_pipe_in_place_of_a_library_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "libnccl.so.2")
    inode = (tmp_path / "libnccl.so.2").stat().st_ino
    library = libraries.ProcessLibrary(
        "libnccl.so.2", str(tmp_path / "libnccl.so.2"), "0-1", (1, inode), False
    )
    emitted: list[dict] = []

    libraries.emit_versions({library.key: (os.getpid(), library)}, emitted.append)

    assert emitted[0]["version"] == "" and emitted[0]["why"]


LINKED = """
#include <stdio.h>
const char *version = "NCCL version 2.28.9+cuda13.0";
int main(void) { puts(VERSION); fflush(stdout); return getchar() == 0; }
"""


@pytest.mark.parametrize(
    ("said", "expected"), [("version", [("libnccl.so", "2.28.9+cuda13.0")]), ('"none"', [])]
)
def test_nccl_is_found_in_a_program_that_it_is_linked_into(tmp_path, said, expected):
    """The compiler leaves out the version where nothing uses it: then it is a program like any other."""
    gcc = installed("gcc")
    source, program = tmp_path / "job.c", tmp_path / "job"
    text = LINKED.replace("VERSION", said)
    source.write_text(
        text if said == "version" else text.replace("const char *version", "static char *unused")
    )
    subprocess.run([gcc, "-O2", source, "-o", program], check=True)
    pipe = subprocess.PIPE
    with subprocess.Popen([program], stdin=pipe, stdout=pipe) as child:
        child.stdout.readline()
        found = libraries.mapped(Path(f"/proc/{child.pid}/maps").read_bytes(), str(program))
        rows: list[dict] = []
        libraries.emit_versions({one.key: (child.pid, one) for one in found}, rows.append)
        process = {"libraries": [one.as_row() for one in found]}
        running_probe._add_versions([process], rows)
        child.stdin.close()

    assert [(one["name"], one["version"]) for one in process["libraries"]] == expected


def test_the_file_that_stands_for_nccl_is_that_of_the_program_wherever_it_is_mapped():
    """Something else may lie below it."""
    maps = (
        b"10000-20000 r--s 00000000 00:01 7                          /memfd:low (deleted)\n"
        b"400000-401000 r--p 00000000 fe:00 1234                     /opt/a job\n"
        b"401000-402000 r-xp 00001000 fe:00 1234                     /opt/a job\n"
        b"402000-403000 r--p 00000000 fe:00 99                       /opt/not a job\n"
    )

    (found,) = libraries.mapped(maps, "/opt/a job")
    assert (found.path, found.area, found.key[1]) == ("/opt/a job", "400000-401000", 1234)
    assert libraries.mapped(maps, "/opt/other") == []


def mapped(pid: int) -> list[libraries.ProcessLibrary]:
    return libraries.mapped(Path(f"/proc/{pid}/maps").read_bytes())


def versions(pid: int) -> tuple[str, str]:
    (found,) = mapped(pid)
    emitted: list[dict] = []
    libraries.emit_versions({found.key: (pid, found)}, emitted.append)
    return emitted[0]["version"], emitted[0]["why"]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("7f00-7f01 r-xp 00000000 fd:01 77 /opt/x/libnccl.so.2.28.9", "libnccl.so.2.28.9"),
        (
            "7f00-7f01 r--p 00000000 00:2b 77                         /a b/libnccl-net-ofi.so",
            "libnccl-net-ofi.so",
        ),
        ("7f00-7f01 r--p 00000000 fd:01 77 /x/libmlx5.so.1.24.44.0 (deleted)", "libmlx5.so.1.24.44.0"),
        ("7f00-7f01 r--p 00000000 fd:01 77 /x/nvshmem_transport_ibgda.so.3", "nvshmem_transport_ibgda.so.3"),
        ("7f00-7f01 r--p 00000000 fd:01 77 /x/nvshmem_bootstrap_uid.so.3", "nvshmem_bootstrap_uid.so.3"),
        (
            "7f00-7f01 r-xp 00000000 fd:01 77 /x/deep_ep/_C.cpython-312-x86_64-linux-gnu.so",
            "_C.cpython-312-x86_64-linux-gnu.so",
        ),
        ("7f00-7f01 r-xp 00000000 fd:01 77 /x/torch/_C.cpython-312-x86_64-linux-gnu.so", None),
        ("7f00-7f01 r-xp 00000000 fd:01 77 /x/mooncake/engine.so", "engine.so"),
        ("7f00-7f01 r-xp 00000000 fd:01 77 /x/openssl/engine.so", None),
        ("7f00-7f01 r--p 00000000 fd:01 77 /x/libnccl.so.2/other", None),
        ("7f00-7f01 r--p 00000000 fd:01 77 /x/mylibnccl.so.2", None),
        ("7f00-7f01 r--p 00000000 00:00 0 ", None),
        ("nonsense /x/libnccl.so.2", None),
        ("7f00-7f01 r-xp 00000000 fd:01 77 /x/libnccl-notes.txt", None),
    ],
)
def test_a_line_of_maps_names_a_library_or_none(line, name):
    found = libraries.mapped(line.encode())

    assert [one.name for one in found] == ([name] if name else [])


def test_a_library_is_told_once_however_often_it_is_mapped():
    lines = b"".join(b"7f%02x-7fff r-xp 00000000 fd:01 77 /x/libucp.so.0.0.0\n" % n for n in range(9))

    (found,) = libraries.mapped(lines)
    assert (found.area, found.as_row()["version"]) == ("7f00-7fff", "0.0.0")


FDINFO = (
    b"pos:\t0\nflags:\t02000002\nmnt_id:\t11\nino:\t4\nsize:\t8388608\ncount:\t2\nexp_name:\tnv_dmabuf\n"
)
"""Of a descriptor that cuMemGetHandleForAddressRange gave: driver 580.159."""


def test_a_buffer_has_inode_size_references_and_exporter():
    assert processes.buffer_of(FDINFO) == {"ino": 4, "size": 8388608, "count": 2, "exp_name": "nv_dmabuf"}
    assert processes.buffer_of(b"size:\t-1\nino:\t" + b"9" * 99 + b"\nx") == {}


def process(
    proc: Path, pid: int, *, name: bytes = b"python3", fields: int = 50, environ: bytes = b""
) -> Path:
    """A process of a tree that stands for /proc."""
    folder = proc / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "stat").write_bytes(b"%d (%s) S " % (pid, name) + b"7 " * (fields - 3) + b"7\n")
    (folder / "cgroup").write_bytes(b"0::/x\n")
    (folder / "environ").write_bytes(environ)
    (folder / "maps").write_bytes(b"")
    return folder


def hold_a_buffer(folder: Path) -> None:
    (folder / "fd/6").symlink_to("/dmabuf:")
    (folder / "fdinfo").mkdir()
    (folder / "fdinfo/6").write_bytes(FDINFO)


@pytest.mark.parametrize("name", [b"a) R 1 (b", b"\x1b[2Jx", b"x\ny", b"\xff\xfe", b""])
def test_a_hostile_name_does_not_move_the_fields(tmp_path, name):
    """Any process chooses its name: prctl(2), PR_SET_NAME. The stream shows control characters as text."""
    hold_a_buffer(process(tmp_path, 5, name=name))

    assert rows(str(tmp_path))[5]["started"] == 7
    assert rows(str(tmp_path))[5]["name"] == name.decode("utf-8", "replace")


def test_a_process_of_each_other_network_namespace_is_told_if_it_has_a_gpu(tmp_path, monkeypatch):
    """Once for each; not one in this namespace, nor one whose namespace may not be read."""
    monkeypatch.setattr(processes, "_is_device", lambda path: True)
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/net").symlink_to("net:[1]")
    for pid, (name, held) in {
        1: ("net:[1]", "nvidia0"), 2: ("net:[2]", "infiniband/uverbs0"), 3: ("net:[2]", "nvidia3"),
        4: ("net:[2]", "nvidia3"), 5: ("", "nvidia3"), 6: ("net:[3]", "nvidiactl"),
    }.items():  # fmt: skip
        folder = process(tmp_path, pid)
        (folder / "fd/3").symlink_to(f"/dev/{held}")
        (folder / "ns").mkdir()
        if name:
            (folder / "ns/net").symlink_to(name)
    relay = children.Relay()
    processes.scan(lambda row: None, str(tmp_path), relay)

    assert [*relay.places(time.monotonic() + 30)] == [("net:[2]", 3), ("net:[3]", 6)]
    relay.close()


def test_a_process_that_ends_while_it_is_read_is_not_mixed_with_the_next_of_its_pid(tmp_path):
    for pid in (5, 6, 7):
        hold_a_buffer(process(tmp_path, pid))
    found: list[dict] = []

    def meanwhile(row: dict) -> None:
        """6 ends, and another process has its pid; 7 only ends."""
        found.append(row)
        (tmp_path / "6/stat").write_bytes(b"6 (other) S " + b"9 " * 48)
        (tmp_path / "7/stat").unlink(missing_ok=True)

    processes.scan(meanwhile, str(tmp_path))
    assert [row["pid"] for row in found if "pid" in row] == [5]


def test_processes_whose_descriptors_cannot_be_listed_are_named_with_the_error(tmp_path):
    """Root is refused nothing here: a file in place of the folder fails with another error. One that has
    ended is not named, and no more than four are."""
    for pid in range(1, 8):
        process(tmp_path, pid)
        shutil.rmtree(tmp_path / f"{pid}/fd")
        (tmp_path / f"{pid}/fd").write_text("")
    (tmp_path / "2/stat").unlink()
    found: list[dict] = []
    processes.scan(found.append, str(tmp_path))

    assert found[-1]["denied_processes"] == 7
    assert [(one["pid"], one["why"]) for one in found[-1]["unreadable"]] == [
        (pid, "ENOTDIR") for pid in (1, 3, 4, 5)
    ]


def test_a_stat_without_its_fields_is_that_of_a_process_that_has_ended(tmp_path):
    hold_a_buffer(process(tmp_path, 5, fields=10))

    assert rows(str(tmp_path)) == {}


def test_an_environment_of_a_million_variables_is_bounded():
    many = b"\0".join(b"NCCL_X%d=" % n + b",".join([b"v" * 50] * 9) for n in range(300))

    found = processes.switches(many)
    assert len(found) == 64 and set(map(len, found.values())) == {200}


@pytest.mark.parametrize(
    "entry",
    [
        b"PATH=/x",
        b"XNCCL_DEBUG=1",
        b"NCCL_",
        b"nccl_debug=1",
        b"=NCCL_DEBUG",
    ],
)
def test_other_variables_are_left_out(entry):
    assert processes.switches(b"NCCL_DEBUG=INFO\0" + entry) == {"NCCL_DEBUG": "INFO"}


@pytest.mark.parametrize(
    "entry", [b"NCCL_TOKEN=pw123456", b"UCX_PASSWORD=x", b"UCX_NET_DEVICES=https://user:pw123456@host/x"]
)
def test_of_what_may_be_a_secret_the_name_remains(entry):
    assert set(processes.switches(entry).values()) == {"(dropped)"}


def test_a_device_is_a_character_device(tmp_path):
    assert processes._is_device("/dev/null") and not processes._is_device(str(tmp_path))


def test_what_is_longer_than_the_limit_is_read_in_part_and_that_is_noted(tmp_path, monkeypatch):
    (tmp_path / "7/fd").mkdir(parents=True)
    (tmp_path / "7/maps").write_bytes(bytes(100))
    for number in range(3):
        (tmp_path / f"7/fd/{number}").symlink_to("/dev/null")
    whole, cut = (processes.Reader(7, str(tmp_path)) for _ in range(2))

    assert (len(whole.read("maps", 100)), len(cut.read("maps", 99))) == (100, 99)
    assert (whole.denied, cut.denied) == ([], ["the rest of maps"])
    processes.held_by(whole)
    monkeypatch.setattr(processes, "DESCRIPTORS", 2)
    processes.held_by(cut)
    assert (whole.denied, cut.denied) == ([], ["the rest of maps", "the rest of fd"])


def test_an_environment_may_be_longer_than_a_million_bytes(tmp_path):
    """Where the stack has no limit, it may have almost 6 MiB: Linux fs/exec.c."""
    long = b"X=" + b"x" * (5 << 20) + b"\0NCCL_P2P_DISABLE=1\0"
    hold_a_buffer(process(tmp_path, 5, environ=long))

    assert rows(str(tmp_path))[5]["environment"] == {"NCCL_P2P_DISABLE": "1"}


def test_what_cannot_be_read_is_named_although_it_is_not_denied(tmp_path):
    """A folder in the place of a file, as any other error; a process that has ended lacks nothing."""
    (tmp_path / "7/maps").mkdir(parents=True)
    alive, ended = (processes.Reader(pid, str(tmp_path)) for pid in (7, 8))
    for reader in (alive, ended):
        assert (reader.read("maps"), reader.names("fd"), reader.link("fd/0")) == (b"", [], "")

    assert (alive.denied, ended.denied) == (["maps"], [])


MAPS = b"""\
7f1e00000000-7f1e00400000 rw-s 00000000 00:1a 41 /dev/shm/nccl-1U6vHN (deleted)
7f1e00400000-7f1e00600000 rw-s 00400000 00:1a 41 /dev/shm/nccl-1U6vHN (deleted)
7f1e10000000-7f1e10001000 rw-s 00000000 00:01 9 /memfd:wayland (deleted)
7f1e20000000-7f1e20001000 r--s 00000000 00:1a 42 /dev/shm/read-only
7f1e30000000-7f1e30001000 rw-p 00000000 00:1a 43 /dev/shm/private
7f1e40000000-7f1e40001000 rw-s 00000000 00:01 44 /dev/zero (deleted)
7f1e50000000-7f1e50001000 rw-s 00000000 08:01 45 /data/dev/shm/file
"""


def test_memory_that_others_may_write_to_is_summed_by_file():
    """Not what it may only read, what is private to it, or what another file's name looks like. Names that
    programs gave are not kept."""
    assert [(row["file"], row["path"], row["bytes"]) for row in processes.shared_files(MAPS)] == [
        (f"{os.makedev(0, 0x1A):x}:41", "/dev/shm/nccl-", 6 << 20),
        ("1:9", "/memfd:", 4096),
    ]


def test_shared_files_have_a_limit():
    line = b"7f1e00000000-7f1e00001000 rw-s 00000000 00:1a %d /dev/shm/x\n"
    many = processes.shared_files(b"".join(line % n for n in range(300)) + line % 5)

    assert len(many) == 256 and many[5]["bytes"] == 2 * 4096
