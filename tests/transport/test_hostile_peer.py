"""A peer that has the key and names files of others as its memory, and strangers who take descriptors."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from gdrkit.transport import connect, generate_key
from gdrkit.transport.errors import PathUnavailable
from gdrkit.transport.shared_file import FOLDER, SharedFile, open_file


def named(descriptor: int) -> str:
    found = os.fstat(descriptor)
    return f"/proc/{os.getpid()}/fd/{descriptor}?{found.st_dev}.{found.st_ino}"


def test_the_memory_of_the_other_side_is_opened():
    file = SharedFile(anonymous=True)
    opened = open_file(file.path)
    try:
        assert os.path.sameopenfile(opened, file.descriptor)
    finally:
        os.close(opened)
        file.unlink()


@pytest.mark.parametrize("folder", ["/var/tmp", FOLDER])  # tmp_path may be in memory too
@pytest.mark.parametrize("deleted", [False, True])
def test_a_file_that_some_process_has_open_is_not_taken_for_memory(folder, deleted):
    """The peer of root could have root write into any file that is open anywhere on the machine."""
    path = os.path.join(folder, f"gdrkit-victim-{os.getpid()}")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        if deleted:
            os.unlink(path)
        if deleted and folder == FOLDER:
            os.fchown(descriptor, 65534, 65534) if os.geteuid() == 0 else pytest.skip("needs root")
        elif deleted and os.fstat(descriptor).st_dev == os.stat(FOLDER).st_dev:
            pytest.skip("needs /var/tmp on a disk")
        with pytest.raises(PathUnavailable, match="is not the other side's memory"):
            open_file(named(descriptor))
    finally:
        os.close(descriptor)
        if not deleted:
            os.unlink(path)


def test_a_number_without_end_is_no_name_of_memory():
    with pytest.raises(PathUnavailable, match="not the name of a ring or a window"):
        open_file(f"/proc/1/fd/1?{'9' * 5000}.1")


_LISTENER = """
import resource, sys
from gdrkit.transport import listen
with listen("127.0.0.1", key=bytes.fromhex(sys.argv[1]), paths=("tcp",)) as listener:
    print(listener.address[1], flush=True)
    resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
    with listener.accept(30) as connection:
        print("accepted", flush=True)
"""


def test_strangers_who_take_all_descriptors_do_not_shut_out_the_peer():
    key = generate_key()
    with subprocess.Popen(
        [sys.executable, "-c", _LISTENER, key.hex()], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        port = int(child.stdout.readline())
        strangers = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
        try:
            with connect("127.0.0.1", port, key=key, paths=("tcp",), timeout=20):
                assert child.stdout.readline() == "accepted\n"
        finally:
            for stranger in strangers:
                stranger.close()
            child.wait(40)
    assert child.returncode == 0
