"""modprobe.d: blacklists, install lines, soft dependencies, aliases, and their precedence."""

from __future__ import annotations

from lab.case import Case, one

_PLAIN = (one("plain"),)
_PAIR = (one("provider"), one("consumer"))
_USER = "{module:consumer}"
_SOFT_USER = "{module:wisher}"


def _plain(name: str, config: str, *flags: str, why: str = "") -> Case:
    return Case(name=name, modules=_PLAIN, config=config, flags=flags, why=why)


CASES = (
    _plain("blacklist", "blacklist {module:plain}\n", why="names given outright ignore it"),
    _plain("blacklist-with-b", "blacklist {module:plain}\n", "-b"),
    _plain("install-true", "install {module:plain} /bin/true\n"),
    _plain("install-false", "install {module:plain} /bin/false\n"),
    _plain("install-false-ignored", "install {module:plain} /bin/false\n", "-i"),
    Case(
        name="install-missing-command",
        modules=_PLAIN,
        config="install {module:plain} /bin/nosuchcommand\n",
        open_because="whether the command exists, and what it does",
    ),
    _plain("install-exit-7", "install {module:plain} exit 7\n"),
    _plain(
        "install-calls-modprobe",
        "install {module:plain} /usr/sbin/modprobe --ignore-install {module:plain} $CMDLINE_OPTS\n",
    ),
    Case(
        name="install-of-absent",
        why="an install line makes a module known of which there is no file",
        config="install {module:plain} /usr/sbin/modprobe --ignore-install {module:plain}\n",
    ),
    Case(
        name="alias-of-absent",
        why="so does an alias",
        config="alias lab-nickname {module:plain}\n",
        load="lab-nickname",
        judged="{module:plain}",
    ),
    _plain("install-and-blacklist", "install {module:plain} /bin/false\nblacklist {module:plain}\n", "-b"),
    _plain(
        "install-continued",
        "install {module:plain} \\\n  /bin/false\n",
        why="a line goes on after a backslash",
    ),
    _plain("install-commented", "# install {module:plain} /bin/false\n"),
    _plain("config-nonsense", "nonsense {module:plain}\ninstall\n", why="modprobe complains and goes on"),
    Case(name="blacklist-dependency", modules=_PAIR, load=_USER, config="blacklist {module:provider}\n"),
    Case(
        name="blacklist-dependency-b",
        modules=_PAIR,
        load=_USER,
        config="blacklist {module:provider}\n",
        flags=("-b",),
    ),
    Case(
        name="install-false-dependency",
        modules=_PAIR,
        load=_USER,
        config="install {module:provider} /bin/false\n",
    ),
    Case(
        name="install-true-dependency",
        why="the dependency is not loaded, its symbol is missing",
        modules=_PAIR,
        load=_USER,
        config="install {module:provider} /bin/true\n",
    ),
    Case(name="softdep-missing", modules=_PLAIN, config="softdep {module:plain} pre: nosuchmodule_at_all\n"),
    Case(name="softdep-pre", modules=(one("plain"), one("wisher")), load=_SOFT_USER),
    Case(name="softdep-pre-fails", modules=(one("plain", answer="EIO"), one("wisher")), load=_SOFT_USER),
    Case(
        name="softdep-post",
        modules=(one("plain"), one("other")),
        config="softdep {module:plain} post: {module:other}\n",
    ),
    Case(
        name="alias-of-module", modules=(one("aliased"),), load="{alias:handle}", judged="{module:aliased}"
    ),
    Case(
        name="alias-in-config",
        modules=_PLAIN,
        config="alias lab-nickname {module:plain}\n",
        load="lab-nickname",
        judged="{module:plain}",
    ),
    Case(
        name="alias-blacklisted",
        modules=(one("aliased"),),
        load="{alias:handle}",
        judged="{module:aliased}",
        config="blacklist {module:aliased}\n",
        why="an alias obeys the blacklist",
    ),
    Case(
        name="config-precedence",
        why="a file in /etc hides the one of the same name below /usr/lib",
        modules=_PLAIN,
        texts=(
            ("/etc/modprobe.d/same.conf", "# nothing\n"),
            ("/usr/lib/modprobe.d/same.conf", "install {module:plain} /bin/false\n"),
        ),
    ),
    Case(
        name="config-run",
        modules=_PLAIN,
        texts=(("/run/modprobe.d/case.conf", "install {module:plain} /bin/false\n"),),
    ),
    Case(
        name="config-not-conf",
        why="only *.conf counts",
        modules=_PLAIN,
        texts=(("/etc/modprobe.d/case.disabled", "install {module:plain} /bin/false\n"),),
    ),
    Case(
        name="install-twice",
        why="the first file by name wins",
        modules=_PLAIN,
        texts=(
            ("/etc/modprobe.d/a.conf", "install {module:plain} /bin/false\n"),
            ("/etc/modprobe.d/b.conf", "install {module:plain} /bin/true\n"),
        ),
    ),
    Case(
        name="kernel-blacklist",
        why="the kernel's own list, which modprobe's is not",
        modules=_PLAIN,
        append="module_blacklist={module:plain}",
    ),
    Case(
        name="kernel-blacklist-vermagic",
        why="the list is asked before anything is compared",
        modules=(one("plain", tamper=("vermagic-flags",)),),
        append="module_blacklist={module:plain}",
    ),
    Case(
        name="kernel-blacklist-architecture",
        why="but after the file was found to be a module",
        modules=(one("plain", tamper=("architecture",)),),
        append="module_blacklist={module:plain}",
    ),
    Case(
        name="boot-blacklist",
        why="modprobe's own list, from the kernel's command line",
        modules=_PLAIN,
        append="modprobe.blacklist={module:plain}",
    ),
    Case(
        name="boot-blacklist-with-b",
        modules=_PLAIN,
        append="modprobe.blacklist={module:plain}",
        flags=("-b",),
    ),
    Case(
        name="boot-parameter-bad",
        why="modprobe passes on what the kernel's command line says of a module",
        modules=(one("taker"),),
        load="{module:taker}",
        append="{module:taker}.{parameter:number}=five",
    ),
    Case(
        name="modules-disabled",
        modules=_PLAIN,
        before=(("/bin/busybox", "sysctl", "-q", "-w", "kernel.modules_disabled=1"),),
        last=True,
        groups=("disabled",),
    ),
    Case(
        name="modules-disabled-garbage",
        modules=(one("plain", tamper=("garbage",), file="{module:plain}"),),
        last=True,
        groups=("disabled",),
    ),
    Case(name="modules-disabled-absent", last=True, groups=("disabled",)),
)
