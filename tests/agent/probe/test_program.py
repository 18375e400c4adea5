"""A probe as one text that runs without gdrkit, also with libraries written in C."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gdrkit.agent.collect import pyz
from gdrkit.agent.collect.sources import PROBES
from gdrkit.agent.probe.program import program
from gdrkit.evidence import Command, EvidenceMissing, live
from tests.system_programs import program as installed

HERE = Path(__file__).parent
SCRIPTS = ("cuda_probe", "memory_probe", "rm_probe", "verbs_probe")
ARGUMENT_BYTES = 128 << 10
"""The longest argument of a program on Linux: MAX_ARG_STRLEN, execve(2)."""
WITHOUT_US = (
    "import importlib.util, sys\nif importlib.util.find_spec('gdrkit'): sys.exit('gdrkit is here')\n"
)

each_script = pytest.mark.parametrize("script", SCRIPTS)


def pythons() -> list[str]:
    """This Python, and a 3.8 if this machine has one."""
    versions = Path.home() / ".pyenv/versions"
    found = [shutil.which("python3.8"), *map(str, versions.glob("3.8.*/bin/python3.8"))]
    return [sys.executable, *[path for path in found if path and "shims" not in path][:1]]


def answered(python: str, text: str, environment: dict[str, str]) -> dict:
    """The JSON of the program, run on standard input of a Python without packages."""
    child = subprocess.run(
        [python, "-I", "-S", "-W", "error", "-"], input=WITHOUT_US + text, capture_output=True, text=True,
        env={"PATH": "/usr/bin:/bin", **environment}, cwd="/", check=False,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout)


def texts(script: str) -> dict[str, str]:
    """The modules in a program, by name, in the order in which they run."""
    tree = ast.parse(program(script), feature_version=(3, 8))
    loop = next(node for node in tree.body if isinstance(node, ast.For))
    return dict(ast.literal_eval(loop.iter))


@each_script
def test_a_program_has_python_3_8_syntax_and_fits_in_one_argument(script):
    for name, text in texts(script).items():
        ast.parse(text, name, feature_version=(3, 8))
    text = program(script)
    assert text.isascii() and len(text) < ARGUMENT_BYTES


@pytest.mark.parametrize(
    ("script", "imported"),
    [
        ("cuda_probe", ["cuda_abi", "library", "cuda"]),
        ("memory_probe", ["cuda_abi", "library", "cuda", "verbs_abi", "verbs"]),
        ("rm_probe", []),
        ("verbs_probe", ["library", "verbs_abi", "verbs"]),
    ],
)
def test_a_program_has_each_import_of_a_probe_once_and_nothing_else(script, imported):
    names = [*(f"native.{name}" for name in imported), "probe.record", f"probe.{script}"]
    assert list(texts(script)) == [f"gdrkit.agent.{name}" for name in names]


@each_script
@pytest.mark.parametrize("python", pythons())
def test_it_runs_from_standard_input_without_gdrkit(script, python):
    report = answered(python, program(script), {})
    assert report["schema"] == f"gdrkit.probe.{script.removesuffix('_probe')}/1"
    assert list(report) == ["schema", "library", "error", "calls"]


@each_script
def test_a_live_machine_a_collector_and_its_archive_run_the_same_text(script, tmp_path):
    name = script.removesuffix("_probe")
    words = live._probe_argv(Command(("gdr", "probe", name, "--json"), ()))
    assert words == (sys.executable, "-I", "-c", program(script))
    assert name == "memory" or script in {probe.script for probe in PROBES}

    (tmp_path / "sent.pyz").write_bytes(pyz.archive())
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'sent.pyz')!r})\n"
    code += f"from gdrkit.agent.probe.program import program; print(program({script!r}), end='')"
    child = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    assert child.stdout == program(script)


def test_an_unknown_probe_is_an_error():
    with pytest.raises(EvidenceMissing) as lacks:
        live._probe_argv(Command(("gdr", "probe", "nosuch", "--json"), ()))
    assert "unknown probe" in str(lacks.value.missing)


def test_the_archive_of_the_collector_has_all_imports_of_probes(tmp_path):
    (tmp_path / "sent.pyz").write_bytes(pyz.archive())
    names = set(zipfile.ZipFile(tmp_path / "sent.pyz").namelist())
    for script in SCRIPTS:
        assert {f"{name.replace('.', '/')}.py" for name in texts(script)} <= names


def compiled(folder: Path, *options: str) -> dict[str, str]:
    """An environment in which the linker finds a libcuda and a libibverbs written in C."""
    compiler = installed("cc")
    for name in ("libcuda", "libibverbs"):
        words = [compiler, "-w", "-shared", "-fPIC", *options, "-o", folder / f"{name}.so.1"]
        subprocess.run([*words, HERE / f"{name}.c"], check=True)
    return {"LD_LIBRARY_PATH": os.fspath(folder)}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory) -> dict[str, str]:
    return compiled(tmp_path_factory.mktemp("lib"))


@pytest.mark.parametrize("python", pythons())
@pytest.mark.parametrize("script", ["cuda_probe", "memory_probe", "verbs_probe"])
def test_probes_call_c_libraries_as_their_headers_declare(script, python, libraries):
    """c.json has the output of the probes for these libraries from when each had its own binding."""
    assert answered(python, program(script), libraries) == json.loads((HERE / "c.json").read_text())[script]


def test_with_an_old_libibverbs_everything_but_dma_buf_is_queried(tmp_path):
    report = answered(sys.executable, program("verbs_probe"), compiled(tmp_path, "-DOLD"))
    recorded = json.loads((HERE / "c.json").read_text())["verbs_probe"]
    assert report["calls"] == [c for c in recorded["calls"] if c["call"] != "ibv_reg_dmabuf_mr"]
