"""modprobe itself: its options, the order in which it loads modules, and its messages.

Source: kmod tools/modprobe.c, insmod(); libkmod-module.c, kmod_module_probe_insert_module().
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from gdrkit.evidence import Confidence, EvidenceAbsent, EvidenceMissing, MissingReason
from gdrkit.facts import install_command
from gdrkit.facts.kernel import release
from gdrkit.facts.kmod import command_place, dependency_place, insertion_place
from gdrkit.facts.modprobe_config import ModprobeConfig, configuration
from gdrkit.facts.module_state import kernel_name
from gdrkit.facts.modules import (
    builtin,
    dependencies,
    index_was_collected,
    is_loaded,
    missing_dependency,
    module_path,
    require_index,
)
from gdrkit.formats.module_name import canonical
from gdrkit.loader.complaints import complaints
from gdrkit.loader.effort import STEP_BYTES, Effort
from gdrkit.loader.insertion import Kernel
from gdrkit.loader.prediction import Prediction
from gdrkit.loader.probing import LoadStep, LoadTarget, probe_list, targets
from gdrkit.messages import modprobe as modprobe_messages
from gdrkit.messages.errors import EEXIST, EINVAL, words_of
from gdrkit.node import Node, fact, if_absent, if_missing

_NESTED_LIMIT = 8  # install lines that call modprobe in turn; more is a loop


ARGUMENT_LIMIT_BYTES = 1 << 17
"""The longest command line that sh can be given: Linux include/uapi/linux/binfmts.h, MAX_ARG_STRLEN."""


class ModprobeOptions(Struct, frozen=True):
    """modprobe's options and the module's arguments."""

    arguments: str = ""  # for the module
    use_blacklist: bool = False
    ignore_install: bool = False
    first_time: bool = False
    dry_run: bool = False
    quiet: bool = False


_FLAGS = {
    "-b": "use_blacklist",
    "--use-blacklist": "use_blacklist",
    "-i": "ignore_install",
    "--ignore-install": "ignore_install",
    "--first-time": "first_time",
    "-n": "dry_run",
    "--dry-run": "dry_run",
    "--show": "dry_run",
    "-q": "quiet",
    "--quiet": "quiet",
}


def options_of(given: tuple[str, ...]) -> ModprobeOptions:
    """The options and arguments of a modprobe command. Options without effect here are ignored.

    An argument whose value has a space gets quotes: options_from_array().
    """
    flags = {_FLAGS[word]: True for word in given if word in _FLAGS}
    arguments = []
    for word in given:
        if word.startswith("-"):
            continue
        name, equals, value = word.partition("=")
        quoted = equals and " " in value and value[:1] not in ("'", '"')
        arguments.append(f'{name}="{value}"' if quoted else word)
    return ModprobeOptions(arguments=" ".join(arguments), **flags)


def modprobe(node: Node, name: str, arguments: tuple[str, ...] = ()) -> Prediction:
    """The predicted output and exit code of `modprobe [options] NAME [arguments]` as root, and the kernel
    log.

    Nothing is loaded. Raises EvidenceMissing if the index of modules is not known. A prediction is as
    certain as its weakest evidence, and at most likely if a check could not be made.
    """
    require_index(node)
    prediction = _prediction(node, name, arguments)
    confidence = node.confidence(_prediction, name, arguments)
    if prediction.unless:
        confidence = min(confidence, Confidence.LIKELY)
    return msgspec.structs.replace(prediction, confidence=min(confidence, prediction.confidence))


@fact
def _prediction(node: Node, name: str, arguments: tuple[str, ...]) -> Prediction:
    if not index_was_collected(node):
        node.cite("modules.dep", text="modprobe reads modules.dep.bin", confidence=Confidence.LIKELY)
    run = ModprobeRun(node)
    status = run.modprobe(name, options_of(arguments))
    return Prediction(
        module=canonical(name),
        exit_code=status,
        loaded=run.target in run.kernel.inserted or run.target in run.present,
        stderr=tuple(run.stderr),
        kernel_log=tuple(run.kernel.log),
        reason=run.reason,
        unless=tuple(run.kernel.unless),
        assumes=tuple(run.kernel.assumes),
        certain_lines=run.kernel.certain_lines,
        inserted=tuple(if_missing(name, kernel_name, node, name) for name in run.kernel.inserted),
        tainted=run.kernel.taints.mask,
        result_unknown=run.undecided and not status,
        builtin=run.builtin,
        confidence=Confidence.LIKELY if run.undecided else Confidence.CERTAIN,
    )


class ModprobeRun:
    """One modprobe command, with those that its install lines run."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.kernel = Kernel(node)
        self.config = self._configuration()
        self.stderr: list[str] = []
        self.present: set[str] = set()  # was loaded before
        self.builtin = False  # whether the target is
        self.target = ""  # the module that the outermost modprobe loads
        self.reason = ""
        self.command_unknown = False
        self.depth = 0
        self.effort = Effort()

    def _configuration(self) -> ModprobeConfig:
        """modprobe's configuration. If it was not collected: an empty one, and `unless` records it."""
        try:
            return configuration(self.node)
        except EvidenceMissing as error:
            if error.missing.why is MissingReason.GARBLED:
                raise
            self.kernel.unless.append("install-override")
            return ModprobeConfig()

    @property
    def undecided(self) -> bool:
        """Whether the result depends on an init function or a command whose result is not known."""
        return self.command_unknown or self.kernel.init_unknown

    def modprobe(self, name: str, options: ModprobeOptions) -> int:
        """The exit status of modprobe for this name."""
        self.stderr += complaints(self.node, self.config)
        found = targets(self.node, self.config, name)
        self.target = self.target or (found[0].name if found else canonical(name))
        if not found:
            self.reason = self.reason or "module-not-found"
            folder = f"/lib/modules/{release(self.node)}"
            self._print_error(options, modprobe_messages.NOT_FOUND.say(module=name, directory=folder))
            return 1
        errno = 0
        for target in found:
            errno = self._probe(target, options)
            if errno == EEXIST:
                self._print_error(options, modprobe_messages.PRESENT.say(module=target.name))
            elif errno:
                self._print_error(
                    options, modprobe_messages.COULD_NOT.say(module=target.name, error=words_of(errno))
                )
        return 1 if errno else 0

    def _print_error(self, options: ModprobeOptions, line: str) -> None:
        if not options.quiet:
            self.stderr.append(line)

    # -- kmod_module_probe_insert_module() -------------------------------------------------------------

    def _probe(self, target: LoadTarget, options: ModprobeOptions) -> int:
        """Load a module and its dependencies; returns the errno, 0 on success."""
        self.effort.spend()
        self.builtin = self.builtin or (target.builtin and target.name == self.target)
        if target.builtin or self._in_kernel(target.name):
            return EEXIST if options.first_time else 0
        blacklisted = self.config.blacklisted(target.name)
        if blacklisted is not None and (target.by_alias or options.use_blacklist):
            self.node.cite(blacklisted.file, text=f"blacklist {blacklisted.name}", line=blacklisted.line)
            self.reason = self.reason or "module-blacklisted"
            return 0
        if options.dry_run:
            return 0
        self._note_missing_files(target.name)
        steps = probe_list(self.node, self.config, target.name, options.ignore_install, self.effort)
        for step in steps:
            if self._in_kernel(step.name):
                continue
            errno = self._load(step, options.arguments if step.name == target.name else "")
            if errno == EEXIST and (step.name != target.name or not options.first_time):
                continue
            if errno and step.required:
                return errno
        return 0

    def _note_missing_files(self, name: str) -> None:
        """kmod prints two errors for a dependency without a file, and continues without dependencies."""
        path = if_absent("", missing_dependency, self.node, name)
        if path:
            line = modprobe_messages.DEPENDENCY_GONE.say(
                place=dependency_place(self.node), pointer="0x0", path=f"/{path}"
            )
            self.stderr += (line, line)
            self.node.cite("the address in modprobe's message", confidence=Confidence.LIKELY)
            self.kernel.unavailable.update(
                n for n in dependencies(self.node, name) if not self._in_kernel(n)
            )

    def _note_unlisted(self, name: str) -> None:
        """kmod prints an error for a module that only an alias or an install line names."""
        try:
            module_path(self.node, name)
        except EvidenceAbsent:
            self.stderr.append(modprobe_messages.NO_FILE.say(place=insertion_place(self.node), module=name))

    def _in_kernel(self, name: str) -> bool:
        if name in self.kernel.inserted or name in self.present:
            return True
        loaded = if_missing(False, lambda: is_loaded(self.node, name) or builtin(self.node, name))
        if loaded:
            self.present.add(name)
        return loaded

    def _load(self, step: LoadStep, arguments: str) -> int:
        command = self.config.install_command(step.name)
        before = self.reason, self.kernel.init_unknown
        options = f"{self.config.arguments_of(step.name)} {arguments}".strip()
        if command is not None and not step.ignore_install:
            self.node.cite(command.file, text=f"install {command.name} {command.value}", line=command.line)
            errno = self._install(step.name, command.value, options)
        else:
            self._note_unlisted(step.name)
            refusal = self.kernel.insert(step.name, options)
            errno = refusal.errno if refusal is not None else 0
            self.stderr += refusal.said if refusal is not None else ()
            if errno == EEXIST:
                self.present.add(step.name)
                return errno
            if refusal is not None and step.required:
                other = step.name != self.target and self.depth == 0
                self.reason = self.reason or ("dependency-failed" if other else refusal.reason)
        if not step.required:
            self.reason, self.kernel.init_unknown = before
        elif step.name not in self.kernel.inserted:
            self.kernel.unavailable.add(step.name)
        return errno

    # -- install lines ---------------------------------------------------------------------------------

    def _install(self, name: str, command: str, options: str) -> int:
        """Run an install line: command_do()."""
        before = len(self.kernel.inserted)
        if len(command) + command.count("$CMDLINE_OPTS") * len(options) > ARGUMENT_LIMIT_BYTES:
            return self._unknown()
        line = command.replace("$CMDLINE_OPTS", options)
        self.effort.spend(1 + len(line) // STEP_BYTES)
        self.depth += 1
        status = self._shell(line)
        self.depth -= 1
        if len(self.kernel.inserted) > before:  # usually the same module under another file name
            self.present.add(name)
        if not status:
            if name not in self.present and not self.command_unknown:
                self.reason = self.reason or "install-override"
            return 0
        self.reason = self.reason or "install-override"
        self.stderr.append(
            modprobe_messages.COMMAND_FAILED.say(
                place=command_place(self.node), command=line, module=name, status=status
            )
        )
        return EINVAL

    def _shell(self, line: str) -> int:
        """The exit status of a list of commands; 0, recorded as unknown, if it cannot be predicted."""
        commands = install_command.commands(line)
        if commands is None or self.depth > _NESTED_LIMIT:
            return self._unknown()
        status = 0
        for command in commands:
            self.effort.spend()
            if (command.after == "&&" and status) or (command.after == "||" and not status):
                continue
            if command.program == "modprobe":
                status = self._nested(command.words[1:])
                continue
            predicted = install_command.status(command)
            if predicted is None:
                return self._unknown()
            status = predicted
            if command.words[0] == "exit":
                break
        return status

    def _unknown(self) -> int:
        """Assume that an unknown command succeeds; all later log lines are uncertain."""
        self.command_unknown = True
        self.kernel.mark_uncertain()
        return 0

    def _nested(self, given: tuple[str, ...]) -> int:
        names = [word for word in given if not word.startswith("-")]
        if not names or not names[0]:
            return 1
        flags = tuple(word for word in given if word.startswith("-"))
        return self.modprobe(names[0], options_of((*flags, *names[1:])))
