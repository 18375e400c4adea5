"""What is published: a wheel and a source distribution, which install and run on every Python here."""

from __future__ import annotations

import email
import functools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from pathlib import Path

import pytest
from packaging.licenses import canonicalize_license_expression
from packaging.metadata import Metadata
from tools.pin import RUN, pins
from tools.pyz import build, tracked
from tools.sbom import bill
from tools.wheels import MINORS, WHEELS
from trove_classifiers import classifiers

from tests.system_programs import IN_CI, found
from tests.test_links import anchors
from tests.test_linters import ROOT, committed
from tests.unpacked import unpack
from tools import pyz as one_file

BUNDLE = ROOT / "tests/evidence/h200-collected/bundle.tar.gz"
FOREIGN = ("gdr.pyz", "other-1.0-py3-none-any.whl", "node17.tar.gz", "src/gdrkit/__pycache__/x.pyc", ".env")
"""What may lie in a checkout and is not published: built files, another's package, a node's evidence."""


def built(source: Path, folder: Path) -> tuple[Path, Path]:
    """The wheel and the source distribution of a source tree, built without network."""
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    run = subprocess.run(command, cwd=source, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return both_in(folder)


def both_in(folder: Path) -> tuple[Path, Path]:
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="session")
def package(made_once, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Both, of a copy of what is committed and of files that are not."""

    def fill(folder: Path) -> None:
        source = tmp_path_factory.mktemp("checkout")
        for path in (*committed(), *map(Path, FOREIGN)):
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            if str(path) in FOREIGN:
                (source / path).write_text("foreign")
            else:
                shutil.copy(ROOT / path, source / path, follow_symlinks=False)
        built(source, folder)

    return both_in(made_once("dist", fill))


def test_what_the_tests_share_is_made_once_and_again_after_a_failure(made_once):
    found = []

    def fill(folder: Path) -> None:
        found.append([*folder.iterdir()])
        (folder / "part").touch()
        if len(found) == 1:
            raise OSError("disk full")

    with pytest.raises(OSError):
        made_once("made-once", fill)
    for _ in range(2):
        assert [path.name for path in made_once("made-once", fill).iterdir()] == ["part"]
    assert found == [[], []]


def files_of(sdist: Path) -> set[str]:
    with tarfile.open(sdist) as tar:
        return {member.name.partition("/")[2] for member in tar if not member.isdir()}


def metadata_of(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return archive.read(name)


def metadata(wheel: Path) -> Message:
    return email.message_from_bytes(metadata_of(wheel))


def test_the_source_distribution_is_what_is_committed(package):
    """So its tests run, and no other file of a checkout is published."""
    assert files_of(package[1]) - {"PKG-INFO"} == {str(path) for path in committed()}


def test_the_wheel_has_the_package_and_nothing_else(package):
    with zipfile.ZipFile(package[0]) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    sources = {str(path.relative_to("src")) for path in committed() if path.parts[0] == "src"}
    assert names == sources and "gdrkit/py.typed" in names


def test_the_wheel_has_the_bill_of_what_it_runs_with(package):
    """PEP 770. `python -m tools.sbom` writes it from the pins."""
    with zipfile.ZipFile(package[0]) as archive:
        (name,) = (name for name in archive.namelist() if "/sboms/" in name)
        shipped = archive.read(name).decode()
    assert shipped == bill()
    parts = {(part["name"], part["version"]) for part in json.loads(shipped)["components"]}
    assert parts == {tuple(pin.partition(" ")[0].split("==")) for pin in pins(RUN.read_text())}


def test_both_built_from_the_source_distribution_are_the_same_to_the_byte(package, tmp_path):
    wheel, sdist = package
    with tarfile.open(sdist) as tar:
        unpack(tar, tmp_path)
    again, and_source = built(tmp_path / sdist.name.removesuffix(".tar.gz"), tmp_path / "dist")
    assert again.read_bytes() == wheel.read_bytes()
    assert and_source.read_bytes() == sdist.read_bytes()


def test_the_metadata_is_valid_and_complete(package):
    parsed = Metadata.from_email(metadata_of(package[0]), validate=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert parsed.project_urls == project["urls"]
    assert {"Source", "Documentation", "Changelog", "Issues"} <= set(project["urls"])
    assert canonicalize_license_expression(parsed.license_expression) == "Apache-2.0"
    assert parsed.license_files == ["LICENSE"] and set(parsed.classifiers) <= classifiers
    minors = {row.rpartition(".")[2] for row in parsed.classifiers if re.search(r":: 3\.\d+$", row)}
    assert minors == {str(minor) for minor in MINORS}
    assert str(parsed.requires_python) == f">=3.{MINORS[0]}"


def test_every_link_of_the_description_leads_to_a_file_of_this_version_in_the_repository(package):
    """A package index shows the page without the files beside it."""
    about = metadata(package[0])
    source = dict(row.split(", ") for row in about.get_all("Project-URL"))["Source"]
    links = re.findall(r"\]\(([^)\s]+)\)", about.get_payload())
    assert len(links) > 10
    for link in links:
        found = re.fullmatch(rf"{re.escape(source)}/(?:blob|raw)/v{about['Version']}/([^#]+)#?(.*)", link)
        assert found and (ROOT / found[1]).is_file(), link
        assert not found[2] or found[2] in anchors(ROOT / found[1]), link


@functools.cache
def pythons() -> dict[str, Path]:
    """A Python of each minor version that gdr supports: on PATH, of the system, of pyenv and of uv."""
    home = Path.home()
    folders = [
        *map(Path, os.environ["PATH"].split(os.pathsep)),
        Path("/usr/bin"),
        *sorted((home / ".pyenv/versions").glob("*/bin")),
        *sorted((home / ".local/share/uv/python").glob("*/bin")),
    ]
    found = {}
    for name in (f"python3.{minor}" for minor in MINORS):
        here = [python for folder in folders if (python := folder / name).exists() and is_whole(python)]
        if here:
            found[name] = here[0]
    return found


def is_whole(python: Path) -> bool:
    """Whether it is an interpreter, not a stand-in for one that is not installed, and of no environment."""
    asked = "import sys, venv, ensurepip; sys.exit(sys.prefix != sys.base_prefix)"
    return subprocess.run([python, "-I", "-c", asked], capture_output=True).returncode == 0


def test_the_python_of_these_tests_has_a_sibling_to_install_for():
    """Else the test below knows nothing."""
    assert pythons() or not IN_CI


@pytest.fixture(scope="session")
def pip(made_once) -> list[str | Path]:
    """The command of a pip that installs into other environments too; the newest knows all older Pythons."""

    def fill(folder: Path) -> None:
        subprocess.run([[*pythons().values()][-1], "-m", "venv", folder], check=True)

    return [made_once("pip", fill) / "bin/python", "-m", "pip"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [f"python3.{minor}" for minor in MINORS])
def test_the_wheel_runs_in_a_clean_environment_outside_the_repository(name, package, request, tmp_path):
    if (python := pythons().get(name)) is None:
        pytest.skip(f"no {name} here")
    if not WHEELS.is_dir():
        assert not IN_CI
        pytest.skip("run: python -m tools.wheels")
    environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(tmp_path)}

    def run(*words: str | Path) -> str:
        command = [str(word) for word in words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode in (0, 2, 3) and "Traceback" not in done.stderr, done.stderr
        return done.stdout

    run(python, "-m", "venv", "--without-pip", "venv")
    bin_ = tmp_path / "venv/bin"
    words = ["install", "--quiet", "--no-compile", "--no-index", "--find-links"]
    pip = request.getfixturevalue("pip")
    run(*pip, "--python", bin_ / "python", *words, WHEELS, package[0])
    version = metadata(package[0])["Version"]
    assert run(bin_ / "gdr", "--version") == run(bin_ / "python", "-m", "gdrkit", "--version")
    assert run(bin_ / "gdr", "--version") == f"gdr {version}\n"
    report = json.loads(run(bin_ / "gdr", "doctor", BUNDLE, "--json"))
    assert report["schema"] == "gdrkit.report/1" and report["verdict"]["state"]
    run(bin_ / "gdr", "collect", "--quiet", "--no-probe", "-o", "node.tar.gz")
    with tarfile.open(tmp_path / "node.tar.gz") as bundle:
        assert any(member.name.endswith("manifest.json") for member in bundle)
    where = run(bin_ / "python", "-c", "import gdrkit; print(gdrkit.__file__)")
    assert where.startswith(str(tmp_path))


@pytest.fixture(scope="session")
def pyz(made_once) -> Path:
    """The one file, of the wheels that are here: for this processor."""
    if not WHEELS.is_dir():
        assert not IN_CI
        pytest.skip("run: python -m tools.wheels")

    def fill(folder: Path) -> None:
        build(folder / "gdr.pyz", (platform.machine(),), WHEELS)

    return made_once("pyz", fill) / "gdr.pyz"


@pytest.mark.slow
@pytest.mark.parametrize("name", [f"python3.{minor}" for minor in MINORS])
def test_the_one_file_runs_on_every_python_and_starts_as_an_environment(name, pyz, tmp_path):
    if (python := pythons().get(name)) is None:
        pytest.skip(f"no {name} here")
    only = tmp_path / "bin"
    only.mkdir()
    (only / name).symlink_to(python)
    environment = {"PATH": f"{only}:/bin", "HOME": str(tmp_path), "PEX_PYTHON_PATH": str(only)}
    for _ in range(2):
        run = subprocess.run([pyz, "--version"], env=environment, capture_output=True, text=True)
        assert run.returncode == 0 and run.stdout.startswith("gdr "), run.stderr
    report = subprocess.run(
        [pyz, "doctor", BUNDLE, "--json"], env=environment, capture_output=True, text=True
    )
    assert json.loads(report.stdout)["schema"] == "gdrkit.report/1"
    (used,) = (tmp_path / ".cache/pex/venvs").glob("*/*/*/bin/python")
    assert used.resolve().name == name


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The committed files elsewhere, for their owner alone, and files beside them that git does not know."""
    git = found("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("needs a checkout, and git: sudo apt install git")
    source = tracked(ROOT, tmp_path / "checkout")
    for words in (("init", "--quiet"), ("add", "--all")):
        subprocess.run([git, *words], cwd=source, check=True)
    for path in (source / "src").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    for name in ("notes.txt", ".env", "private.py", "private/__init__.py"):
        (source / "src/gdrkit" / name).parent.mkdir(exist_ok=True)
        (source / "src/gdrkit" / name).write_text("SECRET = 1")
    return source


def test_what_git_does_not_know_is_no_part_of_the_one_file(checkout, tmp_path):
    copy = tracked(checkout, tmp_path / "copy")
    names = {path.relative_to(copy) for path in copy.rglob("*") if not path.is_dir()}
    assert names == set(committed())


@pytest.mark.slow
def test_the_one_file_of_another_checkout_is_the_same_to_the_byte(pyz, checkout, tmp_path, monkeypatch):
    monkeypatch.setattr(one_file, "ROOT", checkout)
    again = tmp_path / "dist" / "gdr.pyz"
    build(again, (platform.machine(),), WHEELS)
    assert again.read_bytes() == pyz.read_bytes()


CONTAINER = ROOT / "Containerfile"


def test_hadolint_finds_nothing_in_the_container_definition(tmp_path):
    hadolint = Path(sys.executable).parent / "hadolint"
    assert subprocess.run([hadolint, "--no-color", CONTAINER], capture_output=True, text=True).stdout == ""
    (tmp_path / "bad").write_text("FROM debian\n")
    assert subprocess.run([hadolint, tmp_path / "bad"], capture_output=True).returncode == 1


def test_the_image_runs_as_a_user_and_installs_only_what_has_a_hash():
    text = CONTAINER.read_text()
    assert re.search(r"^USER 65534:65534$", text, re.MULTILINE)
    for install in re.findall(r"pip install .*", text):
        assert "--require-hashes" in install or "--no-index" in install, install
    sources = [
        word for row in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for word in row.split()
    ]
    assert len(sources) > 5 and all((ROOT / source).exists() for source in sources)
    assert re.findall(r"-r (\S+)", text) == ["requirements-build.txt", "requirements-run.txt"]


def test_what_the_image_copies_is_enough_to_build_the_wheel(tmp_path):
    copied, into = tmp_path / "src", tmp_path / "dist"
    copied.mkdir()
    for row in re.findall(r"^COPY (?!--from)(.*)$", CONTAINER.read_text(), re.MULTILINE):
        *sources, to = row.split()
        for source in sources:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, copied / to)  # its content, as COPY does
            else:
                shutil.copy(ROOT / source, copied / to)
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(into)]
    subprocess.run(build, cwd=copied, check=True, capture_output=True)
    (wheel,) = into.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        assert "gdrkit/cli/doctor.py" in archive.namelist()
