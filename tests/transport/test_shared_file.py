"""Memory that another process opens by a name, and names that are not of such memory."""

from __future__ import annotations

import os
import re
import stat

import pytest

from gdrkit.transport.errors import PathUnavailable
from gdrkit.transport.shared_file import SharedFile, open_file, pid_namespace, remove


def is_closed_on_exec(descriptor: int) -> bool:
    return not os.get_inheritable(descriptor)


def test_a_named_file_is_this_users_alone_until_it_is_unlinked(tmp_path):
    file = SharedFile(str(tmp_path))
    assert re.fullmatch(rf"{tmp_path}/gdrkit-[0-9a-f]{{32}}", file.path)
    found = os.stat(file.path)
    assert (stat.S_IMODE(found.st_mode), found.st_nlink) == (0o600, 1)
    assert is_closed_on_exec(file.descriptor)
    descriptor = file.descriptor
    for _ in range(2):
        file.unlink()
        assert not os.path.exists(file.path) and file.descriptor == -1
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_unlinking_closes_once(tmp_path):
    """The number may be another file's by then."""
    for anonymous in (False, True):
        file = SharedFile(str(tmp_path), anonymous=anonymous)
        number = file.descriptor
        file.unlink()
        other = os.open(tmp_path, os.O_RDONLY)
        os.dup2(other, number)
        file.unlink()
        assert os.path.sameopenfile(number, other)
        for kept in {number, other}:
            os.close(kept)


def test_a_file_without_a_name_is_opened_through_its_process(tmp_path):
    file = SharedFile(anonymous=True)
    found = os.fstat(file.descriptor)
    link = f"/proc/{os.getpid()}/fd/{file.descriptor}"
    assert file.path == f"{link}?{found.st_dev}.{found.st_ino}"
    assert (stat.S_IMODE(found.st_mode), found.st_nlink) == (0o600, 0)
    assert is_closed_on_exec(file.descriptor)
    opened = open_file(file.path)
    os.pwrite(opened, b"shared", 0)
    assert os.pread(file.descriptor, 6, 0) == b"shared"
    assert is_closed_on_exec(opened)
    os.close(opened)
    file.unlink()
    with pytest.raises(PathUnavailable):
        open_file(file.path)


def test_a_folder_without_such_files_gives_a_named_one():
    """/proc has no O_TMPFILE: open(2), EOPNOTSUPP. It has no new files either, which is the reason given."""
    with pytest.raises(PathUnavailable, match=r"^/proc: "):
        SharedFile("/proc", anonymous=True)
    with pytest.raises(PathUnavailable, match=r"^/nowhere: No such file or directory$"):
        SharedFile("/nowhere")


def test_a_named_file_is_opened_by_its_name():
    file = SharedFile()
    opened = open_file(file.path)
    os.pwrite(opened, b"shared", 0)
    assert os.pread(file.descriptor, 6, 0) == b"shared"
    assert is_closed_on_exec(opened)
    os.close(opened)
    file.unlink()
    with pytest.raises(PathUnavailable, match=rf"^{file.path}: No such file or directory$"):
        open_file(file.path)


def test_a_link_in_place_of_a_named_file_is_not_followed(tmp_path):
    victim, name = tmp_path / "victim", f"/dev/shm/gdrkit-link-{os.getpid()}"
    victim.write_text("")
    os.symlink(victim, name)
    try:
        with pytest.raises(PathUnavailable, match=rf"^{name}: Too many levels of symbolic links$"):
            open_file(name)
    finally:
        os.unlink(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/dev/shm/gdrkit-",
        "/dev/shm/gdrkit-../../etc/passwd",
        "/dev/shm/other",
        "/dev/shm/gdrkit-a\n",
        "/proc/0/fd/1?1.1",
        "/proc/1/fd/1?1.1\n",
        "/proc/self/fd/1?1.1",
        "/proc/1/fd/1",
        "/etc/passwd",
    ],
)
def test_any_other_name_is_refused_unopened(name):
    with pytest.raises(PathUnavailable) as caught:
        open_file(name)
    assert str(caught.value) == f"not the name of a ring or a window: {name}"


@pytest.mark.parametrize("other", [(1, 0), (0, 1)])
def test_the_memory_must_be_the_one_that_was_named(other):
    """In another PID namespace the same link may be another file."""
    file, second = SharedFile(anonymous=True), SharedFile(anonymous=True)
    found = os.fstat(file.descriptor)
    link = file.path.partition("?")[0]
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(PathUnavailable, match=rf"^{link} is not the other side's memory$"):
        open_file(f"{link}?{found.st_dev + other[0]}.{found.st_ino + other[1]}")
    assert len(os.listdir("/proc/self/fd")) == before
    file.unlink(), second.unlink()


def test_memory_that_still_has_a_name_is_not_opened_through_a_process():
    file = SharedFile()
    found = os.fstat(file.descriptor)
    link = f"/proc/{os.getpid()}/fd/{file.descriptor}"
    with pytest.raises(PathUnavailable, match=rf"^{link} is not the other side's memory$"):
        open_file(f"{link}?{found.st_dev}.{found.st_ino}")
    file.unlink()


def test_something_else_than_a_file_is_not_opened():
    """A pipe whose device and inode are right."""
    ends = os.pipe()
    found = os.fstat(ends[0])
    link = f"/proc/{os.getpid()}/fd/{ends[0]}"
    with pytest.raises(PathUnavailable, match=rf"^{link} is not the other side's memory$"):
        open_file(f"{link}?{found.st_dev}.{found.st_ino}")
    for end in ends:
        os.close(end)


def test_a_name_is_removed_once_and_only_if_it_is_a_files(tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    for _ in range(2):
        remove(str(path))
        assert not path.exists()
    remove("/proc/1/fd/0?1.2")
    with pytest.raises(OSError):
        remove(str(tmp_path))


def test_the_pid_namespace_of_this_process():
    assert pid_namespace() == os.readlink(f"/proc/{os.getpid()}/ns/pid")
