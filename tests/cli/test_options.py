"""Options without effect are refused; they may come before or after the target; no file is replaced."""

import pytest

from gdrkit.cli import main
from tests.evidence_nodes import laid_down
from tests.fabric.topology.xml_files import DUMP

NODE = "ubuntu-6.8-h100"


@pytest.mark.parametrize(
    "arguments, right",
    [
        (["config", "gpu-operator", "--operator-version", "banana"], "v26.7.0"),
        (["config", "check", "x", "--operator-version", "banana"], "v26.7.0"),
        (["config", "modprobe", "--operator-version", "v26.7.0"], "gpu-operator"),
        (["config", "udev", "--ofed-version", "25.10"], "network-operator"),
        (["config", "talos", "--driver-version", "580.1"], "gpu-operator"),
        (["config", "nccl-env", "--role", "master"], "machineconfig"),
        (["config", "systemd", "--interface", "eth0"], "nccl-env"),
        (["config", "modprobe", "--ofed", "host"], "network-operator"),
        (["config", "udev", "--parameter", "nvidia:a=1"], "modprobe"),
        (["estimate", "--tp", "2"], "--model"),
        (["estimate", "--kv-transfer", "/nope"], "--model"),
        (["estimate", "--path", "direct=45"], "--model"),
    ],
    ids=" ".join,
)
def test_an_option_without_effect_is_refused(arguments, right, capsys):
    assert main(arguments) == 64
    printed = capsys.readouterr()
    assert right in printed.err and not printed.out


@pytest.mark.parametrize(
    "command, options",
    [("doctor", ["--line", "--consumer", "ucx"]), ("topo", ["--nccl", "2.27.5"]), ("estimate", ["--json"]),
     ("modprobe nvidia", ["--json"]), ("config nccl-env", ["--form", "conf"])],
)  # fmt: skip
def test_options_stand_before_or_after_the_target(command, options, capsys):
    name, *words = command.split()
    words.append(str(laid_down(NODE)))
    outputs = set()
    for at in range(len(words) + 1):
        main([name, *words[:at], *options, *words[at:]])
        outputs.add(capsys.readouterr().out)
    assert len(outputs) == 1 and outputs != {""}


def test_a_topology_is_never_written_over_its_input(tmp_path, capsys):
    source = tmp_path / "in.xml"
    source.write_text(DUMP)
    (tmp_path / "link.xml").hardlink_to(source)
    for name in ("in.xml", "link.xml", "../" + tmp_path.name + "/in.xml"):
        for force in ([], ["--force"]):
            assert main(["topo", str(source), "--write-nccl-xml", str(tmp_path / name), *force]) == 64
    assert source.read_text() == DUMP


OUTPUTS = (
    (lambda path: ["topo", str(laid_down(NODE)), "--write-nccl-xml", path], b"<system></system>"),
    (lambda path: ["config", "gpu-operator", "-o", path], b"old"),
    (lambda path: ["collect", "--pyz", path], b"old"),
    (lambda path: ["bench", "host", "--paths", "shared", "--sizes", "64K", "--csv", path], b"old"),
    (lambda path: ["bench", "host", "--paths", "shared", "--sizes", "64K", "--plot", path], b"old"),
)


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda output: " ".join(output[0]("FILE"))[-24:])
def test_an_existing_file_is_replaced_only_with_force(output, tmp_path, capsys):
    arguments, old = output
    file = tmp_path / "out"
    file.write_bytes(old)
    assert main(arguments(str(file))) == 64
    assert "--force" in capsys.readouterr().err and file.read_bytes() == old
    main([*arguments(str(file)), "--force"])
    assert file.read_bytes() != old


@pytest.mark.parametrize("output", OUTPUTS[:3], ids=lambda output: " ".join(output[0]("FILE"))[-24:])
@pytest.mark.parametrize("path", ["missing/folder/out", "dangling/out", "file/out", "/dev/full"])
def test_a_file_that_cannot_be_written(output, path, tmp_path, capsys):
    (tmp_path / "dangling").symlink_to("/nowhere")
    (tmp_path / "file").write_text("")
    assert main([*output[0](str(tmp_path / path)), "--force"]) in (64, 73)
    error = capsys.readouterr().err
    assert len(error.splitlines()) <= 2 and "internal error" not in error
