"""Device files with the number of another driver."""

import pytest

from tests.explain.explaining import codes, explained, open_lines

FILE = "$ ls -l {}\ncrw-rw-rw- 1 root root {}, 0 Mar  2 11:04 {}\n"
GDRDRV = FILE.format("/dev/gdrdrv", 226, "/dev/gdrdrv")
OTHERS = "195 nvidia\n226 drm\n235 nvidia-uvm\n"
SEARCH = "$ grep -E 'gdrdrv|drm|nvidia' /proc/devices\n"
END = "$ uptime\n"
STALE = {"device-file-stale"}


def test_the_number_of_another_driver_is_proven_with_both_names():
    found = explained(GDRDRV + SEARCH + OTHERS + END).answer

    assert (found.kind, found.cause, found.sureness) == ("cause", "device-file-stale", "certain")


def test_the_driver_under_another_number_is_enough():
    assert codes(GDRDRV + "$ grep gdrdrv /proc/devices\n239 gdrdrv\n" + END) == STALE


@pytest.mark.parametrize(
    ("path", "number", "driver"),
    [
        ("/dev/gdrdrv", 240, "gdrdrv"),
        ("/dev/nvidia-uvm", 235, "nvidia-uvm"),
        ("/dev/nvidia0", 195, "nvidia-frontend"),
        ("/dev/nvidiactl", 195, "nvidia"),
        ("/dev/nvidia-fs0", 500, "nvidia-fs"),
        ("/dev/nvidia-caps-imex-channels/channel0", 234, "nvidia-caps-imex-channels"),
        ("/dev/infiniband/uverbs3", 231, "infiniband_verbs"),
        ("/dev/infiniband/umad0", 231, "infiniband_mad"),
    ],
)
def test_each_file_has_the_name_of_its_own_driver(path: str, number: int, driver: str):
    shown = FILE.format(path, number, path) + "$ cat /proc/devices\nCharacter devices:\n"
    assert codes(f"{shown}{number} {driver}\n{END}") == set()
    assert codes(f"{shown}{number} drm\n{END}") == STALE


def test_a_listing_of_a_folder_names_files_without_their_folder():
    listed = "$ ls -l /dev/infiniband\ncrw-rw-rw- 1 root root 231, 192 Mar  2 11:04 uverbs0\n"
    assert codes(f"{listed}$ cat /proc/devices\n231 usbmon\n240 infiniband_verbs\n{END}") == STALE


@pytest.mark.parametrize(
    "text",
    [
        GDRDRV,
        SEARCH + OTHERS + END,
        GDRDRV + "$ grep nvidia /proc/devices\n195 nvidia\n" + END,  # 226 is not shown
        FILE.format("/dev/null", 226, "/dev/null") + SEARCH + OTHERS + END,
        GDRDRV + "$ cat /proc/devices\nBlock devices:\n226 drm\n" + END,
        GDRDRV + "226 drm\n",  # nothing says of what this is a line
    ],
)
def test_a_number_that_nothing_compares_shows_nothing(text: str):
    assert codes(text) == set()


def test_what_the_library_prints_may_be_either():
    line = (
        "ERR:  Error getting the gdrdrv driver version with ioctl error (errno=22). gdrdrv might be too old."
    )
    (shown,) = open_lines(line)
    assert shown.codes == ("gdrcopy-version-mismatch", "device-file-stale")
    assert explained(line).answer.cause == "gdrcopy-version-mismatch"
    assert explained(f"{line}\n{GDRDRV}{SEARCH}{OTHERS}{END}").answer.cause == "device-file-stale"
