"""Options without effect are refused; they may come before or after the target; no file is replaced."""

from __future__ import annotations

from importlib import import_module

import pytest

from gdrkit.cli import COMMANDS, main, module_of
from gdrkit.cli.arguments import Parser
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
        (["estimate", "--ep", "16", "/nope"], "--model"),
    ],
    ids=" ".join,
)
def test_an_option_without_effect_is_refused(arguments, right, capsys):
    assert main(arguments) == 64
    printed = capsys.readouterr()
    assert right in printed.err and not printed.out


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("--json", ["--json"]),
        ("-q", ["-q"]),
        ("-qv", ["-q", "-v"]),
        ("-oq", ["-o"]),  # the file is called q
        ("-qofile", ["-q", "-o"]),
        ("-xq", []),
        ("--jsonq", []),
        ("file", []),
    ],
)
def test_a_word_has_the_options_before_a_value(word, names):
    parser = Parser("x", "", "")
    for letter in "qv":
        parser.add_argument(f"-{letter}", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("-o")
    assert parser._names(word) == names


def test_only_what_is_required_is_said_to_be(capsys):
    """argparse also names what may be left out: TARGET | PARAMETER=VALUE."""
    assert main(["modprobe"]) == 64
    assert capsys.readouterr().err.splitlines()[0].endswith("arguments are required: NAME")


@pytest.mark.parametrize(
    "arguments, line",
    [
        (["doctor", "--jsn"], "gdr doctor: unknown argument: --jsn, did you mean '--json'?"),
        (
            ["doctor", "--html"],
            "gdr doctor: unknown argument: --html; gdr report writes the page of a node, gdr fleet report "
            "that of many",
        ),
        (["doctor", "--jsn=yes"], "gdr doctor: unknown argument: --jsn=yes, did you mean '--json'?"),
        (["doctor", "--banana"], "gdr doctor: unknown argument: --banana"),
        (["doctor", "a", "b", "c"], "gdr doctor: unknown argument: c; of more nodes: gdr fleet doctor"),
        (
            ["doctor", "--consumer", "ncl"],
            "gdr doctor: argument --consumer: invalid choice: 'ncl', did you mean 'nccl'?",
        ),
        (
            ["completion", "csh"],
            "gdr completion: argument shell: invalid choice: 'csh', did you mean 'zsh'?",
        ),
        (
            ["completion", "perl"],
            "gdr completion: argument shell: invalid choice: 'perl' (choose from bash, zsh, fish)",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_unknown_option_or_choice_is_answered_with_the_one_that_was_meant(arguments, line, capsys):
    assert main(arguments) == 64
    printed = capsys.readouterr()
    assert printed.err.splitlines() == [line, f"  see gdr {arguments[0]} --help"] and not printed.out


TOGETHER = """
doctor --json --line | doctor --json -v | doctor --line -q | doctor -vq | doctor --verbose --line
explain --json -v | explain -q -v | explain -q --json | modprobe nvidia -q --json | probe -v --json
collect --pyz x -o y | collect --pyz x --anonymize | collect --pyz x --module a | collect --pyz x --no-probe
collect --pyz x --root /tmp | collect --pyz x --json | collect --pyz x -v | collect -q -v
collect -o - --force
fix --yes | fix --status --yes | fix --force | fix --apply --force | fix --resume --force
fix --apply --json | fix --status --json | fix --undo --json | fix --status -q | fix --json -q
fix --module --plan 1 | fix --steps reboot --plan 1
fix --status --module | fix --undo --steps reboot | fix --resume --plan 1
fix --resume --consumer ucx | fix --resume --key a --certificate b | fix --undo --digest sha512
fix --status --no-enrol | fix --resume --acs unit | fix --key a | fix --certificate b
fix --ask-key-password | fix --status --ask-key-password | fix --key-password-fd 0 | fix --mok-password-fd 0
fix --apply --ask-key-password --key-password-fd 0 | fix --apply --no-enrol --mok-password-fd 0
fix --root /tmp / | fix --apply --resume | fix --module --steps reboot | fix --apply / | fix --status /
config --list udev | config --list --form x | config --list -o x | config --list --json | config --list -q
config --list --role worker | config check x --form y | config check x --explain | config check x -o y
config check x --path dmabuf | config udev --force | config udev --path dmabuf
config modprobe --path dmabuf | config gpu-operator --driver-version 580.65.06
config gpu-operator --form merge --driver-version 580.65.06 | config gpu-operator --ofed host
config gpu-operator --path dmabuf --ofed host | config machineconfig --parameter nvidia:a=1
config butane --parameter nvidia:a=1 | config talos --parameter nvidia:a=1
config cloud-init --parameter nvidia:a=1
topo --json -v | topo --json --svg | topo -q --svg | topo --svg --write-nccl-xml x | topo --json -q
topo --write-nccl-xml - --json | topo --force | topo --force --write-nccl-xml | topo --svg --nccl 2.27.5
topo --svg --env NCCL_DEBUG=INFO | topo --write-nccl-xml x --nccl 2.27.5 | topo --nvlink /
nccl --json --rank 0 | nccl --rank 0 --all | nccl -q --all | nccl --json -q
estimate --json -q | estimate --tp 1 | estimate --dp 2 --pp 2
estimate --model llama-3-8b --measured x | estimate --model llama-3-8b -q
bench host --gpu 0 | bench host --peer-gpu 1 | bench loopback --peer-gpu 1 | bench pair --peer-device mlx5_0
bench host --force | bench host --paths tcp --device mlx5_0
prove log --log x --path tcp | prove log --log x --size 1M | prove log --log x --repeats 4
prove log --log x --host a | prove log --log x --gpu 0 | prove log --log x --device a | prove log
prove host --gpu 0 | prove host --json --all | prove pair --peer-device mlx5_0
fleet doctor --namespace a | fleet doctor --image a --ray | fleet doctor --print-manifest --slurm
fleet doctor --slurm --ray | fleet doctor --ray http://a --kubernetes | fleet doctor --ray --run last
fleet doctor --kubernetes --print-manifest --json | fleet doctor --kubernetes --print-manifest --selector a=b
codes PXB --json | --version doctor | --help doctor | -h doctor | -V doctor
"""


@pytest.mark.parametrize("line", [c.strip() for row in TOGETHER.strip().split("\n") for c in row.split("|")])
def test_options_of_which_one_has_no_effect_are_refused(line, capsys):
    words = line.split()
    assert main(words) == 64, capsys.readouterr()
    printed = capsys.readouterr()
    message, hint = printed.err.splitlines()
    assert not printed.out and "--help" in hint
    assert any(word in message for word in words if word.startswith("-")) or "--" in message


ABSURD = ("?!", "", "-1", "\x1b]0;x\n")
BEFORE = {
    "bench": ["host"], "prove": ["host"], "config": ["gpu-operator"], "completion": ["bash"],
    "modprobe": ["nvidia"], "estimate": ["--model", "llama-3-8b"],
}  # fmt: skip
FILES = {
    "collect": ("--output", "--root", "--pyz"), "config": ("--output",), "bench": ("--csv", "--plot"),
    "fix": ("--root", "--key", "--certificate", "--expect"), "prove": ("--log",),
    "topo": ("--write-nccl-xml",),
    "fleet doctor": ("--hosts", "--run", "--resume", "--since", "--expect"),
    "fleet report": ("--run", "--since", "--expect", "--output", "--racks"), "fleet bench": ("--hosts",),
    "report": ("--output", "--expect"), "estimate": ("--measured",),
    "doctor": ("--expect",), "nccl": ("--node",), "expect": ("--output",), "man": ("--output",),
    "example": ("--output",),
    "export": ("--output", "--run", "--measured", "--expect"),
}  # fmt: skip
"""Names of files and folders: any text is one, but an empty text."""
WITH_VALUE = [
    (command, action.option_strings[-1])
    for command in COMMANDS
    for action in import_module(module_of(command)).parser()._actions
    if action.option_strings and action.nargs != 0
]


@pytest.mark.parametrize("command, option", WITH_VALUE)
def test_an_absurd_value_is_refused_by_the_name_of_its_option(command, option, capsys):
    for value in [""] if option in FILES.get(command, ()) else ABSURD:
        for words in ([option, value], [f"{option}={value}"]):
            assert main([*command.split(), *BEFORE.get(command, []), *words]) == 64, (
                words,
                capsys.readouterr(),
            )
            printed = capsys.readouterr()
            assert option in printed.err.partition("\n")[0] and not printed.out, printed
            assert "\x1b" not in printed.err and len(printed.err.splitlines()) <= 2


def test_every_command_has_options_with_and_without_values():
    """Else the walk above passes over a command."""
    assert len(WITH_VALUE) > 60 and {name for name, _ in WITH_VALUE} > {"doctor", "fix", "config", "bench"}
    assert all((command, option) in WITH_VALUE for command in FILES for option in FILES[command])


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_argument_is_refused(command, capsys):
    assert main([*command.split(), *(["log"] if command == "prove" else []), ""]) == 64
    assert capsys.readouterr().err.startswith(f"gdr {command}: ")


def test_a_plan_that_does_not_exist_is_refused(capsys):
    target = str(laid_down("ofed-rebuilt"))
    assert main(["fix", target, "--plan", "99"]) == 64
    assert "--plan 99" in capsys.readouterr().err
    assert main(["fix", target, "--plan", "1"]) == 0
    assert "plan 2" not in capsys.readouterr().out


@pytest.mark.parametrize("steps", [",", "reboot,", " ", "reboot,,reboot"])
def test_a_list_of_steps_without_a_name_is_refused(steps, capsys):
    assert main(["fix", str(laid_down(NODE)), "--steps", steps]) == 64
    assert "--steps" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command, options",
    [("doctor", ["--line", "--consumer", "ucx"]), ("topo", ["--nccl", "2.27.5"]), ("estimate", ["--json"]),
     ("modprobe nvidia", ["--json"]), ("config nccl-env", ["--form", "conf"]),
     ("fix", ["--steps", "raise-memlock"]), ("fix", ["--json"])],
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
    (lambda path: ["config", "gpu-operator", "--output", path], b"old"),
    (lambda path: ["expect", str(laid_down(NODE)), "--output", path], b"old"),
    (lambda path: ["example", "h100", "--output", path], b"old"),
    (lambda path: ["collect", "--pyz", path], b"old"),
    (lambda path: ["collect", "-q", "--root", str(laid_down(NODE)), "--output", path], b"old"),
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


@pytest.mark.parametrize("output", OUTPUTS[:4], ids=lambda output: " ".join(output[0]("FILE"))[-24:])
@pytest.mark.parametrize("path", ["missing/folder/out", "dangling/out", "file/out", "/dev/full"])
def test_a_file_that_cannot_be_written(output, path, tmp_path, capsys):
    (tmp_path / "dangling").symlink_to("/nowhere")
    (tmp_path / "file").write_text("")
    assert main([*output[0](str(tmp_path / path)), "--force"]) in (64, 73)
    error = capsys.readouterr().err
    assert len(error.splitlines()) <= 2 and "internal error" not in error


def test_every_option_that_writes_a_file_is_among_these():
    words = {word for arguments, _ in OUTPUTS for word in arguments("FILE")}
    assert {"--output", "--pyz", "--csv", "--plot", "--write-nccl-xml"} <= words
    reads = {"--measured", "--expect", "--log", "--key", "--certificate", "--root", "--hosts"}
    reads |= {"--run", "--resume", "--since", "--node", "--racks"}
    assert {option for options in FILES.values() for option in options} - reads <= words


@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize("output", OUTPUTS, ids=lambda output: " ".join(output[0]("FILE"))[-24:])
def test_a_link_in_place_of_the_file_is_not_followed(output, force, tmp_path, capsys):
    """Root writes into a folder where another user has put a link to a file of root's."""
    secret = tmp_path / "secret"
    secret.write_bytes(output[1])
    for target in (secret, tmp_path / "new"):
        link = tmp_path / f"link-to-{target.name}"
        link.symlink_to(target)
        assert main([*output[0](str(link)), *force]) in (64, 73)
        printed = capsys.readouterr().err
        assert str(link) in printed and "internal error" not in printed
        assert link.is_symlink() and secret.read_bytes() == output[1]
    assert not (tmp_path / "new").exists()


def test_an_empty_target_behind_two_dashes_is_not_this_machine(capsys):
    assert main(["doctor", "--", ""]) == 64
    assert "empty value" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["bench"], "pair, loopback, host"),
        (["prove"], "pair, loopback, host, log"),
        (["fleet"], "doctor, report, bench"),
    ],
)
def test_a_missing_argument_names_its_choices_and_an_example(words, names, capsys):
    assert main(words) == 64
    shown = capsys.readouterr().err.splitlines()
    assert names in shown[0] and shown[1].startswith(f"  for example: gdr {words[0]} {names.split(',')[0]}")


def test_a_wrong_value_is_not_answered_with_an_example(capsys):
    assert main(["bench", "both"]) == 64
    assert "for example" not in capsys.readouterr().err


@pytest.mark.parametrize("command", ["doctor", "explain", "nccl", "fix", "estimate"])
def test_after_two_dashes_nothing_is_an_option(command, capsys):
    """A file may be called --json, and a pattern of a shell may find it."""
    assert main([command, "--", "--json"]) == 66
    assert f"gdr {command}: --json: no such file or directory" in capsys.readouterr().err


def test_a_file_whose_name_is_an_option_is_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "--json").write_text(
        "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"
    )
    assert main(["explain", "-q", "--", "--json"]) == 3
    assert main(["explain", "--", "--json"]) == 3
    assert "peermem-stub" in capsys.readouterr().out


def test_a_list_of_what_was_parsed_already_stays_as_it_is(capsys):
    assert main(["topo", str(laid_down(NODE)), "--env", "NCCL_NET_GDR_LEVEL=PHB"]) == 0
