"""`gdr config` on the command line: outputs, refusals, files, exit codes."""

from __future__ import annotations

import json
import subprocess

import pytest
import yaml

from gdrkit.cli import main
from gdrkit.cli.exit import OK
from gdrkit.repair.config import KINDS
from tests.evidence_nodes import laid_down


@pytest.fixture(scope="module")
def acs(tmp_path_factory):
    return str(laid_down("acs-redirect"))


def gdr(*arguments: str) -> int:
    try:
        return main(["config", *arguments])
    except SystemExit as end:
        return int(str(end.code))


def test_every_kind_is_listed(capsys):
    assert gdr("--list") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines() if line[:1] != " "] == list(
        KINDS
    )


def test_the_output_goes_to_standard_output(capsys):
    assert gdr("gpu-operator") == 0
    printed = capsys.readouterr()
    assert "kernelModuleType: open" in printed.out and printed.err == ""


def test_explain_adds_reasons(capsys):
    assert gdr("gpu-operator", "--explain") == 0
    assert "# dma-buf needs the open kernel modules" in capsys.readouterr().out


def test_json_patches_are_explained_on_standard_error(capsys):
    assert gdr("gpu-operator", "--form", "json-patch", "--explain") == 0
    printed = capsys.readouterr()
    assert [operation["op"] for operation in json.loads(printed.out)] == ["add", "add"]
    assert "dma-buf needs the open kernel modules" in printed.err


def test_the_output_depends_on_the_node(capsys, acs):
    assert gdr("systemd", acs) == 0
    assert "-s 0000:17:01.0 ECAP_ACS+0x6.w=0000:001c" in capsys.readouterr().out


def test_configuration_without_effect_is_refused(capsys, acs):
    assert gdr("modules-load", acs) == 2
    assert "dma-buf needs no entry" in capsys.readouterr().err
    assert gdr("modules-load", acs, "--json") == 2
    assert json.loads(capsys.readouterr().out)["refused"].startswith("dma-buf")


def test_json_contains_text_and_reasons(capsys):
    assert gdr("talos", "--form", "documents", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "gdrkit.config/1" and document["form"] == "documents"
    assert any(line["why"] for line in document["lines"])


def test_an_existing_file_is_never_overwritten(capsys, tmp_path):
    path = tmp_path / "patch.yaml"
    assert gdr("gpu-operator", "-o", str(path)) == 0
    assert "kernelModuleType" in path.read_text() and capsys.readouterr().out == ""
    before = path.read_bytes()
    assert gdr("gpu-operator", "--path", "peermem", "-o", str(path)) == 64
    assert path.read_bytes() == before and "exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "missing KIND"),
        (("gpuoperator",), "did you mean 'gpu-operator'"),
        (("talos", "--form", "xml"), "it has machine, documents, schematic"),
        (("udev", "--form", "xml"), "it has only one form"),
        (("modprobe", "--parameter", "nvidia"), "MODULE:NAME=VALUE"),
        (("check",), "missing FILE"),
    ],
)
def test_wrong_usage_names_the_right_usage(capsys, arguments, words):
    assert gdr(*arguments) == 64
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("machine:\n  kernel:\n    modules:\n      - name: nvidia\n", 0, ""),
        ("spec:\n  driver:\n    useOpenKernelModules: true\n", 1, ":3: warning: "),
        ("spec:\n  driver:\n    rdma: 1\n", 2, ":3: error: spec.driver.rdma"),
        ("a: *b\n", 3, ":1: unreadable: "),
    ],
)
def test_the_exit_code_of_a_check_shows_the_worst_fault(capsys, tmp_path, text, code, words):
    path = tmp_path / "file.yaml"
    path.write_text(text)
    assert gdr("check", str(path)) == code
    printed = capsys.readouterr()
    assert (f"{path}{words}" in printed.out) if words else printed.out == ""
    assert str(path) in printed.err
    assert gdr("check", str(path), "--quiet") == code
    assert capsys.readouterr() == (printed.out, "")
    assert gdr("check", str(path), "--json") == code
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "gdrkit.config-check/1"
    assert [fault["line"] for fault in document["faults"]] == ([int(words[1])] if words else [])


def test_a_missing_file_gives_the_exit_code_for_no_input(capsys):
    assert gdr("check", "/nonexistent/file.yaml") == 66
    assert "no such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["eth0'; id; '", "a b", "eth0\nNCCL_DEBUG=INFO", "x" * 16, "..", "a/b", "a:b"]
)
def test_an_interface_that_no_kernel_has_is_refused(name, capsys):
    assert main(["config", "nccl-env", "--interface", name]) == 64
    assert "not a network interface" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["shell", "slurm"])
def test_a_value_that_a_shell_would_run_stays_one_word(form, capsys, tmp_path):
    assert main(["config", "nccl-env", "--form", form, "--interface", "a'$(id)`;\\"]) == 0
    script = tmp_path / "env.sh"
    script.write_text(
        capsys.readouterr().out + '\nprintf "export NCCL_SOCKET_IFNAME=%s\\n" "$NCCL_SOCKET_IFNAME"\n'
    )
    done = subprocess.run(["sh", script], capture_output=True, text=True, check=True, timeout=60)
    assert "export NCCL_SOCKET_IFNAME==a'$(id)`;\\" in done.stdout.splitlines()


def test_a_value_that_kubernetes_would_replace_stays_as_it_is(capsys):
    assert main(["config", "nccl-env", "--form", "kubernetes", "--interface", "a$(PATH)$$"]) == 0
    (variable,) = yaml.safe_load(capsys.readouterr().out)["env"]
    assert variable["value"] == "=a$$(PATH)$$$$"


@pytest.mark.parametrize("value", ["\\", "a\\b", '"a', 'a"b"c"', "a\n", "a b", "é"])
@pytest.mark.parametrize("kind", ["modprobe", "gpu-operator"])
def test_a_value_that_modprobe_reads_as_another_is_refused(kind, value, capsys):
    """A backslash at its end takes the next line into the value: modprobe --showconfig shows it."""
    assert main(["config", kind, "--parameter", f"nvidia:A={value}", "--parameter", "nvidia:B=2"]) == 64
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("value", ["", "1", '"a=1;b=2"', "#", "'", "$(id)"])
def test_any_other_value_is_the_one_of_its_line(value, capsys):
    given = ["--parameter", f"nvidia:A={value}", "--parameter", "nvidia:B=2"]
    assert main(["config", "modprobe", *given]) == 0
    live = [line for line in capsys.readouterr().out.splitlines() if line[:1] != "#"]
    assert live == [f"options nvidia A={value}", "options nvidia B=2"]


@pytest.mark.parametrize("option", ["--gdr", "--textfile-folder"])
@pytest.mark.parametrize(
    "path",
    [
        "gdr",
        "/",
        "/.",
        "/a/../b",
        "/a/..",
        "/a/./b",
        "/a//b",
        "/a/",
        "/a b",
        "/a\nb",
        "/%h",
        "/$(id)",
        "/a'",
    ],
)
def test_a_path_that_systemd_reads_as_another_is_refused(option, path, capsys):
    assert main(["config", "systemd", "--form", "export-service", option, path]) == 64
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("path", ["/opt/gdr-1.2+b@x/gdr", "/.a/..b/c...", "/-"])
def test_any_other_path_is_written_as_it_is(path, capsys):
    assert main(["config", "systemd", "--form", "export-service", "--gdr", path]) == 0
    assert f"\nExecStart={path} export -o " in capsys.readouterr().out


def test_nccl_env_takes_a_saved_topology(tmp_path, capsys):
    """As gdr estimate does; a pasted matrix names the NICs nearest to GPUs."""
    matrix = tmp_path / "topo.txt"
    matrix.write_text("> \tGPU0\tmlx5_0\tmlx5_1\n> GPU0\t X \tPIX\tSYS\n")
    assert main(["config", "nccl-env", str(matrix)]) == OK
    shown = capsys.readouterr().out
    assert "NCCL_IB_HCA='=mlx5_0:1'" in shown
    assert "GIDs and subnets are unknown" in shown
    assert "no node is given" not in shown


def test_a_spark_gets_both_devices_of_a_cable_and_its_rails(tmp_path, capsys):
    assert main(["config", "nccl-env", str(laid_down("spark-two-cables"))]) == OK
    shown = capsys.readouterr().out
    assert "a cable shows as two devices" in shown
    assert "NCCL_CROSS_NIC='0'" in shown
    assert "4 ports are in 4 subnets" in shown
    assert "NCCL_SOCKET_IFNAME is not set: bootstrap needs one interface" in shown


GPU_POLICY = "kind: ClusterPolicy\nspec:\n  driver:\n    rdma:\n      enabled: true\n"
NIC_POLICY = (
    "apiVersion: mellanox.com/v1alpha1\nkind: NicClusterPolicy\nmetadata: {name: nic-cluster-policy}\n"
    "spec: {}\n"
)


@pytest.mark.parametrize("folder", [True, False])
def test_the_files_of_one_cluster_are_checked_together(capsys, tmp_path, folder):
    """The driver of one policy waits for what the other one does not deploy: neither file alone shows it."""
    files = [tmp_path / "gpu.yaml", tmp_path / "nic.yaml"]
    for file, text in zip(files, (GPU_POLICY, NIC_POLICY), strict=True):
        file.write_text(text)
    (tmp_path / "notes.txt").write_text("not a manifest")
    assert gdr("check", *([str(tmp_path)] if folder else map(str, files))) == 2
    printed = capsys.readouterr()
    assert "gpu.yaml:5: error: spec.driver.rdma.enabled" in printed.out
    assert (
        printed.err.count("nic.yaml: NicClusterPolicy: no known faults") == 1
        and "notes.txt" not in printed.err
    )
    assert gdr("check", str(files[1])) == 0


def test_a_folder_without_manifests_and_two_targets_of_another_kind_are_refused(capsys, tmp_path):
    assert gdr("check", str(tmp_path)) == 66
    assert "no file that ends in .yaml" in capsys.readouterr().err
    assert gdr("modprobe", "a", "b") == 64
    assert "takes one TARGET" in capsys.readouterr().err
