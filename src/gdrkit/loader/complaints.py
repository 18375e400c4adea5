"""What every modprobe prints about its configuration before it does anything, even with --quiet.

Source: kmod libkmod/libkmod-config.c, conf_files_filter_out() and kmod_config_parse(); libkmod.c, kmod_new()
and log_filep(). The options of modprobe come into force only after the configuration was read.
"""

from __future__ import annotations

from gdrkit.evidence import Confidence
from gdrkit.facts.kmod import assumed_version, config_place
from gdrkit.facts.modprobe_config import Directive, ModprobeConfig, is_merged, is_weakdep
from gdrkit.facts.suse_modules import is_of_suse
from gdrkit.node import Node, if_missing

_WEAKDEP_SINCE = 33  # kmod NEWS, kmod 33
_USR_SINCE = 31  # before, it names /lib/modprobe.d: libkmod.c, default_config_paths
_DANGLING_SINCE = 34
_FILTER, _PARSE = "conf_files_filter_out", "kmod_config_parse"


def complaints(node: Node, config: ModprobeConfig) -> tuple[str, ...]:
    """The lines, in the order in which modprobe prints them."""
    unreadable = tuple(entry for entry in config.ignored if not _is_known(node, entry))
    if config.dangling and assumed_version(node) < _DANGLING_SINCE:
        node.cite(config.dangling[0], text="a link to nothing", confidence=Confidence.LIKELY)
    return (
        *_of_folders(node, config),
        *_of_links(node, config),
        *(_of_line(node, entry) for entry in unreadable),
    )


def _is_known(node: Node, entry: Directive) -> bool:
    """Whether this kmod knows a directive that others complain about: weakdep, and SUSE's own."""
    if entry.name == "allow_unsupported_modules" and if_missing(False, is_of_suse, node):
        return True
    return is_weakdep(entry.value) and assumed_version(node) >= _WEAKDEP_SINCE


def _of_folders(node: Node, config: ModprobeConfig) -> tuple[str, ...]:
    if not config.folders:
        return ()
    said = f"{config_place(node, _FILTER, 'folder')}Directories inside directories are not supported: "
    return tuple(said + path for folder in config.folders for path in _places(node, folder))


def _of_links(node: Node, config: ModprobeConfig) -> tuple[str, ...]:
    """Links to nothing. Older versions look at what fstatat(2) left of the entry before."""
    if not config.dangling or assumed_version(node) < _DANGLING_SINCE:
        return ()
    said = f"{config_place(node, _FILTER, 'folder')}Cannot stat directory entry: "
    return tuple(said + path for link in config.dangling for path in _places(node, link))


def _of_line(node: Node, entry: Directive) -> str:
    node.cite(entry.file, text=entry.value, line=entry.line)
    if entry.name in ("include", "config"):
        place = config_place(node, _PARSE, "old-command")
        return (
            f"{place}{_shown(node, entry.file)}: command {entry.name} is deprecated and not parsed anymore"
        )
    place = config_place(node, _PARSE, "bad-line")
    where = f"{place}{_shown(node, entry.file)} line {entry.line}"
    return f"{where}: ignoring bad line starting with '{entry.name}'"


def _places(node: Node, path: str) -> tuple[str, ...]:
    """The places where this kmod comes across an entry: it looks in /usr/lib and in /lib, which may be one
    folder."""
    shown = _shown(node, path)
    twice = shown.startswith("/usr/lib/modprobe.d/") and is_merged(node)
    return (shown, shown.removeprefix("/usr")) if twice else (shown,)


def _shown(node: Node, path: str) -> str:
    """A path as this kmod names it."""
    if path.startswith("usr/lib/modprobe.d/") and assumed_version(node) < _USR_SINCE:
        return f"/{path.removeprefix('usr/')}"
    return f"/{path}"
