"""Actions are checked before anything changes, and carried out once."""

from __future__ import annotations

import ast
import hashlib
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

import gdrkit
from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.executor import Executor, read_given, read_key
from gdrkit.repair.apply.journal import ActionDone, ActionIntent, Journal, new_run
from gdrkit.repair.apply.passwords import Passwords
from gdrkit.repair.apply.root_fs import RootFS
from gdrkit.repair.apply.signing import make_pair
from gdrkit.repair.platforms.action import Action, AskPerson, MakeKey, RemoveFile, SignModules, WriteFile
from tests.module_builder import build_module

MIB = 1 << 20
KEY = MakeKey(key="/keys/k", certificate="/keys/c", why="x")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree/keys").mkdir(parents=True)
    return tmp_path / "tree"


class Run:
    """A run whose actions are executed one by one."""

    def __init__(self, tree: Path) -> None:
        self.told: list[str] = []
        self.journal: Journal = new_run(RootFS(str(tree)), "20260101-000000")
        self.journal.open()
        self.executor = Executor(self.journal, Passwords(), self.told.append)

    def execute(self, action: Action, number: int = 0) -> None:
        self.executor.execute(0, number, action)


@pytest.fixture
def run(tree: Path) -> Run:
    return Run(tree)


def test_what_a_person_does_is_told_in_full(run):
    run.execute(AskPerson(what="apply this", content="a: 1\nb: 2\n", commands=("kubectl apply -f x",)))
    assert run.told == ["do this by hand: apply this", "  a: 1", "  b: 2", "  kubectl apply -f x"]
    assert run.journal.records == [
        ActionIntent(step=0, action=0),
        ActionDone(step=0, action=0, note="by hand"),
    ]


@pytest.mark.parametrize(("there", "missing"), [("/keys/k", "/keys/c"), ("/keys/c", "/keys/k")])
def test_half_of_a_key_pair_is_not_overwritten(run, tree, there, missing):
    Path(f"{tree}{there}").write_bytes(b"half")
    with pytest.raises(ApplyError) as caught:
        run.execute(KEY)
    assert str(caught.value) == f"{there} exists, but {missing} does not"
    assert caught.value.hint == "move it away, then run gdr fix --resume"
    assert (run.journal.records, Path(f"{tree}{there}").read_bytes()) == ([], b"half")


@pytest.mark.parametrize("linked", [(), ("k",), ("c",), ("k", "c")])
def test_a_pair_of_files_or_links_is_used_as_it_is(run, tree, linked):
    for name in ("k", "c"):
        if name in linked:
            (tree / name).write_bytes(b"mine")
            (tree / "keys" / name).symlink_to(f"../{name}")
        else:
            (tree / "keys" / name).write_bytes(b"mine")
    run.execute(KEY)
    assert [(tree / "keys" / name).read_bytes() for name in ("k", "c")] == [b"mine", b"mine"]
    assert {name for name in ("k", "c") if (tree / "keys" / name).is_symlink()} == set(linked)
    assert run.journal.records[-1] == ActionDone(
        step=0, action=0, after={"/keys/k": "", "/keys/c": ""}, note="the key already exists"
    )


def test_a_new_pair_is_private_and_public(run, tree):
    run.execute(KEY)
    modes = [(tree / "keys" / name).stat().st_mode & 0o777 for name in ("k", "c")]
    assert modes == [0o600, 0o644]
    assert run.journal.records[-1] == ActionDone(step=0, action=0, after={"/keys/k": "", "/keys/c": ""})


def signing(run: Run, tree: Path, content: bytes | None) -> SignModules:
    private, certificate = make_pair(None)
    (tree / "keys/k").write_bytes(private)
    (tree / "keys/k").chmod(0o600)
    (tree / "keys/c").write_bytes(certificate)
    if content is not None:
        (tree / "m.ko").write_bytes(content)
    return SignModules(paths=("/m.ko",), key="/keys/k", certificate="/keys/c", why="x")


def test_a_file_that_is_no_module_is_named_with_the_reason(run, tree):
    with pytest.raises(ApplyError) as caught:
        run.execute(signing(run, tree, b"no module"))
    assert str(caught.value) == "/m.ko: not a kernel module: no ELF header"
    assert (tree / "m.ko").read_bytes() == b"no module"


def test_a_module_that_is_gone_stops_the_run(run, tree):
    with pytest.raises(ApplyError) as caught:
        run.execute(signing(run, tree, None))
    assert (str(caught.value), caught.value.hint) == ("/m.ko is not a file", "run gdr fix again")
    assert run.journal.records == []


def test_a_module_is_signed_once(run, tree):
    action = signing(run, tree, build_module("m"))
    (tree / "m.ko").chmod(0o640)
    run.execute(action)
    run.execute(action)
    assert run.told == ["signed /m.ko"]
    assert (tree / "m.ko").stat().st_mode & 0o777 == 0o640
    assert [type(record) for record in run.journal.records] == [ActionIntent, ActionDone]


@pytest.mark.parametrize("free", [2 * 5 * MIB + 64 * MIB, 2 * 5 * MIB + 64 * MIB - 1])
def test_space_for_two_copies_and_64_mib_must_be_free(run, tree, monkeypatch, free):
    """One copy is the backup, the other the new file."""
    for name, size in (("a", 2 * MIB), ("b", 3 * MIB)):
        (tree / f"{name}.ko").write_bytes(bytes(size))
    action = signing(run, tree, None)
    action = SignModules(paths=("/a.ko", "/b.ko"), key=action.key, certificate=action.certificate, why="x")
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=free, f_frsize=1))
    with pytest.raises(ApplyError) as caught:
        run.execute(action)
    enough = free == 74 * MIB
    wanted = "/a.ko: not a kernel module" if enough else f"{run.journal.folder} has less than 74 MiB free"
    assert str(caught.value).startswith(wanted)
    assert enough or caught.value.hint == "free some space, then run gdr fix --resume"


def test_the_file_systems_of_the_files_count_too(run, tree, monkeypatch):
    (tree / "x").write_bytes(b"1")
    full = SimpleNamespace(f_bavail=1, f_frsize=64 * MIB)
    roomy = SimpleNamespace(f_bavail=3, f_frsize=64 * MIB)
    monkeypatch.setattr(os, "statvfs", lambda path: full if path == str(tree) else roomy)
    with pytest.raises(ApplyError, match=f"^{tree} has less than 64 MiB free$"):
        run.execute(RemoveFile(path="/x", why="x"))
    run.execute(RemoveFile(path="/none", why="nothing is copied, so nothing has to be free"))


def test_a_file_that_changed_since_the_plan_is_left_as_it_is(run, tree):
    (tree / "x").write_bytes(b"mine")
    planned = hashlib.sha256(b"planned").hexdigest()
    with pytest.raises(ApplyError) as caught:
        run.execute(WriteFile(path="/x", content="new", why="x", was=planned))
    assert (str(caught.value), caught.value.hint) == (
        "/x changed since the plan was made",
        "run gdr fix again",
    )
    assert ((tree / "x").read_bytes(), run.journal.records) == (b"mine", [])
    run.execute(WriteFile(path="/x", content="new", why="x", was=hashlib.sha256(b"mine").hexdigest()))
    assert (tree / "x").read_bytes() == b"new"


def test_new_folders_are_named_once_and_only_that_of_a_key_is_private(run, tree):
    run.execute(WriteFile(path="/etc/a/x", content="x", why="x"))
    run.execute(MakeKey(key="/var/keys/k", certificate="/var/keys/c", why="x"), 1)
    made = {record.folders for record in run.journal.records if isinstance(record, ActionIntent)}
    assert made == {("/etc", "/etc/a"), ("/var", "/var/keys")}
    modes = [(tree / name).stat().st_mode & 0o777 for name in ("etc", "etc/a", "var", "var/keys")]
    assert modes == [0o755, 0o755, 0o755, 0o700]


def test_a_folder_in_place_of_a_key_is_named(tree):
    with pytest.raises(ApplyError, match=r"not a regular file$"):
        read_given(RootFS(str(tree)), "/keys", "key")
    (tree / "loop").symlink_to("loop")
    with pytest.raises(ApplyError, match=r"^/loop: too many symbolic links$"):
        read_given(RootFS(str(tree)), "/loop", "key")
    with pytest.raises(ApplyError) as caught:
        read_given(RootFS(str(tree)), "/none", "certificate")
    assert (str(caught.value), caught.value.hint) == (
        "certificate not found: /none",
        "give the path of an existing file",
    )


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_key_of_its_owner_alone_is_read(tree, mode):
    (tree / "keys/own.key").write_bytes(b"key")
    (tree / "keys/own.key").chmod(mode)
    assert read_key(RootFS(str(tree)), "/keys/own.key") == b"key"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o620, 0o602, 0o440, 0o610, 0o601])
def test_a_key_that_its_group_or_others_can_use_is_refused_with_the_command_that_mends_it(tree, mode):
    (tree / "keys/own key").write_bytes(b"key")
    (tree / "keys/own key").chmod(mode)
    with pytest.raises(ApplyError) as caught:
        read_key(RootFS(str(tree)), "/keys/own key")
    assert (str(caught.value), caught.value.hint) == (
        "/keys/own key is accessible to users other than its owner",
        "chmod 600 '/keys/own key'",
    )


def test_every_secret_in_a_file_is_read_with_its_mode_checked():
    """The content of a key comes from `read_key`: nothing else asks for what is "key" by `read_given`."""
    found = [
        f"{path.name}: {ast.unparse(node)}"
        for path in Path(gdrkit.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("read_given")
    ]
    assert sorted(text for text in found if "certificate" not in text) == [
        "executor.py: read_given(root, path, 'key')"
    ]
