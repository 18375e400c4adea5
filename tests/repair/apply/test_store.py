"""What lies where the folders of journals should be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gdrkit.repair.apply import store
from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.root_fs import RootFS


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def root(tmp_path: Path) -> RootFS:
    (tmp_path / "tree").mkdir()
    return RootFS(str(tmp_path / "tree"))


@pytest.mark.parametrize("place", ["", "gdrkit", "gdrkit/fix"])
@pytest.mark.parametrize("create", [False, True])
def test_a_file_in_place_of_a_folder_is_named(root, state, place, create):
    path = state / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    with pytest.raises(ApplyError) as caught, store.folder(root, create=create):
        pass
    assert (str(caught.value), caught.value.hint) == (f"{path} is not a folder", "move it away")


@pytest.mark.parametrize("mode", [0o750, 0o755, 0o1777])
def test_a_folder_that_only_its_owner_can_change_holds_journals(root, state, mode):
    state.mkdir()
    state.chmod(mode)
    with store.folder(root, create=True):
        assert (state / "gdrkit/fix").is_dir()


@pytest.mark.parametrize("mode", [0o770, 0o720, 0o702, 0o777], ids=oct)
def test_a_folder_that_its_group_or_others_can_write_to_does_not(root, state, mode):
    state.mkdir()
    state.chmod(mode)
    with (
        pytest.raises(ApplyError, match="others can write to it: not safe"),
        store.folder(root, create=True),
    ):
        pass


def test_a_file_in_place_of_the_innermost_folder_is_named(root, state):
    path = Path(store.home(root))
    path.parent.mkdir(parents=True)
    path.touch()
    with pytest.raises(ApplyError, match=f"^{path} is not a folder$"), store.folder(root):
        pass


def test_a_folder_that_does_not_exist_is_created_only_if_that_is_wanted(root, state):
    with pytest.raises(FileNotFoundError) as caught, store.folder(root):
        pass
    assert str(state) in str(caught.value.filename)
    with store.folder(root, "run", create=True):
        pass
    path = Path(store.home(root))
    assert [folder.stat().st_mode & 0o777 for folder in (path / "run", path, path.parent, state)] == [
        0o700, 0o755, 0o755, 0o755,
    ]  # fmt: skip


@pytest.mark.parametrize(("number", "fits"), [(40, True), (41, False)])
def test_forty_links_of_our_own_are_followed(root, state, tmp_path, monkeypatch, number, fits):
    (tmp_path / "0").mkdir()
    for link in range(number):
        (tmp_path / str(link + 1)).symlink_to(str(link))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / str(number)))
    if fits:
        with store.folder(root, create=True):
            assert (tmp_path / "0/gdrkit/fix").is_dir()
    else:
        with pytest.raises(ApplyError, match=r"too many symbolic links$"), store.folder(root, create=True):
            pass


def test_a_relative_state_folder_is_ignored(root, monkeypatch, tmp_path):
    """XDG Base Directory Specification: such a path is invalid."""
    monkeypatch.setenv("HOME", str(tmp_path))
    homes = set()
    for value in ("", "state", "./state"):
        monkeypatch.setenv("XDG_STATE_HOME", value)
        homes.add(store.home(root))
    (only,) = homes
    assert only.startswith(f"{tmp_path}/.local/state/gdrkit/fix/") and len(only.rpartition("/")[2]) == 32


def test_a_file_of_our_own_is_for_its_owner_alone(tmp_path: Path):
    before = os.umask(0)
    at = os.open(tmp_path, os.O_RDONLY)
    try:
        os.close(store.open_file(at, "journal", os.O_WRONLY | os.O_CREAT))
    finally:
        os.close(at)
        os.umask(before)
    assert (tmp_path / "journal").stat().st_mode & 0o7777 == 0o600
