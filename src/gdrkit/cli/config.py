"""`gdr config KIND [TARGET]` and `gdr config check FILE`: declarative configuration."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from gdrkit.cli.arguments import Parser, matching, print_notes, write, write_json, write_lines
from gdrkit.cli.exit import BLOCKED, OK, UNKNOWN, WARNING, WORSE
from gdrkit.formats.misspelt import did_you_mean

if TYPE_CHECKING:
    from argparse import Namespace

    from gdrkit.node import Node
    from gdrkit.repair.config import ConfigOutput, ConfigRefused, ConfigRequest
    from gdrkit.repair.config.check import CheckedFile
    from gdrkit.repair.config.request import SavedMachine

EXAMPLES = (
    "  gdr config --list                              list all kinds and their forms\n"
    "  gdr config gpu-operator                        merge patch for the ClusterPolicy, for dma-buf\n"
    "  gdr config gpu-operator --path peermem --ofed host --form json-patch\n"
    "  gdr config nccl-env bundle.tar.gz --form conf  NCCL settings for that node\n"
    "  gdr config systemd bundle.tar.gz -o gdrkit-acs.service\n"
    "  gdr config slurm-health --drain-on gpu-missing    drain also a node that lacks a GPU\n"
    "  gdr config systemd --form export-timer         run gdr export every five minutes\n"
    "  gdr config check cluster-policy.yaml           check a file; - reads standard input\n"
    "  gdr config check policy.yaml job.yaml          check files for one cluster, or a folder of them\n"
    "  gdr config check job.yaml --node node.tar.gz   also against a node, which may lack what it names\n\n"
    "exit codes: 0 written, or no faults; 1 the check found warnings; 2 refused, or the check found "
    "errors; 3 the check found unreadable parts, or nothing to judge"
)


USED_BY = {
    "--operator-version": ("gpu-operator", "network-operator", "check"),
    "--node": ("check",),
    "--ofed-version": ("network-operator",),
    "--driver-version": ("gpu-operator",),
    "--role": ("machineconfig", "butane"),
    "--interface": ("nccl-env",),
    "--ofed": ("gpu-operator", "network-operator"),
    "--parameter": ("modprobe", "gpu-operator"),
    "--consumer": ("modprobe", "gpu-operator", "program-env"),
    "--host": ("imex",),
    "--expect": ("slurm-health",),
    "--drain-on": ("slurm-health",),
    "--gdr": ("systemd", "slurm-health", "npd", "daemonset"),
    "--textfile-folder": ("systemd",),
    "--path": (
        "modules-load", "gpu-operator", "network-operator", "machineconfig", "butane", "talos", "cloud-init",
        "nccl-env", "program-env",
    ),
}  # fmt: skip
"""The kinds that use an option; the others refuse it."""
FOR_ANY_NODE = ("alerts", "grafana", "slurm-health", "npd", "daemonset")
"""Kinds that are the same for every node, and take no TARGET."""
WRITING = ("--form", "--explain", "--output")
"""The options of every kind, but not of check."""


def parser() -> Parser:
    parser = Parser(
        "config",
        "Writes declarative configuration for GPUDirect RDMA, or checks an existing file. Uses dma-buf with "
        "the open kernel modules, unless you give --path, or the node supports only peermem. Changes "
        "nothing on any machine.",
        EXAMPLES,
    )
    parser.add_argument("kind", nargs="?", metavar="KIND", help="a kind from --list, or check")
    parser.add_argument(
        "target",
        nargs="*",
        metavar="TARGET | FILE",
        help="a target of gdr doctor (nccl-env: of gdr estimate), / for this machine; for check, the files",
    )
    parser.add_argument("--list", action="store_true", help="list all kinds and their forms")
    parser.add_argument("--form", metavar="FORM", default="", help="form of the kind (see --list)")
    parser.add_argument("--path", choices=("dmabuf", "peermem"), default="", help="direct path to configure")
    parser.add_argument(
        "--ofed", choices=("network-operator", "host"), default="", help="what provides OFED for peermem"
    )
    parser.add_argument(
        "--operator-version", metavar="V", type=_release, help="version of the operator, such as v26.7.0"
    )
    image = matching(r"\w[\w.-]{0,127}", "a version")  # a tag of an image: OCI distribution specification
    parser.add_argument(
        "--ofed-version", metavar="V", type=image, help="version of the Network Operator's OFED"
    )
    parser.add_argument(
        "--driver-version", metavar="V", type=image, help="version of the NVIDIADriver's image"
    )
    parser.add_argument(
        "--role",
        metavar="ROLE",
        type=matching(r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?", "the name of a pool, such as worker"),
        help="MachineConfigPool on OpenShift",
    )
    parser.add_argument(
        "--interface", type=_interface, metavar="NAME", help="network interface for NCCL_SOCKET_IFNAME"
    )
    _add_programs(parser)
    _add_written(parser)
    _add_output(parser)
    for action in parser._actions:
        kinds = USED_BY.get(action.option_strings[-1]) if action.option_strings else None
        if kinds:
            action.help = f"{action.help} (for {', '.join(kinds)})"
    return parser


def _add_programs(parser: Parser) -> None:
    """The program, and the hosts of its rack."""
    parser.consumer()
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        type=matching(r"[0-9A-Za-z]([0-9A-Za-z.:-]{0,251}[0-9A-Za-z])?", "an address or the name of a host"),
        metavar="ADDRESS",
        help="a host of the rack, for its nodes-config",
    )


def _add_written(parser: Parser) -> None:
    """What is written into scripts, units and files: words that these read as nothing else."""
    parser.add_argument(
        "--parameter",
        action="append",
        default=[],
        type=_parameter,
        metavar="MODULE:NAME=VALUE",
        help="module parameter to set",
    )
    path = matching(
        r"(?=.{2,200}\Z)(?:/(?!\.{1,2}(?:/|\Z))[\w.+@-]+)+",  # systemd refuses . and .. in a path
        "an absolute path of letters, digits and +@-. without . or .. in it",
    )
    parser.add_argument("--gdr", metavar="PATH", type=path, help="where gdr is installed on the nodes")
    parser.codes("--drain-on", "also drain a node with a finding of this code")
    parser.add_argument(
        "--expect", metavar="FILE", type=path, help="where the file of gdr expect is on them"
    )
    parser.only_with("--expect", "--drain-on")
    parser.add_argument(
        "--textfile-folder", metavar="DIR", type=path, help="folder of node-exporter's textfile collector"
    )


def _add_output(parser: Parser) -> None:
    parser.add_argument("--explain", action="store_true", help="explain each line")
    parser.add_argument("-o", "--output", metavar="FILE", help="write to a file")
    parser.force("--output")
    parser.add_argument("--node", metavar="TARGET", help="a target of gdr doctor to compare with")
    parser.add_argument("-q", "--quiet", action="store_true", help="print no notes on standard error")
    parser.output()
    others = (*USED_BY, "--form", "--output", "--quiet", "--json")
    parser.never_with("--list", *others)


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    options.targets, options.target = options.target, next(iter(options.target), None)
    if options.list:
        if options.kind is not None:
            parser().error(f"--list lists all kinds; omit {options.kind!r}")
        from gdrkit.repair.config import KINDS

        write_lines(_listed(explain=options.explain), hanging=max(map(len, KINDS)) + 2)
        return OK
    if options.kind is None:
        parser().error("missing KIND; gdr config --list shows all kinds")
    for option, kinds in USED_BY.items():
        if options.kind not in kinds:
            parser().refuse(options, (option,), f"on {options.kind}; it is for {', '.join(kinds)}")
    if options.kind != "check" and options.targets[1:]:
        parser().error(f"{options.kind} takes one TARGET; omit {options.targets[1]!r}")
    if options.kind == "check":
        parser().refuse(options, WRITING, "on check, which writes nothing")
        return _check(options)
    from gdrkit.repair.config import KINDS, ConfigRefused, generate

    if options.kind not in KINDS:
        meant = did_you_mean(options.kind, [*KINDS, "check"])
        parser().error(f"unknown kind: {options.kind!r}{meant}; see --list")
    forms = KINDS[options.kind].forms
    if options.form and options.form not in forms:
        known = f"it has {', '.join(forms)}" if forms else "it has only one form"
        parser().error(f"--form: {options.kind} has no form {options.form!r}: {known}")
    parser().need_expectation(options, "--drain-on", options.drain_on)
    _check_choices(options)
    found = generate(options.kind, _request(options))
    if isinstance(found, ConfigRefused):
        return _refused(found, options)
    return _write(found, options)


def _check_choices(options: Namespace) -> None:
    """Exit with USAGE for an option that this form, or this path, does not use."""
    if options.kind == "gpu-operator" and options.form != "nvidiadriver":
        parser().refuse(options, ("--driver-version",), "without --form nvidiadriver")
    export = options.kind == "systemd" and options.form.startswith("export")
    if options.kind == "systemd" and options.form != "export-service":
        parser().refuse(options, ("--gdr", "--textfile-folder"), "without --form export-service")
    if options.kind == "imex" and options.form != "nodes-config":
        parser().refuse(options, ("--host",), "without --form nodes-config")
    if options.kind == "daemonset" and options.form == "image":
        parser().refuse(options, ("--gdr",), "with --form image, which has gdr in the image")
    if options.kind == "npd" and options.form != "plugin":
        parser().refuse(options, ("--gdr",), "without --form plugin")
    if options.target is not None and (export or options.kind in FOR_ANY_NODE):
        parser().error(f"TARGET has no effect on {options.kind}, which is the same for every node")
    if options.path == "dmabuf" or (not options.path and options.target is None):
        parser().refuse(options, ("--ofed",), "on dma-buf; it is for --path peermem")


def _listed(*, explain: bool) -> str:
    from gdrkit.repair.config import KINDS
    from gdrkit.repair.config.boot_files import REASONS

    width = max(map(len, KINDS))
    rows = [
        f"{kind.name:<{width}}  {kind.title}" + (f" ({', '.join(kind.forms)})" if kind.forms else "")
        for kind in KINDS.values()
    ]
    if explain:
        rows.append("\nmodule parameters that affect GPUDirect RDMA:")
        rows += [f"{module}:{name}\n  {why}" for (module, name), why in REASONS.items()]
    return "\n".join(rows) + "\n"


def _request(options: Namespace) -> ConfigRequest:
    from gdrkit.repair.config import ConfigRequest
    from gdrkit.repair.config.request import GDR, TEXTFILES

    saved = _saved(options)
    node = None if saved is not None else _node(options.target)
    return ConfigRequest(
        node=node,
        saved=saved,
        path=options.path,
        ofed=options.ofed,
        form=options.form,
        operator_version=options.operator_version or "",
        ofed_version=options.ofed_version or "",
        driver_version=options.driver_version or "",
        role=options.role or "worker",
        interface=options.interface or "",
        parameters=tuple(options.parameter),
        consumer=options.consumer,
        hosts=tuple(options.host),
        gdr=options.gdr or GDR,
        expect=options.expect or "",
        drain_on=tuple(dict.fromkeys(options.drain_on)),
        textfile_folder=options.textfile_folder or TEXTFILES,
    )


def _node(target: str | None) -> Node | None:
    """The node of a target; None without one."""
    if target is None:
        return None
    from gdrkit.evidence.target import open_host
    from gdrkit.node import Node

    host = open_host(target)
    print_notes(host)
    return Node(host)


def _saved(options: Namespace) -> SavedMachine | None:
    """A saved topology as the machine to write for; None for any other target. Only nccl-env takes one."""
    if options.kind != "nccl-env" or options.target is None:
        return None
    from gdrkit.cli.estimate import saved_topology

    found = saved_topology(options.target)
    if found is None:
        return None
    from gdrkit.fabric.topology.for_config import saved_machine

    return saved_machine(found)


def _interface(name: str) -> str:
    """A name that Linux gives a network interface: net/core/dev.c, dev_valid_name(), and printable."""
    if not re.fullmatch(r"[!-.0-9;-~]{1,15}", name) or name in (".", ".."):
        raise ArgumentTypeError(f"not a network interface: {name!r}")
    return name


def _release(text: str) -> str:
    """A tag of NVIDIA's operators: v26.7.0, 25.10.1, v25.7.0-beta.2."""
    if not re.fullmatch(r"v?\d{1,3}(\.\d{1,4}){1,3}([-+][\w.+-]{1,40})?", text, re.ASCII):
        raise ArgumentTypeError(f"not a version: {text!r}; expected one such as v26.7.0")
    return text


def _parameter(word: str) -> tuple[str, str, str]:
    """MODULE:NAME=VALUE. In modprobe.d(5) a backslash joins lines or is lost, and the kernel takes what is
    between two quotation marks as one word: lib/cmdline.c, next_arg()."""
    if (found := re.fullmatch(r"([\w-]{1,55}):(\w[\w-]*)=([!-~]*)", word, re.ASCII)) is None:
        raise ArgumentTypeError(f"{word!r}; expected MODULE:NAME=VALUE")
    if "\\" in found[3] or found[3].count('"') % 2:
        raise ArgumentTypeError(
            f"{word!r}; modprobe.d has no backslashes, and quotation marks only in pairs"
        )
    return found[1], found[2], found[3]


def _refused(found: ConfigRefused, options: Namespace) -> int:
    from gdrkit.evidence.quoting import quoted
    from gdrkit.repair.config.output import TARGET

    named = f" {quoted(options.target)}" if options.target else ""
    instead = found.instead.replace(f" {TARGET}", named)
    if options.json:
        _write_json({"schema": "gdrkit.config/1", "kind": found.kind, "refused": found.why,
                     "instead": instead})  # fmt: skip
    else:
        sys.stderr.write(f"gdr config {found.kind}: {found.why}\n")
        if instead:
            sys.stderr.write(f"  instead: {instead}\n")
    return BLOCKED


def _write(found: ConfigOutput, options: Namespace) -> int:
    from gdrkit.repair.config.output import explained, head, rendered

    text = rendered(found, explain=options.explain)
    if options.output is not None:
        from gdrkit.cli.files import write_output

        write_output(options.output, text.encode(), force=options.force, inputs=(options.target,))
    if options.json:
        _write_json(_document(found, text))
    elif options.output is None:
        write(text)
    if not options.quiet and not found.commentable:
        text = explained(found) if options.explain else "".join(f"{line}\n" for line in head(found))
        sys.stderr.write(text)
    return OK


def _document(found: ConfigOutput, text: str) -> dict[str, object]:
    return {
        "schema": "gdrkit.config/1",
        "kind": found.kind,
        "form": found.form,
        "title": found.title,
        "file": found.file,
        "use": found.use,
        "assumed": found.assumed,
        "notes": found.notes,
        "text": text,
        "lines": [{"text": line.text, "why": line.why} for line in found.lines],
    }


def _write_json(document: object) -> None:
    write_json(document, indent=2)


MANIFESTS = (".yaml", ".yml", ".json")
LIMIT_BYTES = 64 << 20
"""A dump of every manifest of a large cluster has some 10 MB."""


def _check(options: Namespace) -> int:
    from gdrkit.cli.files import files_of, read_input
    from gdrkit.repair.config.check import check_together

    if not options.targets:
        parser().error("missing FILE to check; - reads standard input")
    names = dict.fromkeys(name for target in options.targets for name in files_of(target, MANIFESTS))
    contents = {"<stdin>" if name == "-" else name: read_input(name, LIMIT_BYTES) for name in names}
    checked = check_together(contents, options.operator_version or "", _node(options.node))
    for found in checked:
        if options.json:
            _write_json(found.document())
            continue
        write("".join(f"{line}\n" for line in found.lines()))
        if not options.quiet:
            sys.stderr.write(found.summary() + "\n")
    code = max(map(_code, checked), key=WORSE.index)
    if code == OK and options.node is None and not (options.json or options.quiet):
        sys.stderr.write("--node BUNDLE, a file of gdr collect, also compares with that node\n")
    return code


def _code(found: CheckedFile) -> int:
    if found.is_not_judged:
        return UNKNOWN
    return {"error": BLOCKED, "unreadable": UNKNOWN, "warning": WARNING, "note": OK, "": OK}[found.worst]
