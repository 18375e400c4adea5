"""The result of a prediction."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.evidence import Confidence


class Prediction(Struct, frozen=True, kw_only=True):
    """The predicted output and exit code of modprobe, and the kernel log."""

    module: str  # the requested one, with underscores
    exit_code: int
    loaded: bool  # whether the kernel lists the module afterwards, as it lists none that is built in
    stderr: tuple[str, ...] = ()
    kernel_log: tuple[str, ...] = ()
    reason: str = ""  # the code of the finding that stops it; "" if none does
    confidence: Confidence = Confidence.CERTAIN
    unless: tuple[str, ...] = ()  # codes of checks that could not be made; one of them may fail first
    assumes: tuple[
        str, ...
    ] = ()  # modules whose init is assumed to return 0, because its result is not known
    certain_lines: int | None = None  # of the log, before the first of them; None: all
    inserted: tuple[str, ...] = ()  # the kernel's names of all modules that are loaded, in order
    tainted: int  # the kernel's taints afterwards, as in /proc/sys/kernel/tainted
    result_unknown: bool = False  # only an init or command of unknown result may stop it
    builtin: bool = False  # the module is a part of the kernel image

    @property
    def undecided(self) -> bool:
        """Whether what is not known may change the outcome. A module that is refused is refused, whichever
        check comes first; only an install line that was not collected could do otherwise."""
        succeeds = self.loaded or not self.exit_code
        return self.result_unknown or bool(self.unless if succeeds else "install-override" in self.unless)


UNSEEN = -1
"""The error of a module that is refused whatever is in its file."""


class LoadRefusal(Struct, frozen=True):
    """Why a module was not loaded."""

    errno: int  # UNSEEN if it depends on a file that was not collected
    reason: str
    said: tuple[str, ...] = ()  # lines of modprobe before its error
