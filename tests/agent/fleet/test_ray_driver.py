"""What the Ray driver runs on a node. The whole driver is tried in tests/fleet/test_ray_cluster.py."""

import ast
import inspect
import sys

import pytest

from gdrkit.agent.fleet import ray_driver
from gdrkit.agent.fleet.ray_driver import collect, reason

PYTHON = ["PYTHON", "-I", "-"]
MIB = 1 << 20


def test_the_program_gets_its_standard_input_and_its_output_comes_back():
    output, code, line = collect(PYTHON, b"print('a bundle', end='')", 60.0, MIB)

    assert (output, code, line) == (b"a bundle", 0, "")


def test_the_last_line_of_errors_comes_back_with_the_exit_code():
    program = b"import sys; print('first', file=sys.stderr); sys.exit('gdr-collect needs Python 3.8')"

    assert collect(PYTHON, program, 60.0, MIB)[1:] == (1, "gdr-collect needs Python 3.8")


def test_a_program_that_hangs_is_ended_with_its_children():
    program = b"import os, time; os.fork(); print(os.getpid(), flush=True); time.sleep(600)"
    output, code, line = collect(PYTHON, program, 1.0, MIB)

    assert (output, code) == (b"", -1) and line == "timed out: no bundle within 1 s"


def test_a_program_that_prints_without_end_is_ended():
    output, code, line = collect(["yes"], b"", 60.0, MIB)

    assert (output, code, line) == (b"", -1, "its bundle has more than 1 MiB")


def test_errors_without_end_take_no_memory():
    program = b"import sys; sys.stderr.write('x' * 10_000_000 + '\\nlast')"

    assert collect(PYTHON, program, 60.0, MIB) == (b"", 0, "last")


def test_a_program_that_is_not_installed_is_an_error_that_the_driver_words():
    with pytest.raises(FileNotFoundError) as error:
        collect(["no-such-sudo"], b"", 60.0, MIB)

    error.value.cause = error.value
    assert reason(error.value).startswith("gdr collect cannot be started: [Errno 2]")
    assert reason(RuntimeError("a\n  b")) == "RuntimeError: a b"


def test_the_driver_is_python_3_8_and_imports_what_python_and_ray_have():
    tree = ast.parse(inspect.getsource(ray_driver), feature_version=(3, 8))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}

    assert {name.partition(".")[0] for name in names} - sys.stdlib_module_names == {"ray"}
