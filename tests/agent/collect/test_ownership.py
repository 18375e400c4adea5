"""Attacks of a local user on `sudo gdr collect`: files of root's must not come into the bundle."""

from __future__ import annotations

import operator
import os
import threading

import pytest

from gdrkit.agent.collect.ownership import NotTheirs, home_of, open_below
from gdrkit.agent.collect.tree import NAMES_LIMIT, Tree
from tests.agent.collect import machine

ALICE = 1000
HASH = "$6$salt$hash-of-root"
SETTINGS = "home/alice/.nccl.conf"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="files of two users can be made only by root")


@pytest.fixture
def root(tmp_path):
    """The machine, with a file that only root may read."""
    made = machine.build(tmp_path / "root")
    made.file("etc/shadow", f"NCCL_root:{HASH}:19000:0:99999:7:::\n")
    (made.folder / "etc/shadow").chmod(0o600)
    (made.folder / SETTINGS).unlink()
    return made


def given_to(user, *paths):
    for path in paths:
        os.chown(path, user, user, follow_symlinks=False)


def denied(bundle, path=SETTINGS):
    entry = bundle.manifest["files"][path]
    assert entry["status"] == "denied"
    assert HASH.encode() not in bundle.everything()
    assert path not in bundle.links
    return entry["why"]


@pytest.mark.parametrize(
    "target", ["/etc/shadow", "../../etc/shadow", "/home/alice/../../etc/shadow", "/etc/nccl.conf"]
)
def test_a_link_out_of_a_home_is_not_followed(collected, root, target):
    root.link(SETTINGS, target)

    assert denied(collected()) == "a link out of the home"


def test_a_link_out_of_roots_home_is_not_followed(collected, root):
    root.link("root/.nccl.conf", "/etc/shadow")

    assert denied(collected(), "root/.nccl.conf") == "a link out of the home"


def test_a_link_in_the_middle_of_a_path_is_not_followed(root):
    tree = Tree(str(root.folder))
    root.link("home/alice/.config", "/etc")

    with pytest.raises(NotTheirs, match="out of the home"):
        tree.resolve("home/alice/.config/shadow")


def test_a_link_inside_a_home_is_followed(collected, root):
    root.link(SETTINGS, "dotfiles/nccl.conf")
    root.file("home/alice/dotfiles/nccl.conf", "NCCL_DEBUG=INFO\n")

    assert collected().text("home/alice/dotfiles/nccl.conf") == "NCCL_DEBUG=INFO\n"


def test_a_home_that_the_administrator_has_moved_is_read(collected, root):
    (root.folder / "home/alice").rmdir()
    root.link("home/alice", "/data/alice")
    root.file("data/alice/.nccl.conf", "NCCL_DEBUG=INFO\n")

    assert collected().text("data/alice/.nccl.conf") == "NCCL_DEBUG=INFO\n"


def test_a_pipe_in_a_home_does_not_hold_the_collector(collected, root):
    os.mkfifo(root.folder / SETTINGS)

    assert SETTINGS not in collected().files


def test_a_pipe_in_the_place_of_a_library_does_not_hold_the_collector(collected, root):
    os.mkfifo(root.folder / "usr/lib/x86_64-linux-gnu/libnccl.so.2")

    assert collected().status("usr/lib/x86_64-linux-gnu/libnccl.so.2") == "unreadable"


@as_root
def test_a_file_of_root_in_a_home_is_not_read(collected, root):
    """A backup of root's, which its user has renamed: the folder is the user's to write."""
    root.file(SETTINGS, f"NCCL_X={HASH}\n")
    given_to(ALICE, root.folder / "home/alice")

    assert denied(collected()) == "in a home, but not a file of the home's owner"


@as_root
def test_a_hard_link_to_a_file_of_root_is_not_read(collected, root):
    """Where fs.protected_hardlinks is 0."""
    os.link(root.folder / "etc/shadow", root.folder / SETTINGS)
    given_to(ALICE, root.folder / "home/alice")

    assert denied(collected()) == "in a home, but not a file of the home's owner"


@as_root
@pytest.mark.parametrize("folder", ["usr/src/linux-6.1", "opt/conda", "srv/alice"])
def test_a_users_link_elsewhere_leads_only_to_files_of_that_user(collected, root, folder):
    """A build folder of a user's, to which a link of root's leads: `lib/modules/<release>/build`."""
    settings = f"{machine.MODULES}/build/.config"
    (root.folder / machine.MODULES / "build").unlink()
    root.link(f"{machine.MODULES}/build", f"/{folder}")
    root.link(f"{folder}/.config", "/etc/shadow")
    given_to(ALICE, root.folder / folder, root.folder / folder / ".config")

    assert "of a user" in denied(collected(), settings)


@as_root
def test_the_names_of_a_folder_of_root_are_not_listed_through_a_users_link(collected, root):
    root.file("root/plans/merger.txt")
    root.link("opt/conda/lib", "../../root/plans")
    given_to(ALICE, root.folder / "opt/conda", root.folder / "opt/conda/lib")

    bundle = collected()

    assert "merger.txt" not in str(bundle.manifest)
    assert bundle.manifest["files"]["opt/conda/lib"]["status"] == "denied"


@as_root
@pytest.mark.parametrize(("owner", "mode"), [(ALICE, 0o755), (0, 0o1777)])
def test_a_hard_link_in_a_folder_of_others_is_not_read(collected, root, owner, mode):
    settings = f"{machine.MODULES}/build/.config"
    (root.folder / machine.MODULES / "build").unlink()
    root.link(f"{machine.MODULES}/build", "/tmp/linux")
    (root.folder / "tmp/linux").mkdir(parents=True)
    os.link(root.folder / "etc/shadow", root.folder / "tmp/linux/.config")
    (root.folder / "tmp/linux").chmod(mode)
    given_to(owner, root.folder / "tmp/linux")

    bundle = collected()

    assert HASH.encode() not in bundle.everything()
    assert bundle.status("tmp/linux/.config") == "denied", settings


@as_root
def test_a_users_own_link_is_followed(collected, root):
    """A user's build folder, with a link to that user's file."""
    (root.folder / machine.MODULES / "build").unlink()
    root.link(f"{machine.MODULES}/build", "/srv/linux")
    root.file("srv/config-6.1", "CONFIG_PCI_P2PDMA=y\n")
    root.link("srv/linux/.config", "../config-6.1")
    names = ("srv/linux", "srv/linux/.config", "srv/config-6.1")
    given_to(ALICE, *(root.folder / name for name in names))

    assert collected().text("srv/config-6.1") == "CONFIG_PCI_P2PDMA=y\n"


@as_root
@pytest.mark.parametrize("call", ["os.readlink", "os.path.lexists", "os.lstat"])
def test_a_file_system_of_a_user_that_never_answers_does_not_hold_the_collector(root, monkeypatch, call):
    """A user's link leads into a mount of that user's (fuse) whose server sleeps."""
    root.link("srv/link", "/mnt/hung/file")
    root.file("mnt/hung/file", "x")
    given_to(ALICE, root.folder / "srv/link")
    hung, real = str(root.folder / "mnt/hung"), operator.attrgetter(call.removeprefix("os."))(os)
    released, answered = threading.Event(), []

    def answers(path, *arguments, **more):
        if str(path).startswith(hung):
            released.wait(60)
            answered.append(path)
        return real(path, *arguments, **more)

    monkeypatch.setattr(call, answers)
    tree = Tree(str(root.folder), limit_s=0.1)
    try:
        try:
            tree.read(tree.resolve("srv/link"), 10)
        except OSError as error:
            assert isinstance(error, (TimeoutError, NotTheirs))
        assert answered == []  # it did not wait for the file system
    finally:
        released.set()


def test_a_folder_that_becomes_a_link_before_the_file_is_opened_is_not_followed(root):
    """The user wins the race: between following the links and opening the file."""
    root.file("home/alice/settings/shadow", "mine")
    tree = Tree(str(root.folder))
    real = tree.resolve("home/alice/settings/shadow")
    (root.folder / "home/alice/settings").rename(root.folder / "home/alice/away")
    root.link("home/alice/settings", "/etc")

    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        tree.read(real, 100)
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        open_below(str(root.folder), real, os.O_RDONLY)


def test_proc_self_of_a_strangers_tree_leads_nowhere_else(root, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/status").write_text(HASH)
    root.link("proc/self", str(tmp_path / "outside"))

    with pytest.raises(OSError, match=r".+"):
        Tree(str(root.folder)).read("proc/self/status", 100)


def test_only_the_first_names_of_a_folder_are_read(root):
    folder = root.folder / "var/many"
    folder.mkdir(parents=True)
    for number in range(NAMES_LIMIT + 10):
        (folder / str(number)).touch()

    assert len(Tree(str(root.folder)).names("var/many")) == NAMES_LIMIT + 1


def test_which_paths_lie_in_a_home():
    assert home_of("home/alice/.nccl.conf") == "home/alice"
    assert home_of("root/.nccl.conf") == "root"
    assert home_of("home/alice") == home_of("home") == home_of("rootfs/x") == ""
