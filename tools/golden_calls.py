"""Every command on every input, with the options that change what it reads or prints.

What can be asked for is read from the commands themselves: their names, the kinds of configuration and
their forms, the programs, the documents, the codes."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path

from tools.golden_inputs import built_nodes

MODULES = ("nvidia_peermem", "nvidia", "mlx5_ib")
STYLES = ("nagios", "npd", "slurm")
NCCL_VERSIONS = ("2.18.1", "2.23.4", "2.27.5", "2.30.7")
WORDS = ("dma-buf", "peermem", "acs", "reset")
"""What a reader may look up beside a code."""
GDR = ("--gdr", "/opt/gdr+1@site/bin/gdr")
"""Where gdr may be installed, with every kind of character that the option takes."""
RUN = "20260101T000000Z"
"""The name of the run of a fleet that a recording keeps; tools/golden.py gives it this time."""
GROUPS = 12

Call = tuple[str, tuple[str, ...]]
"""The name of a recording, and the arguments of `gdr`."""


def all_calls(inputs: Path) -> list[Call]:
    """Every call on every input. Those of the fleet need the run that `fleet_run` keeps."""
    found = [*calls_without_input(), *calls_of_fleet(inputs)]
    nodes = built_nodes(inputs)
    for name, path in nodes.items():
        found += calls_of_node(name, path)
        found.append((f"{name}.doctor.expect.json", _expecting("doctor", path, inputs)))
        found.append((f"{name}.fix.expect.json", _expecting("fix", path, inputs)))
    for (name, path), (other, beside) in pairwise(nodes.items()):
        found.append((f"{name}.report.{other}.html", ("report", path, beside, "-o", "-")))
        found.append((f"{name}.doctor.{other}.txt", ("doctor", path, beside)))
    for path in _files(inputs / "dumps"):
        found += calls_of_dump(path)
    for path in _files(inputs / "texts"):
        found += calls_of_text(path, text=True)
    for path in _files(inputs / "logs"):
        found += calls_of_text(path, text=False)
    for path in _files(inputs / "topologies"):
        found += calls_of_topology(path)
    for path in _files(inputs / "records"):
        found += calls_of_record(path)
    return found


def _files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _expecting(command: str, path: str, inputs: Path) -> tuple[str, ...]:
    return (command, path, "--json", "--expect", str(inputs / "expect.toml"))


# -- nodes ---------------------------------------------------------------------------------------------


def calls_of_node(name: str, path: str) -> Iterator[Call]:
    """Every command that takes a node."""
    for consumer in consumers():
        yield f"{name}.doctor.{consumer}.json", ("doctor", path, "--json", "--consumer", consumer)
        yield f"{name}.fix.{consumer}.json", ("fix", path, "--json", "--consumer", consumer)
    yield f"{name}.doctor.txt", ("doctor", path)
    yield f"{name}.doctor.verbose", ("doctor", path, "-v")
    yield f"{name}.doctor.all", ("doctor", path, "-v", "--consumer", "all")
    yield f"{name}.doctor.line", ("doctor", path, "--line")
    for style in STYLES:
        yield f"{name}.doctor.{style}", ("doctor", path, "-q", "--exit-style", style, "--require", "direct")
    for module in MODULES:
        yield f"{name}.modprobe.{module}.json", ("modprobe", module, path, "--json")
        yield f"{name}.modprobe.{module}.txt", ("modprobe", module, path)
    yield f"{name}.fix.txt", ("fix", path)
    yield f"{name}.fix.module.json", ("fix", path, "--module", "--json")
    yield f"{name}.fix.module.txt", ("fix", path, "--module")
    for plan in ("2", "3"):
        yield f"{name}.fix.plan-{plan}.txt", ("fix", path, "--plan", plan)
    for acs in ("unit", "command-line", "volatile"):
        yield f"{name}.fix.acs-{acs}.txt", ("fix", path, "--acs", acs)
    for command in ("topo", "estimate", "ps"):
        yield f"{name}.{command}.json", (command, path, "--json")
        yield f"{name}.{command}.txt", (command, path)
    yield f"{name}.topo.verbose", ("topo", path, "-v")
    yield f"{name}.topo.nccl.json", ("topo", path, "--json", "--nccl", "2.27.5")
    for form in ("--svg", "--write-nccl-xml"):
        yield f"{name}.topo{form}", ("topo", path, form)
    yield f"{name}.cost.json", ("estimate", path, "--model", "llama-3-70b", "--tp", "16", "--json")
    yield f"{name}.cost.txt", ("estimate", path, "--model", "llama-3-70b", "--tp", "16")
    yield f"{name}.report.html", ("report", path, "-o", "-")
    yield f"{name}.report.anonymous.html", ("report", path, "-o", "-", "--anonymize")
    yield f"{name}.export.prom", ("export", path)
    yield f"{name}.expect.toml", ("expect", path)
    for kind, form in configurations():
        if takes_target(kind, form):
            yield from _config(name, kind, form, path)


def _config(name: str, kind: str, form: str, *rest: str) -> Iterator[Call]:
    """A kind of configuration as a file with reasons, as a document, and for the other path."""
    words = ("config", kind, *rest, *(("--form", form) if form else ()))
    label = f"{name}.config.{kind}" + (f".{form}" if form else "")
    yield f"{label}.txt", (*words, "--explain")
    yield f"{label}.json", (*words, "--json")
    if kind in import_module("gdrkit.cli.config").USED_BY["--path"]:
        yield f"{label}.peermem", (*words, "--path", "peermem", "--explain")


def calls_of_dump(path: Path) -> Iterator[Call]:
    """The commands that take what rdma_topo printed."""
    for command in ("doctor", "topo", "fix"):
        yield f"dump-{path.name}.{command}", (command, str(path))
        yield f"dump-{path.name}.{command}.json", (command, str(path), "--json")


def calls_of_fleet(inputs: Path) -> Iterator[Call]:
    """What is printed of the run that was kept, in every form."""
    run = ("fleet", "doctor", "--run", RUN)
    for form in ("json", "csv", "junit", "nodes-only", "expect"):
        yield f"fleet.{form}", (*run, f"--{form}")
    yield "fleet.txt", run
    yield "fleet.expect.json", (*run, "--expect", "--json")
    yield "fleet.since", (*run, "--since", RUN)
    for number in range(1, GROUPS):
        yield f"fleet.group-{number}", (*run, "--group", str(number))
    yield "fleet.compare", (*run, "--compare", "gpu000", "gpu001")
    yield "fleet.report.html", ("fleet", "report", "--run", RUN, "-o", "-")
    yield "fleet.report.anonymous.html", ("fleet", "report", "--run", RUN, "-o", "-", "--anonymize")
    yield "fleet.export.prom", ("export", "--run", RUN)
    expected = ("--expect", str(inputs / "expect.toml"), "--csv")
    yield "fleet.expected.csv", ("fleet", "doctor", str(inputs / "fleet"), *expected)
    yield "fleet.manifest", ("fleet", "doctor", "gpu[1-3]", "--kubernetes", "--print-manifest")
    yield "fleet.expect.toml", ("expect", str(inputs / "fleet"))


def fleet_run(inputs: Path) -> Call:
    """The run that is kept: all nodes and the generated fleet."""
    folders = [str(inputs / name) for name in ("nodes", "fleet", "others") if (inputs / name).is_dir()]
    return "fleet.judged", ("fleet", "doctor", *folders, "--nodes-only")


# -- texts, topologies and records ---------------------------------------------------------------------


def calls_of_text(path: Path, text: bool) -> Iterator[Call]:
    """The commands that take a pasted text or a log."""
    kind = "text" if text else "log"
    yield f"{kind}-{path.name}.explain.json", ("explain", str(path), "--json")
    yield f"{kind}-{path.name}.explain.txt", ("explain", str(path))
    yield f"{kind}-{path.name}.nccl.json", ("nccl", str(path), "--json")
    yield f"{kind}-{path.name}.nccl.txt", ("nccl", str(path))
    yield f"{kind}-{path.name}.prove.json", ("prove", "log", "--log", str(path), "--json")
    yield f"{kind}-{path.name}.config-check", ("config", "check", str(path))
    if not text:
        yield f"log-{path.name}.explain.verbose", ("explain", str(path), "-v")
        yield f"log-{path.name}.nccl.all", ("nccl", str(path), "--all")
        yield f"log-{path.name}.prove.txt", ("prove", "log", "--log", str(path))
        yield f"log-{path.name}.report.html", ("report", str(path), "-o", "-")


def calls_of_topology(path: Path) -> Iterator[Call]:
    """The commands that take a topology file."""
    yield f"topo-{path.name}.json", ("topo", str(path), "--json")
    yield f"topo-{path.name}.txt", ("topo", str(path))
    for version in NCCL_VERSIONS:
        yield f"topo-{path.name}.{version}", ("topo", str(path), "--nccl", version)
    yield f"topo-{path.name}.estimate", ("estimate", str(path), "--json")
    yield f"topo-{path.name}.estimate.txt", ("estimate", str(path))
    for form in ("shell", "conf"):
        yield f"topo-{path.name}.nccl-env.{form}", ("config", "nccl-env", str(path), "--form", form)


def calls_of_record(path: Path) -> Iterator[Call]:
    """The commands that take a record of processes. `gdr watch` looks twice; a program in place of ssh,
    which tools/golden.py installs, sends the record."""
    yield f"ps-{path.name}.json", ("ps", str(path), "--json")
    yield f"ps-{path.name}.txt", ("ps", str(path))
    yield f"ps-{path.name}.verbose", ("ps", str(path), "-v")
    if path.name.startswith("h200-"):
        yield f"watch-{path.name}", ("watch", f"ssh://{path.stem}", "--count", "2", "--interval", "1")


# -- without input -------------------------------------------------------------------------------------


def calls_without_input() -> Iterator[Call]:
    """Help, manual pages, schemas, codes, completion, and configuration that is the same for every node."""
    from gdrkit.cli import COMMANDS
    from gdrkit.cli.schema import DOCUMENTS

    yield "help", ("--help",)
    yield "man", ("man",)
    for command in COMMANDS:
        name = command.replace(" ", "-")
        yield f"help.{name}", (*command.split(), "--help")
        yield f"man.{name}", ("man", name)
    for document in DOCUMENTS:
        yield f"schema.{document}", ("schema", document)
    for option in ((), ("--json",)):
        yield "codes" + "".join(option), ("codes", *option)
    for code in codes():
        yield f"codes.{code}", ("codes", code)
    for word in WORDS:
        yield f"codes.word.{word}", ("codes", word)
    for shell in ("bash", "zsh", "fish"):
        yield f"completion.{shell}", ("completion", shell)
    yield "config.list", ("config", "--list", "--explain")
    for kind, form in configurations():
        yield from _config("any", kind, form)
    for kind, form in (
        ("systemd", "export-service"),
        ("slurm-health", ""),
        ("npd", "plugin"),
        ("daemonset", ""),
    ):
        yield from _config("gdr", kind, form, *GDR)  # fmt: skip
    for consumer in consumers():
        words = ("config", "program-env", "--consumer", consumer, "--explain")
        yield f"any.config.program-env.{consumer}", words
    yield from _operators()


def _operators() -> Iterator[Call]:
    """Configuration of operators, with the options that change it."""
    for ofed in ("network-operator", "host"):
        for kind in ("gpu-operator", "network-operator"):
            words = ("config", kind, "--path", "peermem", "--ofed", ofed, "--explain")
            yield f"any.config.{kind}.{ofed}", words
    for version in ("v24.9.0", "v25.10.1", "v26.7.0"):
        yield f"any.config.gpu-operator.{version}", ("config", "gpu-operator", "--operator-version", version)
    hosts = ("--host", "10.0.0.1", "--host", "10.0.0.2")
    yield "any.config.imex.hosts", ("config", "imex", "--form", "nodes-config", *hosts, "--explain")
    parameter = ("--parameter", "nvidia:NVreg_RegistryDwords=PeerMappingOverride=1")
    yield "any.config.modprobe.parameter", ("config", "modprobe", *parameter, "--explain")


def configurations() -> list[tuple[str, str]]:
    """Each kind of configuration with each of its forms, or "" if it has only one."""
    kinds = import_module("gdrkit.repair.config").KINDS
    return [(name, form) for name, kind in kinds.items() for form in kind.forms or ("",)]


def takes_target(kind: str, form: str) -> bool:
    """Whether a kind is written for a node."""
    return kind not in import_module("gdrkit.cli.config").FOR_ANY_NODE and not form.startswith("export")


def consumers() -> tuple[str, ...]:
    """The programs that a verdict can be about."""
    parser = import_module("gdrkit.cli.report").parser()
    (found,) = (action for action in parser._actions if "--consumer" in action.option_strings)
    return tuple(found.choices)


def codes() -> list[str]:
    """The codes of findings, as `gdr codes` lists them."""
    from gdrkit.cli import main

    with contextlib.redirect_stdout(io.StringIO()) as out:
        main(["codes", "--json"])
    return [row["code"] for row in json.loads(out.getvalue())]
