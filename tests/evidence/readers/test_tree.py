"""Reading a directory that looks like a machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gdrkit.evidence import Command, EvidenceAbsent, EvidenceMissing, MissingReason, bundle, tree
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.target import open_host
from gdrkit.evidence.tree import DirectoryStore, open_tree
from tests.work import open_files, within

LSMOD = Command(("lsmod",), ("sos_commands/kernel/lsmod",))


def plant(root: Path, files: dict[str, str | bytes]) -> str:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content.encode() if isinstance(content, str) else content)
    return str(root)


def why_not(ask, *args) -> MissingReason:
    with pytest.raises(EvidenceMissing) as error:
        ask(*args)
    return error.value.missing.why


class TestLinks:
    """No link leads out of the root."""

    @pytest.fixture
    def host(self, tmp_path):
        outside = tmp_path / "outside"
        plant(outside, {"secret": "outside", "folder/secret": "outside"})
        root = tmp_path / "root"
        plant(root, {"etc/real": "inside", "outside/secret": "inside too"})
        for link, target in {
            "etc/relative": "real",
            "etc/absolute": "/etc/real",
            "etc/up": "../../../../../../etc/real",
            "etc/out": str(outside / "secret"),
            "etc/out-up": "../../outside/secret",
            "etc/dir": "../../outside",
            "etc/loop": "loop",
            "etc/a": "b/x",
            "etc/b": "a/x",
            "etc/dangling": "nowhere",
        }.items():
            (root / link).symlink_to(target)
        return open_host(str(root))

    @pytest.mark.parametrize("link", ["relative", "absolute", "up"])
    def test_links_inside_are_followed(self, host, link):
        assert host.read(f"etc/{link}") == b"inside"
        assert host.resolve(f"etc/{link}") == "etc/real"

    def test_links_that_point_outside_stay_inside(self, host):
        with pytest.raises(EvidenceMissing):
            host.read("etc/out")
        assert host.read("etc/out-up") == b"inside too"
        assert host.read("etc/dir/secret") == b"inside too"
        with pytest.raises(EvidenceMissing):
            host.read("etc/dir/folder/secret")

    def test_paths_with_dots_stay_inside(self, host):
        for path in ("../outside/secret", "etc/../../outside/secret", "etc/dir/../../outside/secret"):
            assert host.read(path) == b"inside too"
        assert host.read("../../etc/./real") == b"inside"

    def test_loops_end(self, host):
        for link in ("loop", "a", "b"):
            with pytest.raises(EvidenceMissing):
                host.read(f"etc/{link}")

    def test_a_dangling_link_resolves_to_its_target(self, host):
        assert host.resolve("etc/dangling") == "etc/nowhere"

    def test_a_folder_replaced_by_a_link_during_the_read_is_detected(self, tmp_path, host):
        """O_NOFOLLOW does not cover this race."""
        (tmp_path / "root" / "var").mkdir()
        (tmp_path / "root" / "var" / "secret").write_text("inside")
        assert host.read("var/secret") == b"inside"
        (tmp_path / "root" / "var").rename(tmp_path / "root" / "gone")
        (tmp_path / "root" / "var").symlink_to(tmp_path / "outside")
        with pytest.raises(EvidenceMissing):
            host.read("var/secret")


def test_no_device_or_pipe_is_opened(tmp_path):
    plant(tmp_path, {"etc/x": ""})
    os.mkfifo(tmp_path / "etc" / "pipe")
    host = open_host(str(tmp_path))

    assert why_not(host.read, "etc/pipe") is MissingReason.UNDECIDED
    assert why_not(host.read, "etc") is MissingReason.UNDECIDED
    assert host.exists("etc/pipe")


class TestMissingPaths:
    def test_in_a_tree_of_unknown_origin_they_are_not_collected(self, tmp_path):
        host = open_host(plant(tmp_path, {"etc/os-release": "ID=debian"}))

        assert why_not(host.read, "proc/modules") is MissingReason.NOT_COLLECTED
        assert why_not(host.list, "sys/class/infiniband") is MissingReason.NOT_COLLECTED
        assert why_not(host.exists, "proc/modules") is MissingReason.NOT_COLLECTED

    def test_below_a_completely_copied_folder_they_are_absent(self, tmp_path):
        host = open_host(plant(tmp_path, {"etc/modprobe.d/a.conf": "", "lib/modules/6.1/modules.dep": ""}))

        assert not host.exists("etc/modprobe.d/b.conf")
        assert why_not(host.read, "lib/modules/6.1/updates/dkms/nvidia.ko") is MissingReason.ABSENT
        assert why_not(host.read, "lib/modules/6.2/modules.dep") is MissingReason.NOT_COLLECTED
        assert why_not(host.read, "etc/modules-load.d/x.conf") is MissingReason.NOT_COLLECTED

    def test_a_link_counts_as_what_it_leads_to(self, tmp_path):
        """Collectors copy a folder with its links, but not what the links of it lead to."""
        plant(tmp_path, {"etc/modprobe.d/a.conf": ""})
        (tmp_path / "etc/modprobe.d/link.conf").symlink_to("/opt/vendor.conf")
        (tmp_path / "to-etc").symlink_to("etc")
        host = open_host(str(tmp_path))

        assert why_not(host.read, "etc/modprobe.d/link.conf") is MissingReason.NOT_COLLECTED
        assert why_not(host.exists, "etc/modprobe.d/link.conf") is MissingReason.NOT_COLLECTED
        assert why_not(host.read, "to-etc/modprobe.d/none.conf") is MissingReason.ABSENT

    def test_a_module_that_the_index_lists_is_not_absent(self, tmp_path):
        index = "updates/dkms/nvidia.ko: kernel/drivers/video/video.ko\n"
        host = open_host(plant(tmp_path, {"lib/modules/6.1/modules.dep": index}))

        assert why_not(host.read, "lib/modules/6.1/updates/dkms/nvidia.ko") is MissingReason.NOT_COLLECTED
        assert why_not(host.read, "lib/modules/6.1/updates/dkms/nvidia-peermem.ko") is MissingReason.ABSENT

    def test_on_a_mounted_root_with_proc_they_are_absent(self, tmp_path):
        host = open_host(plant(tmp_path, {"proc/1/status": "", "etc/os-release": ""}))

        assert host.source == "tree"
        assert why_not(host.read, "sys/class/infiniband/x") is MissingReason.ABSENT
        assert not host.exists("proc/modules")

    def test_below_an_empty_mount_point_they_are_not_absent(self, tmp_path):
        plant(tmp_path, {"proc/1/status": ""})
        (tmp_path / "sys").mkdir()
        host = open_host(str(tmp_path))

        assert why_not(host.exists, "sys/module/nvidia") is MissingReason.NOT_COLLECTED
        assert why_not(host.list, "sys") is MissingReason.NOT_COLLECTED

    def test_a_sosreport_with_process_1_is_not_a_live_root(self, tmp_path):
        """sos copies parts of /proc/[0-9]*: report/plugins/process.py."""
        files = {"proc/1/smaps": "", "sos_commands/kernel/dmesg": "x", "sos_logs/sos.log": ""}
        host = open_host(plant(tmp_path, files))

        assert host.source == "sosreport"
        assert why_not(host.read, "proc/modules") is MissingReason.NOT_COLLECTED

    def test_a_sosreport_has_the_index_of_modules_but_no_modules(self, tmp_path):
        files = {"lib/modules/6.1/modules.dep": "", "sos_commands/kernel/dmesg": "x", "version.txt": ""}
        host = open_host(plant(tmp_path, files))

        assert why_not(host.read, "lib/modules/6.1/updates/nvidia.ko") is MissingReason.NOT_COLLECTED
        assert why_not(host.list, "lib/modules/6.1") is MissingReason.NOT_COLLECTED


class TestCommandsOfASosreport:
    def tree(self, root: Path, lsmod: str, code: int | None) -> str:
        plugins = {"kernel": {"commands": [{"filepath": "sos_commands/kernel/lsmod", "return_code": code}]}}
        manifest = json.dumps({"components": {"report": {"plugins": plugins}}})
        return plant(root, {"sos_commands/kernel/lsmod": lsmod, "sos_reports/manifest.json": manifest})

    def test_the_output_of_a_success_is_returned(self, tmp_path):
        assert open_host(self.tree(tmp_path, "Module Size\n", 0)).run(LSMOD) == b"Module Size\n"

    def test_an_exit_code_takes_precedence_over_the_text(self, tmp_path):
        with pytest.raises(EvidenceMissing) as error:
            open_host(self.tree(tmp_path, "something went wrong\n", 1)).run(LSMOD)

        assert error.value.missing.why is MissingReason.NOT_COLLECTED
        assert error.value.missing.ask == "lsmod (something went wrong)"

    @pytest.mark.parametrize(
        ("output", "quoted"),
        [("\n first line \nsecond\n", "first line"), (" " * 500 + "x" * 100, "x" * 12)],
    )
    def test_the_first_line_is_quoted_up_to_a_limit(self, tmp_path, output, quoted):
        with pytest.raises(EvidenceMissing) as error:
            open_host(self.tree(tmp_path, output, 1)).run(LSMOD)

        assert error.value.missing.ask == f"lsmod ({quoted})"

    def test_a_timeout_is_reported(self, tmp_path):
        assert (
            why_not(open_host(self.tree(tmp_path, "half a li", 124)).run, LSMOD) is MissingReason.TIMED_OUT
        )

    @pytest.mark.parametrize(
        "text",
        [
            "libkmod: ERROR ../libkmod/libkmod-module.c:1725 kmod_module_new_from_loaded: could not open "
            "/proc/modules: No such file or directory\nError: could not get list of modules: "
            "No such file or directory\n",
            "bash: lsmod: command not found\n",
            "EFI variables are not supported on this system\n",
            "\n",
            "",
        ],
    )
    def test_without_an_exit_code_error_messages_are_recognised(self, tmp_path, text):
        assert why_not(open_host(self.tree(tmp_path, text, None)).run, LSMOD) is MissingReason.NOT_COLLECTED

    def test_the_empty_output_of_a_success_is_returned(self, tmp_path):
        """dkms status prints nothing if no module is registered."""
        assert open_host(self.tree(tmp_path, "", 0)).run(LSMOD) == b""

    def test_a_log_that_quotes_an_error_message_is_a_log(self, tmp_path):
        text = "[    1.0] Linux version 6.1\n[    2.0] nvidia: Permission denied\n"
        assert open_host(self.tree(tmp_path, text, None)).run(LSMOD) == text.encode()

    def test_errors_of_modinfo_for_built_in_modules_are_removed(self, tmp_path):
        text = "modinfo: ERROR: Module vt not found.\nfilename: /x/nvidia.ko\n"
        modinfo = Command(("modinfo", "nvidia"), ("sos_commands/kernel/lsmod",))
        assert open_host(self.tree(tmp_path, text, 1)).run(modinfo) == b"filename: /x/nvidia.ko\n"

    def test_a_command_that_was_not_run_is_not_collected(self, tmp_path):
        host = open_host(self.tree(tmp_path, "x", 0))
        ibstat = Command(("ibstat",), ("sos_commands/infiniband/ibstat",))
        assert why_not(host.run, ibstat) is MissingReason.NOT_COLLECTED

    def test_with_a_damaged_manifest_the_output_is_used(self, tmp_path):
        root = self.tree(tmp_path, "Module Size\n", 1)
        (tmp_path / "sos_reports" / "manifest.json").write_text("{ not json")
        assert open_host(root).run(LSMOD) == b"Module Size\n"


class TestUnusable:
    def test_no_such_file(self, tmp_path):
        with pytest.raises(TargetError, match="no such file"):
            open_host(str(tmp_path / "nope"))

    def test_a_directory_of_something_else(self, tmp_path):
        (tmp_path / "holiday.jpg").touch()
        with pytest.raises(TargetError, match="no evidence of a node") as error:
            open_host(str(tmp_path))
        assert error.value.hint

    def test_a_directory_that_contains_only_the_tree_is_accepted(self, tmp_path):
        plant(tmp_path / "sosreport-x", {"sos_commands/kernel/lsmod": "Module\n", "version.txt": ""})
        assert open_host(str(tmp_path)).read("version.txt") == b""


class TestMissingSymlinkedFolders:
    def test_listing_a_missing_folder_is_absent(self, tmp_path):
        plant(tmp_path, {"etc/modprobe.d/x": ""})
        with pytest.raises(EvidenceAbsent):
            open_host(str(tmp_path)).list("etc/modprobe.d/sub")


def asked(ask, *args) -> tuple[str, str]:
    """What is missing, and the question about it."""
    with pytest.raises(EvidenceMissing) as error:
        ask(*args)
    return error.value.missing.source, error.value.missing.ask


def test_each_error_of_the_system_is_a_reason_for_its_path(tmp_path, monkeypatch):
    store = DirectoryStore(plant(tmp_path, {"etc/a": "text", "etc/b": "x" * (1 << 17)}))

    def refuses(name: str) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(os, name, refuse)

    assert [store.kind(path) for path in ("etc", "etc/a", "etc/b", "etc/c")] == [
        "folder",
        "file",
        "file",
        None,
    ]
    assert store.kind("etc/\0") is None and store.kind("etc/\udcff\ud800") is None
    assert bytes(store.read("etc/a")) == b"text"
    assert (len(store.read("etc/b")), type(store.read("etc/b").obj).__name__) == (1 << 17, "mmap")
    assert asked(store.names, "etc/a") == ("etc/a", "ls -ld /etc/a")
    assert asked(store.target, "etc/a") == ("etc/a", "ls -ld /etc/a (Invalid argument)")
    assert asked(store.read, "etc") == ("etc", "ls -ld /etc (a directory)")
    for name, ask in (("open", store.read), ("readlink", store.target), ("listdir", store.names)):
        with monkeypatch.context():
            refuses(name)
            assert asked(ask, "etc/a") == ("etc/a", "sudo cat /etc/a")
        monkeypatch.undo()
    refuses("lstat")
    assert asked(store.kind, "etc/d") == ("etc/d", "sudo cat /etc/d")


def test_a_file_that_was_moved_while_it_was_read_says_so(tmp_path):
    plant(tmp_path, {"root/var/secret": "inside", "other/secret": "outside"})
    store = DirectoryStore(str(tmp_path / "root"))
    assert store.kind("var/secret") == "file"
    (tmp_path / "root/var").rename(tmp_path / "gone")
    (tmp_path / "root/var").symlink_to(tmp_path / "other")
    question = "ls -ld /var/secret (it was moved while being read)"
    assert asked(store.read, "var/secret") == ("var/secret", question)


def test_a_file_that_became_a_pipe_or_a_link_is_not_read(tmp_path):
    """Its kind was asked for before: a pipe must not be waited for, and no link is followed."""
    store = DirectoryStore(plant(tmp_path, {"etc/pipe": "", "etc/link": "", "etc/other": "text"}))
    assert [store.kind(f"etc/{name}") for name in ("pipe", "link")] == ["file", "file"]
    for name in ("pipe", "link"):
        (tmp_path / "etc" / name).unlink()
    os.mkfifo(tmp_path / "etc/pipe")
    (tmp_path / "etc/link").symlink_to("other")
    before = open_files()
    with within(5):
        assert asked(store.read, "etc/pipe") == ("etc/pipe", "ls -ld /etc/pipe (not a regular file)")
    assert asked(store.read, "etc/link") == ("etc/link", "ls -ld /etc/link (symbolic link loop)")
    assert open_files() == before


def test_a_question_about_a_link_names_the_path_that_was_asked_for(tmp_path):
    plant(tmp_path, {"etc/a": "text"})
    (tmp_path / "etc/loop").symlink_to("loop")
    (tmp_path / "to-etc").symlink_to("etc")
    host = open_host(str(tmp_path))
    found = "ls -ld /to-etc/loop (symbolic link loop)"
    assert asked(host.read, "to-etc/loop") == ("to-etc/loop", found)


def test_a_file_is_read_up_to_a_limit(tmp_path, monkeypatch):
    """One that is mapped has none."""
    monkeypatch.setattr(bundle, "READ_LIMIT_BYTES", 1 << 20)
    host = open_host(plant(tmp_path, {"etc/a": bytes(1 << 20), "etc/b": bytes((1 << 20) + 1)}))
    assert host.read("etc/a") == bytes(1 << 20)
    assert asked(host.read, "etc/b") == ("etc/b", "cat /etc/b (larger than 1 MiB)")
    assert len(host.map("etc/b")) == (1 << 20) + 1


def test_names_are_sorted_and_printable(tmp_path):
    store = DirectoryStore(plant(tmp_path, {"etc/b": "", "etc/a": "", "etc/two\nlines": ""}))
    assert store.names("etc") == ("a", "b")


@pytest.mark.parametrize(
    ("folders", "files", "unmounted"),
    [
        (("proc", "sys"), (), True),
        (("proc",), ("sys/x",), False),
        (("sys",), (), False),
        ((), ("proc",), False),
    ],
)
def test_nothing_is_known_below_an_empty_mount_point(tmp_path, folders, files, unmounted):
    for name in folders:
        (tmp_path / name).mkdir()
    store = DirectoryStore(plant(tmp_path, dict.fromkeys(files, "")))
    assert store.unmounted("proc/x") is (unmounted or "proc" in folders)
    assert store.unmounted("sys/x") is (unmounted or "sys" in folders)
    assert not store.unmounted("proc") and not store.unmounted("procedure/x")


def test_one_folder_around_the_evidence_is_entered(tmp_path):
    plant(tmp_path, {"node1/etc/a": "text", "README": "text"})
    assert open_host(str(tmp_path)).read("etc/a") == b"text"
    plant(tmp_path, {"node2/etc/a": "text"})
    with pytest.raises(TargetError, match=f"^no evidence of a node in {tmp_path}$") as error:
        open_host(str(tmp_path))
    hint = "name a directory that contains etc, proc, sys or sos_commands, or a bundle from gdr collect"
    assert error.value.hint == f"{hint}; gdr fleet doctor takes a folder of bundles"


def test_a_link_around_the_evidence_is_not_entered(tmp_path):
    plant(tmp_path, {"away/etc/a": "text"})
    (tmp_path / "here").mkdir()
    (tmp_path / "here/node1").symlink_to(tmp_path / "away")
    with pytest.raises(TargetError, match=r"^no evidence of a node in"):
        open_host(str(tmp_path / "here"))


def test_a_folder_that_cannot_be_listed_says_why(tmp_path, monkeypatch):
    for number, hint in ((13, "run as root"), (5, "")):

        def refuse(*_: object, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "listdir", refuse)
        with pytest.raises(TargetError, match=f"^{tmp_path}: {os.strerror(number)}$") as error:
            open_tree(str(tmp_path))
        assert error.value.hint == hint


def test_the_limits():
    assert tree.SMALL_BYTES == 1 << 16
