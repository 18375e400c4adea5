"""Random combinations of faults: module, signature, keyring, boot profile, modprobe.d, dependencies.

Many cases share a boot. The seed is printed; the same seed makes the same cases and the same names.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TypeVar

import msgspec
from msgspec import Struct

from lab import golden
from lab.case import UPDATES, Case, ModuleFile
from lab.kernels import Kernel
from lab.profiles import profile
from lab.session import starts
from lab.sources import source
from lab.variants import DEFAULT_KEY, Variant

T = TypeVar("T")

PROFILES = (
    "plain",
    "sig-enforce",
    "lockdown-integrity",
    "sb-mok",
    "sb-db",
    "sb-microsoft",
    "lockdown-and-enforce",
    "sb-db-revoked",
    "sb-mok-revoked",
)
_BATCH = 80  # cases per boot


class Shape(Struct, frozen=True):
    """Modules that belong together: first the one to load, then its dependencies, each with its choices."""

    choices: tuple[tuple[str, ...], ...]
    symbols: tuple[str, ...] = ()  # symbols whose CRC the first module expects


_SHAPES = (
    Shape((("plain",),), ("module_layout",)),
    Shape((("talker",),), ("_printk", "module_layout")),
    Shape((("taker",),), ("param_ops_int", "module_layout")),
    Shape((("gpl-user",),), ("debugfs_remove",)),
    Shape((("orphan",),)),
    Shape((("weak-orphan",),)),
    Shape((("wisher",), ("plain", "")), ("module_layout",)),
    Shape((("aliased",),)),
    Shape(
        (("consumer",), ("provider", "provider", "provider", "provider-again", "rival", "")),
        ("{symbol:alpha}",),
    ),
    Shape(
        (("consumer-gpl",), ("provider", "provider", "provider-again", "")),
        ("{symbol:alpha}", "{symbol:beta}"),
    ),
    Shape((("weak-consumer",), ("provider", "provider-again", ""))),
    Shape((("consumer",), ("provider",), ("rival",)), ("{symbol:alpha}",)),
    Shape((("top",), ("middle",), ("provider", "provider", "provider-again", "")), ("{symbol:gamma}",)),
    Shape((("space-user",), ("spaced", "spaced", "spaced", "")), ("{symbol:delta}",)),
    Shape(
        (
            ("peermem-full", "peermem-full", "peermem-named", "peermem-stub"),
            (
                "ofed",
                "ofed",
                "ofed-listing",
                "ofed-rebuilt",
                "ofed-refusing",
                "ofed-without",
                "ofed-second",
                "",
            ),
            ("gpu", "gpu", "gpu-new", ""),
        )
    ),
    Shape((("legacy",), ("ofed", "ofed-listing"), ("gpu",), ("peermem-named", ""))),
    Shape((("wild",), ("wilder", ""))),
)
_ANSWERS = (
    "EINVAL",
    "ENODEV",
    "EPERM",
    "ENOENT",
    "EEXIST",
    "EBUSY",
    "ENOEXEC",
    "EKEYREJECTED",
    "ENOTSUPP",
    "+3",
)
_NO_ELF = ("truncate", "garbage", "empty", "architecture")
_DAMAGES = (
    "flip", "strip", "cut-magic", "flip-signature", "long-signature", "id-type", "reserved", "twice",
    "append",
)  # fmt: skip
_FOLDERS = (UPDATES, UPDATES, UPDATES, "updates", "extra", "kernel/drivers/misc")
_CONFIGURATION = (
    "blacklist {name}",
    "install {name} /bin/true",
    "install {name} /bin/false",
    "install {name} exit 3",
    "install {name} /usr/sbin/modprobe --ignore-install {name}",
    "options {name} {{parameter:number}}=5",
    "options {name} {{parameter:number}}=five",
    "options {name} unheard_of=1",
    "softdep {name} pre: nothing_of_that_name",
    "softdep {name} pre: {other}",
    "softdep {name} post: {other}",
    "alias lab-nickname {name}",
    "alias lab-nickname {name}\noptions lab-nickname {{parameter:number}}=five",
    "# install {name} /bin/false",
    "  # install {name} /bin/false",
    "option {name} {{parameter:number}}=five",
    "include /etc/other",
    "\ufeffblacklist {name}",
    "blacklist {name}\r",
    "install {name} /bin/false\r",
    "install {name} /usr/sbin/modprobe -r {other}; /usr/sbin/modprobe -i {name}",
    "install {name} exec /usr/sbin/modprobe -qi {name} >/dev/null # loads",
    "install {name} /usr/sbin/modprobe --ignore {name} $CMDLINE_OPTS",
    "install {name} /usr/sbin/modprobe -a {other} nothing_of_that_name",
    "install {name} /bin/fal\\se",
    "options {name} nvidia.X=1",
    "options {name} {{parameter:number}} = 5",
    "options {name} {{parameter:number}}=5 -- {{parameter:number}}=five",
    "options {name} {{parameter:number}}=5\u00a0{{parameter:flag}}",
    "options {name} dyndbg=+p",
    "options {name} dyndbg=nonsense",
)
_ARGUMENTS = (
    "{parameter:number}=7", "{parameter:number}=seven", "{parameter:flag}", "{parameter:flag}=perhaps",
    "{parameter:count}=-4", "unheard_of=2", "{parameter:words}=a", "{parameter:number}=4294967296",
    "nvidia.X=1", "=5", "--", "dyndbg=+p", "dyndbg=+q", "async-probe", '"{parameter:number}=5"', "a.dyndbg",
)  # fmt: skip
_PACKINGS = {
    "": ("",),
    "xz": (
        "", "", "streams", "stream-and-none", "padded", "padded-oddly", "trailing", "trailing-few", "delta",
        "x86", "arm", "two", "none", "crc64", "sha256",
    ),
    "zst": ("", "sized", "sized", "streams", "stream-and-none", "trailing"),
    "gz": ("", "streams", "trailing"),
}  # fmt: skip
_INDEXES = ("dep", "alias", "symbols", "builtin", "builtin.alias")


class _Dice:
    """Choices with odds, from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def one(self, things: Sequence[T]) -> T:
        return self.random.choice(things)

    def chance(self, odds: float) -> bool:
        return self.random.random() < odds


def generate(seed: int, count: int) -> tuple[Case, ...]:
    """`count` cases; each depends only on the seed and its number."""
    return tuple(
        _case(f"random-{seed}-{number}", _Dice(seed * 1_000_003 + number)) for number in range(count)
    )


def _case(name: str, dice: _Dice) -> Case:
    shape = dice.one(_SHAPES)
    sources = [choice for choice in (dice.one(row) for row in shape.choices) if choice]
    faulty = dice.random.randrange(len(sources))
    placed: list[ModuleFile] = []
    for number, source_name in enumerate(sources):
        symbols = shape.symbols if number == 0 else ()
        variant = _variant(source_name, symbols, dice, odds=0.5 if number == faulty else 0.06)
        if number and dice.chance(0.1):  # its users inherit the taint
            variant = _proprietary(variant)
        placed.append(ModuleFile(variant, dice.one(_FOLDERS), _file(variant)))
    if dice.chance(0.12):  # a second copy elsewhere
        copy = _variant(sources[0], shape.symbols, dice, odds=0.6)
        where = dice.one([at for at in set(_FOLDERS) if at != placed[0].at])
        placed.append(ModuleFile(copy, where, _file(copy)))
    modules = [f"{{module:{source(row).identity}}}" for row in sources]
    before, after = _disorder(placed, dice)
    return Case(
        name=name,
        modules=tuple(placed),
        load=_asked(modules, dice),
        judged=modules[0],
        config=_config(modules, dice),
        arguments=tuple(dice.one(_ARGUMENTS) for _ in range(dice.one((0, 0, 1, 2))))
        if "taker" in sources[0]
        else (),
        flags=("-b",) if dice.chance(0.05) else ("-i",) if dice.chance(0.03) else (),
        before=(*before, *_before(modules, placed, dice)),
        after=after,
        depmod=not dice.chance(0.02),
        real_names=dice.chance(0.5),
        groups=("random",),
    )


def _proprietary(variant: Variant) -> Variant:
    if set(variant.tamper) & {*_NO_ELF, "license:Pro"}:
        return variant
    return msgspec.structs.replace(variant, tamper=(*variant.tamper, "license:Pro"))


def _file(variant: Variant) -> str:
    return f"{{module:{source(variant.source).identity}}}"


def _variant(name: str, symbols: tuple[str, ...], dice: _Dice, odds: float) -> Variant:
    key = dice.one((DEFAULT_KEY, DEFAULT_KEY, DEFAULT_KEY, "lab", "unknown", "second", ""))
    if not dice.chance(odds):
        spaces = ("namespace:space_one",) if name == "space-user" and dice.chance(0.3) else ()
        return Variant(name, key=key, tamper=spaces)
    tamper = _tamper(name, symbols, dice) if dice.chance(0.7) else ()
    whole = not set(tamper) & set(_NO_ELF)
    damage = (dice.one(_DAMAGES),) if whole and key not in ("", DEFAULT_KEY) and dice.chance(0.4) else ()
    compression = dice.one(("", "", "xz", "xz", "zst", "gz")) if "truncate" not in tamper else ""
    return Variant(
        name,
        answer=dice.one(_ANSWERS) if whole and not tamper and dice.chance(0.6) else "0",
        tamper=tamper,
        key=key,
        digest=dice.one(("sha256", "sha256", "sha512", "sha384", "sha1")),
        damage=damage,
        compression=compression,
        packing=dice.one(_PACKINGS[compression]),
        seal="lab" if compression and dice.chance(0.15) else "",
    )


def _tamper(name: str, symbols: tuple[str, ...], dice: _Dice) -> tuple[str, ...]:
    if dice.chance(0.2):
        return (dice.one(_NO_ELF),)
    chosen = []
    if dice.chance(0.35):
        chosen.append("license:Pro")
    if dice.chance(0.4):
        chosen.append(dice.one(("vermagic-release", "vermagic-flags")))
    if name == "space-user" and dice.chance(0.5):
        chosen.append("namespace:space_one")
    if symbols and dice.chance(0.4):
        chosen.append(f"{dice.one(('crc', 'crc', 'no-crc'))}:{dice.one(symbols)}")
    elif dice.chance(0.2):
        chosen.append("no-versions")
    return tuple(chosen)


def _config(modules: list[str], dice: _Dice) -> str:
    if not dice.chance(0.3):
        return ""
    lines = []
    for _ in range(dice.one((1, 1, 2))):
        name = dice.one(modules)
        lines.append(dice.one(_CONFIGURATION).replace("{name}", name).replace("{other}", "{module:other}"))
    return "\n".join(lines).replace("{{", "{").replace("}}", "}") + "\n"


def _asked(modules: list[str], dice: _Dice) -> str:
    """The name for modprobe: mostly the module's own."""
    if dice.chance(0.9):
        return modules[0]
    return dice.one(
        ("lab-nickname", "{alias:handle}", "symbol:{symbol:alpha}", "lab:v0001d0000001a0x", "unix")
    )


_Steps = tuple[tuple[str, ...], ...]


def _disorder(placed: list[ModuleFile], dice: _Dice) -> tuple[_Steps, _Steps]:
    """What may be wrong beside the modules, as commands that make it so and that undo it: an index, a link
    of modprobe.d, a module file that is a link out of the tree, a copy under another name."""
    tree, conf, away = "/usr/lib/modules/KERNEL", "/etc/modprobe.d/link.conf", "/lab/away"
    depmod = ("/usr/sbin/depmod", "-a")
    first = placed[0]
    ending = ".ko" + (f".{first.variant.compression}" if first.variant.compression else "")
    file = f"{tree}/{first.at}/{first.file}{ending}"
    match dice.random.randrange(25):
        case 0:
            index = f"{tree}/modules.{dice.one(_INDEXES)}.bin"
            return (("/bin/busybox", "rm", index),), (depmod,)
        case 1:
            index = f"{tree}/modules.{dice.one(_INDEXES)}.bin"
            size = dice.one(("0", "8"))
            return (("/bin/busybox", "truncate", "-s", size, index),), (depmod,)
        case 2:
            target = dice.one(("link.conf", "/dev/null", "/nosuch", "/etc/modprobe.d"))
            return (("/bin/busybox", "ln", "-sfn", target, conf),), (("/bin/busybox", "rm", "-f", conf),)
        case 3:
            steps = (
                ("mkdir", "-p", away),
                ("mv", file, f"{away}/x{ending}"),
                ("ln", "-s", f"{away}/x{ending}", file),
            )
            return tuple(("/bin/busybox", *step) for step in steps), (("/bin/busybox", "rm", "-rf", away),)
        case 4:
            copy = f"{tree}/{UPDATES}/lab-copy{ending}"
            made = (
                ("/bin/busybox", "mkdir", "-p", f"{tree}/{UPDATES}"),
                ("/bin/busybox", "cp", file, copy),
                depmod,
            )
            return made, (("/bin/busybox", "rm", "-f", copy), depmod)
    return (), ()


def _before(modules: list[str], placed: list[ModuleFile], dice: _Dice) -> tuple[tuple[str, ...], ...]:
    steps = []
    if dice.chance(0.12):
        steps.append(("/usr/sbin/modprobe", "-q", dice.one(modules)))
    if len(placed) > 1 and dice.chance(0.06):
        gone = dice.one(placed[1:])
        ending = ".ko" + (f".{gone.variant.compression}" if gone.variant.compression else "")
        steps.append(("/bin/busybox", "rm", f"/usr/lib/modules/KERNEL/{gone.at}/{gone.file}{ending}"))
    return tuple(steps)


def bootable(judge: Kernel) -> tuple[str, ...]:
    """The profiles for random cases that work with this kernel."""
    return tuple(name for name in PROFILES if starts(judge, profile(name)))


def batches(
    seed: int, count: int, profiles: tuple[str, ...] = PROFILES
) -> list[tuple[str, tuple[Case, ...]]]:
    """The cases by profile, distributed in turn; at least ten for each profile."""
    cases = generate(seed, count)
    profiles = profiles[: max(1, count // 10)]
    dealt = [(name, cases[number :: len(profiles)]) for number, name in enumerate(profiles)]
    return [(name, rows[at : at + _BATCH]) for name, rows in dealt for at in range(0, len(rows), _BATCH)]


def keep(home: Path, recorded: golden.Golden, contents: dict[str, bytes]) -> None:
    """Save a session in its own file, for later inspection."""
    home.mkdir(parents=True, exist_ok=True)
    name = f"{recorded.profile.name}-{recorded.seed}-{recorded.cases[0].name.rsplit('-', 1)[1]}"
    (home / f"{name}.msgpack").write_bytes(msgspec.msgpack.encode((recorded, contents)))


def kept(path: Path) -> tuple[golden.Golden, dict[str, bytes]]:
    """A session that `keep` saved."""
    return msgspec.msgpack.decode(path.read_bytes(), type=tuple[golden.Golden, dict[str, bytes]])
