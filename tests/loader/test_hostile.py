"""Configurations made to keep a prediction busy: the answer is unknown, or that of modprobe, and soon."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrkit.cli.exit import UNKNOWN, USAGE
from gdrkit.cli.modprobe import main
from gdrkit.evidence import EvidenceMissing, MissingReason
from gdrkit.facts.install_command import Effect, effect
from gdrkit.facts.modprobe_config import FOLDERS
from gdrkit.loader import Prediction
from tests.kernel_tree import FOLDER, KernelTree
from tests.known_answers import modprobe
from tests.work import within

CONF = "etc/modprobe.d/x.conf"
SECONDS = 20  # far more than needed; the attacks took minutes, or never ended


def predicted(conf: str, name: str = "x") -> Prediction:
    """The prediction for a machine with the modules x and y and this configuration."""
    tree = KernelTree().module("x", depends=("y",)).module("y").put(CONF, conf)
    with within(SECONDS):
        return modprobe(tree.node(), name)


@pytest.mark.parametrize("name", ["", "''", '""'])
def test_a_nested_modprobe_without_a_name_fails(name: str) -> None:
    found = predicted(f"install x /sbin/modprobe {name}\n")
    reason = "module-not-found" if name else "install-override"
    assert (found.loaded, found.exit_code, found.reason) == (False, 1, reason)
    assert effect(f"/sbin/modprobe {name}") is Effect.FAILS


def test_an_empty_name_is_not_found() -> None:
    assert predicted("", name="").reason == "module-not-found"


@pytest.mark.parametrize("name", ["", " ", "x\0", "x\n"])
def test_a_name_that_no_module_has_is_an_error_of_usage(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "/nowhere"])
    assert ended.value.code == USAGE
    assert ("not a module's name" if name else "empty value") in capsys.readouterr().err


@pytest.mark.parametrize(
    "conf",
    [
        "install x modprobe x\n",
        "install x modprobe y\ninstall y modprobe x\n",
        "install x modprobe -i y && modprobe x\n",
        "alias x y\nalias y x\ninstall x modprobe y\ninstall y modprobe x\n",
    ],
)
def test_install_lines_that_call_each_other_are_unknown(conf: str) -> None:
    assert predicted(conf).result_unknown


@pytest.mark.parametrize("conf", ["softdep x pre: y\nsoftdep y pre: x\n", "softdep x pre: x post: x\n"])
def test_soft_dependencies_that_name_each_other_end(conf: str) -> None:
    assert predicted(conf).loaded


@pytest.mark.parametrize(
    "conf",
    [
        "install x " + "; ".join(["modprobe x"] * 9000) + "\n",
        "".join(f"install a{n} {'; '.join([f'modprobe a{n + 1}'] * 20)}\n" for n in range(9))
        + "install x modprobe a0\n",
        "".join("alias x y\nalias y x\n" for _ in range(4000)) + "install y modprobe x\n",
        "".join(f"softdep a{n} pre: a{n + 1}\ninstall a{n} true\n" for n in range(4000))
        + "softdep x pre: a0\n",
        f"softdep x pre: {' '.join(f'a{n}' for n in range(100_000))}\n",
        "".join(f"alias *a*{n} y\n" for n in range(900))
        + "".join(f"softdep x{n} pre: {' '.join(f'b{i}' for i in range(300))}\n" for n in range(900))
        + f"softdep x pre: {' '.join(f'x{n}' for n in range(900))}\n"
        + "".join(f"install x{n} true\n" for n in range(50)),
    ],
    ids=["commands", "nested", "aliases", "chain", "names", "patterns"],
)
def test_thousands_of_steps_are_unknown(conf: str) -> None:
    with pytest.raises(EvidenceMissing) as error:
        predicted(conf)
    assert error.value.missing.why is MissingReason.UNDECIDED
    assert "more than 2000 steps" in error.value.missing.source


@pytest.mark.parametrize("conf", ["blacklist z\n" * 10_001, "alias a*b y\n" * 1001])
def test_too_many_lines_are_unknown(conf: str) -> None:
    with pytest.raises(EvidenceMissing) as error:
        predicted(conf)
    assert error.value.missing.why is MissingReason.GARBLED


def test_options_that_multiply_in_a_command_are_not_expanded() -> None:
    """80 kB of options, 8,000 times: 640 MB."""
    found = predicted("options x " + "a=1 " * 20_000 + "\ninstall x true " + "$CMDLINE_OPTS" * 8000 + "\n")
    assert found.result_unknown


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a" + " " * 200_000 + "b", Effect.UNKNOWN),
        ("exit " + "9" * 5000, Effect.UNKNOWN),
        ("exit \u00b2", Effect.UNKNOWN),
        ("true ; " * 20_000 + "false", Effect.FAILS),
    ],
)
def test_a_command_is_read_in_time_that_grows_with_its_length(line: str, expected: Effect) -> None:
    with within(SECONDS):
        assert effect(line) is expected


def test_a_list_of_dependencies_on_one_line() -> None:
    tree = KernelTree().module("x")
    listed = tree.host().files[f"{FOLDER}/modules.dep"].decode()
    tree.put(f"{FOLDER}/modules.dep", "a.ko: " + "kernel/zx.ko " * 200_000 + "\n\xff.ko:\n" + listed)
    with within(SECONDS):
        assert modprobe(tree.node(), "x").loaded


def test_a_module_with_thousands_of_dependencies_is_unknown() -> None:
    tree = KernelTree().module("x").put(f"{FOLDER}/modules.dep", "x.ko: " + "y.ko " * 100_000 + "\n")
    with within(SECONDS), pytest.raises(EvidenceMissing) as error:
        modprobe(tree.node(), "x")
    assert error.value.missing.why is MissingReason.GARBLED


def test_a_loop_gives_the_code_of_unknown_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = KernelTree().module("x").put(CONF, "install x " + "; ".join(["modprobe x"] * 9000) + "\n")
    for path, content in tree.host().files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    for folder in FOLDERS:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    with within(SECONDS):
        assert main(["x", str(tmp_path)]) == UNKNOWN
    assert "more than 2000 steps" in capsys.readouterr().err
