"""modprobe itself: its options, the order in which it loads modules, and its messages.

Source: kmod tools/modprobe.c, insmod(); libkmod-module.c, kmod_module_probe_insert_module().
"""

from __future__ import annotations

import msgspec

from gdrkit.evidence import Confidence, EvidenceAbsent, EvidenceMissing, MissingReason
from gdrkit.facts import install_command, shell
from gdrkit.facts.kernel import release
from gdrkit.facts.kmod import command_place, dependency_place, index_place, insertion_place
from gdrkit.facts.modprobe_arguments import ModprobeOptions, joined, read
from gdrkit.facts.modprobe_config import ModprobeConfig, configuration
from gdrkit.facts.module_files import is_supported
from gdrkit.facts.module_lookup import index_complaints, taken_for_builtin
from gdrkit.facts.module_state import is_in_kernel, kernel_name
from gdrkit.facts.modules import (
    dependencies,
    index_was_collected,
    is_loaded,
    missing_dependency,
    module_path,
    require_index,
)
from gdrkit.facts.suse_modules import is_of_suse, refusing_unsupported
from gdrkit.formats.module_name import canonical
from gdrkit.loader.complaints import complaints
from gdrkit.loader.effort import STEP_BYTES, Effort
from gdrkit.loader.insertion import Kernel
from gdrkit.loader.prediction import LoadRefusal, Prediction
from gdrkit.loader.probing import LoadStep, LoadTarget, probe_list, targets
from gdrkit.messages import modprobe as modprobe_messages
from gdrkit.messages.errors import EEXIST, EINVAL, EPERM, c_library_words, words_of
from gdrkit.node import Node, fact, if_absent, if_missing

_NESTED_LIMIT = 8  # install lines that call modprobe in turn; more is a loop


ARGUMENT_LIMIT_BYTES = 1 << 17
"""The longest command line that sh can be given: Linux include/uapi/linux/binfmts.h, MAX_ARG_STRLEN."""


def options_of(given: tuple[str, ...]) -> ModprobeOptions:
    """The options of a modprobe command, and the arguments of the module, whose name is not among them."""
    options, words = read(given)
    return msgspec.structs.replace(options, arguments=joined(words))


def concatenated(given: str, more: str) -> str:
    """The options of modprobe.d and of the command line: module_options_concat() leaves a blank behind the
    former even where there are none of the latter."""
    return f"{given} {more}" if given else more


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
    status = run.command(name, options_of(arguments))
    return Prediction(
        module=canonical(name),
        exit_code=status,
        loaded=all(run.is_there(name) for name in run.wanted or (canonical(name),)),
        stderr=tuple(run.stderr),
        kernel_log=tuple(run.kernel.log),
        reason=run.reason,
        unless=tuple(run.kernel.unless),
        assumes=tuple(run.kernel.assumes),
        certain_lines=run.kernel.certain_lines,
        inserted=tuple(if_missing(name, kernel_name, node, name) for name in run.kernel.inserted),
        tainted=run.kernel.taints.mask,
        result_unknown=run.outcome_open or (run.undecided and not status),
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
        self.target = ""  # the module that the outermost modprobe loads: the first, of an alias of several
        self.wanted: tuple[str, ...] = ()  # all of them
        self.reason = ""
        self.command_unknown = False
        self.outcome_open = False  # whatever the exit status is predicted to be
        self.depth = 0
        self.silent = False  # modprobe's own lines go to the log of the system, or nowhere
        self.inherited: tuple[str, ...] = ()  # options that a modprobe of an install line gets
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

    def is_there(self, name: str) -> bool:
        """Whether a module is loaded at the end, by its file's name or by its own."""
        if name in self.kernel.inserted or name in self.present:
            return True
        if not self.wanted and if_missing(False, is_loaded, self.node, name):
            return True  # although modprobe knows no such name
        is_renamed = if_missing(name, kernel_name, self.node, name) != name
        return is_renamed and if_missing(False, is_in_kernel, self.node, name)

    def command(self, name: str, options: ModprobeOptions) -> int:
        """The exit status of one modprobe for a name, which may be the first of several."""
        before = self.silent, self.inherited
        self.silent = options.quiet or options.to_syslog
        self.inherited += ("-q",) * options.quiet + ("-s",) * options.to_syslog
        self.stderr += complaints(self.node, self.config)
        if not options.elsewhere:
            for wrong in index_complaints(self.node):
                self._say(f"modprobe: ERROR: {index_place(self.node, wrong)}{wrong}")
        if options.forces or options.elsewhere:
            self._open()
        status = self._remove(name, options) if options.removes else self.modprobe(name, options)
        self.silent, self.inherited = before
        return status

    def modprobe(self, name: str, options: ModprobeOptions) -> int:
        """The exit status of modprobe for this name: insmod()."""
        found = targets(self.node, self.config, name)
        if not self.target:
            self.wanted = tuple(target.name for target in found)
            self.target = self.wanted[0] if found else canonical(name)
        if not found:
            self.reason = self.reason or "module-not-found"
            folder = f"/lib/modules/{release(self.node)}"
            self._log(options, modprobe_messages.NOT_FOUND.say(module=name, directory=folder))
            return 1
        errno = 0
        for target in found:
            errno = self._probe(target, options)
            if errno == EEXIST:
                self._say(modprobe_messages.PRESENT.say(module=target.name))
            elif errno > 0:
                self._say(modprobe_messages.COULD_NOT.say(module=target.name, error=words_of(errno)))
        return 1 if errno else 0

    def _remove(self, name: str, options: ModprobeOptions) -> int:
        """The exit status of modprobe --remove: rmmod(). Whether a loaded module is in use is not known."""
        found = targets(self.node, self.config, name)
        if not found:
            self._log(options, modprobe_messages.NOT_FOUND_ANYWHERE.say(module=name))
            return 1
        for target in found:
            runs = not options.ignore_install and self.config.remove_command(target.name) is not None
            loaded = target.name in self.kernel.inserted or if_missing(
                True, is_loaded, self.node, target.name
            )
            if runs or loaded:
                return self._open()
            if options.first_time:
                self._log(options, f"modprobe: FATAL: Module {target.name} is not in kernel.")
                return 1
        return 0

    def _say(self, *lines: str) -> None:
        if not self.silent:
            self.stderr += lines

    def _log(self, options: ModprobeOptions, line: str) -> None:
        """What is fatal for one module is a warning for one of several."""
        self._say(line.replace("FATAL", "WARNING", 1) if options.all_names else line)

    # -- kmod_module_probe_insert_module() -------------------------------------------------------------

    def _probe(self, target: LoadTarget, options: ModprobeOptions) -> int:
        """Load a module and its dependencies; returns the errno, 0 on success."""
        self.effort.spend()
        self.builtin = self.builtin or (target.builtin and target.name == self.target)
        self._note_missing_file(target.name)  # as kmod looks the name up
        if target.builtin or self._in_kernel(target.name):
            return EEXIST if options.first_time else 0
        blacklisted = self.config.blacklisted(target.name)
        if blacklisted is not None and (target.by_alias or options.use_blacklist):
            self.node.cite(blacklisted.file, text=f"blacklist {blacklisted.name}", line=blacklisted.line)
            self.reason = self.reason or "module-blacklisted"
            return 0
        if options.dry_run:
            self._note_missing_file(target.name)
            return 0
        if self._note_missing_file(target.name):
            self.kernel.unavailable.update(
                other for other in dependencies(self.node, target.name) if not self._in_kernel(other)
            )
        steps = probe_list(self.node, self.config, target.name, options.ignore_install, self.effort)
        for step in steps:
            if self._in_kernel(step.name):
                continue
            asked = step.name == target.name
            given = self.config.arguments_of(step.name, target.alias if asked else "")
            errno = self._load(step, concatenated(given, options.arguments if asked else ""))
            if errno == EEXIST and (step.name != target.name or not options.first_time):
                continue
            if errno and step.required:
                return errno
        return 0

    def _note_missing_file(self, name: str) -> bool:
        """kmod prints an error for a dependency without a file, each time that it reads the module's line,
        and continues without dependencies. Returns whether it does."""
        gone = if_absent(None, missing_dependency, self.node, name)
        if gone is None:
            return False
        path, errno = gone
        line = modprobe_messages.DEPENDENCY_GONE.say(
            place=dependency_place(self.node), pointer="0x0", path=f"/{path}", error=c_library_words(errno)
        )
        self._say(line)
        self.node.cite("the address in modprobe's message", confidence=Confidence.LIKELY)
        return True

    def _note_unlisted(self, name: str) -> None:
        """kmod prints an error for a module that only an alias or an install line names."""
        try:
            module_path(self.node, name)
        except EvidenceAbsent:
            self._say(modprobe_messages.NO_FILE.say(place=insertion_place(self.node), module=name))

    def _in_kernel(self, name: str) -> bool:
        if name in self.kernel.inserted or name in self.present:
            return True
        loaded = self._is_builtin(name) or if_missing(False, is_loaded, self.node, name)
        if loaded:
            self.present.add(name)
        return loaded

    def _is_builtin(self, name: str) -> bool:
        """Where the index of these is not an index, modprobe may do anything."""
        try:
            return taken_for_builtin(self.node, name)
        except EvidenceMissing as error:
            if error.missing.why is MissingReason.GARBLED:
                raise
        return False

    def _load(self, step: LoadStep, options: str) -> int:
        command = self.config.install_command(step.name)
        before = self.reason, self.kernel.init_unknown
        was_unknown, self.command_unknown = self.command_unknown, False
        if command is not None and not step.ignore_install:
            self.node.cite(command.file, text=f"install {command.name} {command.value}", line=command.line)
            errno = self._install(step.name, command.value, options)
        else:
            self._note_unlisted(step.name)
            refusal = self._unsupported(step.name) or self.kernel.insert(step.name, options)
            errno = refusal.errno if refusal is not None else 0
            self._say(*(refusal.said if refusal is not None else ()))
            if errno == EEXIST:
                self.present.add(step.name)
                self.command_unknown = was_unknown
                return errno
            if refusal is not None and step.required:
                other = step.name != self.target and self.depth == 0
                self.reason = self.reason or ("dependency-failed" if other else refusal.reason)
        if not step.required:
            self.reason, self.kernel.init_unknown = before
        elif step.name not in self.kernel.inserted and not self.command_unknown:
            self.kernel.unavailable.add(step.name)
        self.command_unknown = self.command_unknown or was_unknown
        return errno

    def _unsupported(self, name: str) -> LoadRefusal | None:
        """SUSE's modprobe looks at the mark of support before each insertion, with modprobe.d's word alone:
        an option allows it for one call, and is not asked for here."""
        try:
            line = refusing_unsupported(self.node)
            if line is None or is_supported(self.node, module_path(self.node, name)):
                return None
        except EvidenceMissing:
            if bool(self.config.allow_unsupported_modules) or if_missing(False, is_of_suse, self.node):
                self.kernel.unless.append("module-unsupported")
            return None
        self.node.cite(
            line.file, text="allow_unsupported_modules", line=line.line, confidence=Confidence.LIKELY
        )
        said = (modprobe_messages.UNSUPPORTED.say(module=name), *modprobe_messages.UNSUPPORTED_HINT)
        return LoadRefusal(EPERM, "module-unsupported", said)

    # -- install lines ---------------------------------------------------------------------------------

    def _install(self, name: str, command: str, options: str) -> int:
        """Run an install line: command_do()."""
        if len(command) + command.count("$CMDLINE_OPTS") * len(options) > ARGUMENT_LIMIT_BYTES:
            return self._unknown()
        line = command.replace("$CMDLINE_OPTS", options)
        self.effort.spend(1 + len(line) // STEP_BYTES)
        self.depth += 1
        status = self._shell(line)
        self.depth -= 1
        inserted = (if_missing(other, kernel_name, self.node, other) for other in self.kernel.inserted)
        if canonical(name) in inserted:  # the same module, perhaps under another file name
            self.present.add(name)
        if not status:
            if name not in self.present and not self.command_unknown:
                self.reason = self.reason or "install-override"
            return 0
        self.reason = self.reason or "install-override"
        self._say(
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
                predicted = self._nested(command)
            else:
                predicted = install_command.status(command)
            if predicted is None:
                return self._unknown()
            if predicted == shell.COMMAND_NOT_FOUND and "\r" in command.words[0] and not command.silent:
                self.stderr.append(shell.not_found(self.node, command.words[0]))
            status = predicted
            if command.ends:
                break
        return status

    def _unknown(self) -> int:
        """Assume that an unknown command succeeds; all later log lines are uncertain."""
        self.command_unknown = True
        self.kernel.mark_uncertain()
        return 0

    def _open(self) -> int:
        """The same for what may also let a later command succeed that is predicted to fail."""
        self.outcome_open = True
        return self._unknown()

    def _nested(self, command: install_command.SimpleCommand) -> int | None:
        """The exit status of a modprobe in an install line: do_modprobe()."""
        options, words = read((*self.inherited, *command.words[1:]))
        before = len(self.stderr)
        status: int | None = 1
        if options.wrong:
            who = "modprobe" if options.wrong.startswith("ERROR") else command.words[0]
            self.stderr.append(f"{who}: {options.wrong}")
        elif options.answers or options.shows:
            status = None  # what it prints is not known
        elif not words:
            self.stderr.append("modprobe: ERROR: missing parameters. See -h.")
        elif options.all_names or options.removes:
            status = max([self.command(word, options) for word in words])
        else:
            status = self.command(words[0], msgspec.structs.replace(options, arguments=joined(words[1:])))
        if command.silent:
            del self.stderr[before:]
        return status
