"""The programs that read the outputs accept them: a shell, systemd, udev, butane, cloud-init."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess

import pytest
import yaml

from gdrkit.facts.environment import parse_conf
from gdrkit.repair.config.output import rendered
from tests.repair.config.outputs import OUTPUTS, names_of

IN_CI = os.environ.get("CI") == "true"
SHELL = names_of("nccl-env", "shell") + names_of("nccl-env", "slurm")
"""Outputs that a shell runs."""


def program(name: str, how: str, *, in_ci: bool = True) -> str:
    """The path of a program. Without it the test is skipped, or fails in CI if .ci/run installs it."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/bin")
    if found is None:
        if IN_CI and in_ci:
            pytest.fail(f"{name} is not installed: {how}")
        pytest.skip(how)
    return found


def run(*argv: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, input=text, capture_output=True, text=True, check=False, timeout=60)


def settings_of(name: str) -> dict[str, str]:
    """The variables that an output sets."""
    found = {}
    for line in OUTPUTS[name].lines:
        match = re.fullmatch(r"(?:printf '%s\\n' ')?(?:export )?(NCCL_\w+)=(.*?)'?", line.text)
        if match:
            found[match[1]] = match[2].strip("'")
    return found


# -- shells ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHELL)
def test_shellcheck_finds_no_faults(name):
    shellcheck = program("shellcheck", "sudo apt-get install shellcheck")
    found = run(shellcheck, "--shell", "sh", "-", text=rendered(OUTPUTS[name]))
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("name", names_of("nccl-env", "shell"))
def test_a_shell_sets_the_variables(name):
    wanted = settings_of(name)
    printing = "".join(f'printf "%s\\n" "{variable}=${variable}"\n' for variable in wanted)
    found = run("sh", "-eu", "-c", rendered(OUTPUTS[name]) + printing)
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines() == [f"{variable}={value}" for variable, value in wanted.items()]


@pytest.mark.parametrize("name", names_of("nccl-env", "slurm"))
def test_a_task_prolog_prints_what_slurm_exports(name):
    found = run("sh", "-eu", "-c", rendered(OUTPUTS[name]))
    assert found.stdout.splitlines() == [f"export {k}={v}" for k, v in settings_of(name).items()]


@pytest.mark.parametrize("name", names_of("nccl-env", "conf"))
def test_nccl_conf_parses_to_the_same_settings(name):
    assert {s.name: s.value for s in parse_conf(rendered(OUTPUTS[name]), "etc/nccl.conf")} == settings_of(
        name
    )


@pytest.mark.parametrize("name", names_of("nccl-env", "kubernetes"))
def test_a_container_gets_the_same_settings(name):
    (found,) = yaml.safe_load_all(rendered(OUTPUTS[name]))
    shell = name.replace(":kubernetes:", ":shell:")
    assert {row["name"]: row["value"] for row in found["env"]} == settings_of(shell)


# -- systemd, udev -----------------------------------------------------------------------------------


def unit_of(name: str) -> str:
    return rendered(OUTPUTS[name], explain=True)


@pytest.mark.parametrize("name", names_of("systemd"))
def test_systemd_accepts_the_unit(name, tmp_path):
    analyze = program("systemd-analyze", "sudo apt-get install systemd")
    unit = tmp_path / "gdrkit-acs.service"
    unit.write_text(re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", unit_of(name)))
    found = run(analyze, "verify", "--man=no", str(unit))
    assert found.returncode == 0 and "gdrkit-acs" not in found.stderr, found.stderr


def test_systemd_rejects_a_wrong_unit(tmp_path):
    """The check that these tests use does reject faults."""
    analyze = program("systemd-analyze", "sudo apt-get install systemd")
    unit = tmp_path / "gdrkit-acs.service"
    unit.write_text("[Service]\nType=oneshoot\nExecStart=/bin/true\n[Unitt]\nX=1\n")
    assert "gdrkit-acs" in run(analyze, "verify", "--man=no", str(unit)).stderr


@pytest.mark.parametrize("name", names_of("udev"))
def test_udev_accepts_the_rules(name, tmp_path):
    udevadm = program("udevadm", "sudo apt-get install udev")
    if "verify" not in run(udevadm, "--help").stdout:
        pytest.skip("udevadm verify needs systemd 254; this one is older")
    rules = tmp_path / "90-gdrkit-acs.rules"
    rules.write_text(rendered(OUTPUTS[name], explain=True))
    found = run(udevadm, "verify", "--resolve-names=never", str(rules))
    assert found.returncode == 0, found.stdout + found.stderr
    rules.write_text('ACTION="add", KERNAL=="x"\n')
    assert run(udevadm, "verify", "--resolve-names=never", str(rules)).returncode != 0


@pytest.mark.parametrize("name", names_of("udev") + names_of("systemd"))
def test_setpci_accepts_its_arguments(name):
    """With -D, setpci does everything except write: setpci(8). This machine does not have the bridges."""
    setpci = program("setpci", "sudo apt-get install pciutils")
    commands = re.findall(r"-s (\S+) (ECAP_ACS\S+?)\"?$", rendered(OUTPUTS[name]), re.MULTILINE)
    assert commands
    for _, operation in commands:
        found = run(setpci, "-D", "-f", "-s", "ffff:00:00.0", operation)
        assert "Invalid" not in found.stderr and "Usage" not in found.stderr, found.stderr


# -- butane and cloud-init ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", names_of("butane"))
def test_butane_produces_the_machine_config_that_we_write(name, tmp_path):
    butane = os.environ.get("BUTANE") or program(
        "butane", "go install github.com/coreos/butane/internal@v0.18.0; BUTANE names it", in_ci=False
    )
    source = tmp_path / "gdrkit.bu"
    source.write_text(rendered(OUTPUTS[name], explain=True))
    made = run(butane, "--strict", str(source))
    assert made.returncode == 0, made.stderr
    (ours,) = yaml.safe_load_all(rendered(OUTPUTS[name.replace("butane:", "machineconfig:")]))
    theirs = yaml.safe_load(made.stdout)
    for found in (ours, theirs):
        for file in found["spec"]["config"]["storage"]["files"]:
            file["contents"] = content(file["contents"])
    assert theirs == ours


def content(contents: dict[str, str]) -> bytes:
    """The bytes behind a data: URL, compressed or not. Source: RFC 2397."""
    import gzip
    from urllib.parse import unquote_to_bytes

    head, _, body = contents["source"].partition(",")
    found = base64.b64decode(body) if head.endswith(";base64") else unquote_to_bytes(body)
    return gzip.decompress(found) if contents.get("compression") == "gzip" else found


@pytest.mark.parametrize("name", names_of("cloud-init"))
def test_cloud_init_accepts_the_user_data(name, tmp_path):
    cloud_init = program("cloud-init", "sudo apt-get install cloud-init", in_ci=False)
    data = tmp_path / "user-data.yaml"
    data.write_text(rendered(OUTPUTS[name], explain=True))
    found = run(cloud_init, "schema", "--config-file", str(data))
    assert found.returncode == 0, found.stdout + found.stderr


def test_no_output_contains_a_key_or_a_password():
    for output in OUTPUTS.values():
        assert not re.search(r"PRIVATE KEY|password|passwd|secret", rendered(output), re.IGNORECASE)


def test_the_lists_of_outputs_are_not_empty():
    """The tests above run over these lists."""
    assert all(
        (
            SHELL,
            names_of("systemd"),
            names_of("udev"),
            names_of("butane"),
            names_of("cloud-init"),
            names_of("nccl-env", "conf"),
        )
    )
