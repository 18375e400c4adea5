"""Settings of NCCL and UCX: configuration files of the node and of users, and the environment of jobs.

A file of the node applies to every job that does not override it. A user's file and a job's log apply to
that user or job only. Sources: NCCL src/misc/param.cc, initEnvFunc() and setEnvFile(); UCX
src/ucs/config/parser.c, ucs_config_parse_config_files(). UCX reads further files that are not read here:
next to its library, in the home folder, in $UCX_CONFIG_DIR and in the working folder. Each overrides those
before it.
"""

from __future__ import annotations

import re

from msgspec import Struct

from gdrkit.evidence import EvidenceAbsent
from gdrkit.formats.regex import regex
from gdrkit.node import Node, fact, if_missing
from gdrkit.programs.nccl import log as nccl_log

NCCL_CONF = "etc/nccl.conf"
UCX_CONF = "etc/ucx/ucx.conf"
SYSTEM = "etc/environment"
SHELL = "proc/self/environ"
NODE_FILES = (NCCL_CONF, UCX_CONF, SYSTEM)


class ProgramSetting(Struct, frozen=True):
    """A variable, its value, and the file and line that set it."""

    name: str
    value: str
    source: str
    line: int


class Environment(Struct, frozen=True):
    """What one source sets. `scope` is node (every job here), user, or job (the job that wrote the log)."""

    source: str
    scope: str
    settings: tuple[ProgramSetting, ...]
    nccl_version: str = ""  # of a job, where its log shows it

    def get(self, name: str) -> ProgramSetting | None:
        """The setting in effect: the first, since NCCL never overwrites a variable that is set."""
        return next((setting for setting in self.settings if setting.name == name), None)


@fact
def sources(node: Node) -> tuple[str, ...]:
    """Files that may hold settings: the node's files always, users' files and jobs' logs where visible."""
    return (*NODE_FILES, *_user_files(node), *nccl_log.logs(node))


def nccl_sources(node: Node) -> tuple[str, ...]:
    """The sources that NCCL reads."""
    return tuple(source for source in sources(node) if source != UCX_CONF)


def process_sources(node: Node) -> tuple[str, ...]:
    """The sources of the environment that any program is started with: not files that one library reads."""
    return (SYSTEM, *((SHELL,) if if_missing(False, node.exists, SHELL) else ()))


def _user_files(node: Node) -> list[str]:
    """Users' files affect only their own jobs, so they are optional evidence: visible ones are read."""
    homes = [f"home/{name}" for name in if_missing((), node.list, "home")]
    paths = (SHELL, *(f"{home}/.nccl.conf" for home in ("root", *homes)))
    return [path for path in paths if if_missing(False, node.exists, path)]


@fact
def environment(node: Node, source: str) -> Environment:
    """What a source sets. An absent file sets nothing; one that was not collected raises EvidenceMissing."""
    if source.startswith(nccl_log.FOLDER):
        return _job(node, source)
    scope = "node" if source in NODE_FILES else "user"
    try:
        text = node.text(source)
    except EvidenceAbsent:
        return Environment(source, scope, ())
    if source == SHELL:
        return Environment(source, scope, parse_conf(text.replace("\0", "\n"), source))
    if source == SYSTEM:  # pam_env(8): surrounding blanks, quotes and the word export are removed
        text = re.sub(r"(?m)^[ \t]*(?:export[ \t]+)?", "", text)
        settings = parse_conf(text, source)
        return Environment(source, scope, tuple(_unquoted(setting) for setting in settings))
    if source == UCX_CONF:
        return Environment(source, scope, parse_ucx_conf(text, source))
    return Environment(source, scope, parse_conf(text, source))


def _unquoted(setting: ProgramSetting) -> ProgramSetting:
    return ProgramSetting(setting.name, setting.value.strip().strip("\"'"), setting.source, setting.line)


def parse_conf(text: str, source: str) -> tuple[ProgramSetting, ...]:
    """`NAME=VALUE` lines as NCCL reads them: the name is all before the first `=`, the value all after it.

    Blanks, quotes and a carriage return are part of them. A backslash at the end does not join lines. `#`
    starts a comment only at the start of a line. Source: NCCL src/misc/param.cc, setEnvFile(), the same from
    2.12.10 to 2.30.7, except that `#` starts a comment since 2.23.4. Before, such a line set a variable that
    NCCL never reads.
    """
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        name, equals, value = line.partition("\0")[0].partition("=")
        if name and equals and not name.startswith("#"):
            found.append(ProgramSetting(name, value, source, number))
    return tuple(found)


_BLANK = " \t\n\v\f\r"  # isspace(3)
_SIGN, _COMMENT = regex(r"[=:]"), regex(r"(?<=[ \t\v\f\r]);")
_FILTERS = ("CPU vendor", "CPU model", "Product name")


def parse_ucx_conf(text: str, source: str) -> tuple[ProgramSetting, ...]:
    """What a UCX configuration file sets: each variable as on its last line.

    Blanks around a name and a value are removed; `:` means the same as `=`. `#` and `;` start a comment at
    the start of a line, `;` also after a blank. An indented line is another value of the variable before it.
    Settings of a section that applies only to some processor or machine are left out.

    Source: UCX src/ucs/config/ini.c, ini_parse_stream(), the same from 1.14.0 to 1.22.0; parser.c,
    ucs_config_parse_config_file_line(); sections can be limited to a processor or machine since 1.17.
    """
    found: dict[str, ProgramSetting] = {}
    name, filtered = "", False
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        stripped = line.strip(_BLANK)
        if not stripped or stripped[0] in "#;":
            continue
        if name and line[0] in _BLANK:
            value = stripped
        elif stripped[0] == "[":
            name, filtered = "", False
            continue
        else:
            parts = _SIGN.split(_COMMENT.split(stripped, 1)[0], 1)
            if len(parts) == 1:
                continue
            name, value = (part.strip(_BLANK) for part in parts)
        filtered = filtered or name in _FILTERS
        if name and not filtered:
            found[name] = ProgramSetting(name, value, source, number)
    return tuple(found.values())


def _job(node: Node, source: str) -> Environment:
    from gdrkit.programs.nccl.log_records import Variable

    log = nccl_log.nccl_log(node, source)
    settings = tuple(
        ProgramSetting(found.record.name, found.record.value, source, found.line)
        for found in log.all(Variable)
    )
    return Environment(source, "job", settings, log.version)


# -- values --------------------------------------------------------------------------------------------
