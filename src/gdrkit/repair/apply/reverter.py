"""Undoes a run, last action first. Files that changed since are left alone."""

from __future__ import annotations

from msgspec.structs import replace

from gdrkit.repair.apply.commands import run_captured, run_command
from gdrkit.repair.apply.enrolment import withdraw
from gdrkit.repair.apply.entries import FileState
from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.executor import Notify, outcome
from gdrkit.repair.apply.journal import ActionDone, ActionIntent, ActionUndone, Journal, UndoBegun, UndoEnded
from gdrkit.repair.apply.passwords import Passwords
from gdrkit.repair.platforms.action import Action, EnrolKey, MakeKey, RunCommand
from gdrkit.repair.platforms.command_shapes import fault


class Reverter:
    """Undoes one run. `force`: also restore files that changed since."""

    def __init__(
        self, journal: Journal, passwords: Passwords, notify: Notify, *, force: bool = False
    ) -> None:
        self.journal, self.root, self.passwords = journal, journal.root, passwords
        self.notify, self.force = notify, force

    def revert(self) -> tuple[str, ...]:
        """Undo the run; returns the files that were left alone. After a crash, call it again to finish."""
        begun = [record for record in self.journal.records if isinstance(record, UndoBegun)]
        if not begun:
            begun = [UndoBegun(intact=tuple(self._written_by_commands()))]
            self.journal.append(begun[0])
        intact = set(begun[0].intact)
        undone = {(r.step, r.action) for r in self.journal.records if isinstance(r, ActionUndone)}
        intents = [record for record in self.journal.records if isinstance(record, ActionIntent)]
        kept: list[str] = []
        for intent in reversed(intents):
            if (intent.step, intent.action) not in undone:
                kept += self._revert_action(intent, self._action(intent))
                self.journal.append(ActionUndone(step=intent.step, action=intent.action))
        self._repeat_commands(intents)
        for intent in reversed(intents):
            if isinstance(self._action(intent), RunCommand):
                self._restore_written(intent, intact)
        for intent in reversed(intents):
            for folder in reversed(intent.folders):
                self.root.remove_folder(folder)
        self.journal.append(UndoEnded(kept=tuple(kept)))
        if not kept:
            self.journal.delete_backups()
        return tuple(kept)

    def _action(self, intent: ActionIntent) -> Action:
        procedure = self.journal.procedure_for_step(intent.step)
        if procedure is None:
            raise ApplyError(f"the journal has no record of step {intent.step}")
        if not 0 <= intent.action < len(procedure.actions):
            raise ApplyError(f"step {intent.step} of the journal has no action {intent.action}")
        action = procedure.actions[intent.action]
        if why := fault(action):
            raise ApplyError(f"refused: {why}")
        return action

    # -- files --------------------------------------------------------------------------------------------

    def _revert_action(self, intent: ActionIntent, action: Action) -> list[str]:
        """Undo one action; returns the files that were left alone."""
        done = self.journal.done_of(intent.step, intent.action)
        match action:
            case RunCommand():
                self._run_inverse(action, done)
            case EnrolKey():
                copy = f"{self.journal.folder}/enrolled.der"
                withdraw(self.root, action, self.passwords, self.notify, copy)
            case MakeKey():
                for state in intent.states:  # keys that existed before were not changed
                    if state.kind == "absent":
                        self.root.restore(state, b"", self.journal.run)
            case _:
                return [s.path for s in intent.states if not self._restore(s, action, done)]
        return []

    def _restore(self, before: FileState, action: Action, done: ActionDone | None) -> bool:
        """Restore a file; false if it changed since. After a crash within the action, the change is ours if
        it is what the action makes, or if that is not known before."""
        ours = outcome(action) if done is None else done.after.get(before.path)
        if (done is not None or ours is not None) and not self.force:
            now = self.root.digest(before.path)
            if now not in (before.digest, ours):
                self.notify(f"left alone: {before.path} (changed since the run)")
                return False
        self.root.restore(before, self.journal.backup_of(before), self.journal.run)
        return True

    # -- commands -----------------------------------------------------------------------------------------

    def _run_inverse(self, action: RunCommand, done: ActionDone | None) -> None:
        if not self.root.is_machine or (done is not None and done.note):  # it did not run
            return
        for argv in action.undo:
            code, output = run_captured(argv)
            if code:
                last = output.strip().splitlines()[-1:] or [""]
                self.notify(f"{' '.join(argv)}: exit code {code}: {last[0]}")

    def _repeat_commands(self, intents: list[ActionIntent]) -> None:
        """Repeat commands that generate files from others, now that the others are restored."""
        seen: set[tuple[str, ...]] = set()
        for intent in intents:
            action = self._action(intent)
            if isinstance(action, RunCommand) and action.again and action.argv not in seen:
                seen.add(action.argv)
                try:
                    run_command(self.root, replace(action, may_fail=False))
                except ApplyError as error:
                    self.notify(str(error))

    def _written_by_commands(self) -> list[str]:
        """Files that are still as commands left them, and can be restored from backups."""
        found: dict[str, bool] = {}
        for record in self.journal.records:
            if not isinstance(record, ActionIntent) or not isinstance(self._action(record), RunCommand):
                continue
            done = self.journal.done_of(record.step, record.action)
            before = {state.path: state.digest for state in record.states}
            for path in {*before, *(done.after if done else self._matching(record))}:
                now = self.root.digest(path)
                found[path] = done is None or now in (before.get(path, ""), done.after.get(path, ""))
        return [path for path, whole in found.items() if whole]

    def _matching(self, intent: ActionIntent) -> list[str]:
        action = self._action(intent)
        patterns = action.touches if isinstance(action, RunCommand) else ()
        return [path for pattern in patterns for path in self.root.matching(pattern)]

    def _restore_written(self, intent: ActionIntent, intact: set[str]) -> None:
        before = {state.path: state for state in intent.states}
        for path in dict.fromkeys((*before, *self._matching(intent))):
            if path in intact or (path not in before and self._is_new(intent, path)):
                state = before.get(path, FileState(path=path))
                self.root.restore(state, self.journal.backup_of(state), self.journal.run)

    def _is_new(self, intent: ActionIntent, path: str) -> bool:
        """Whether the action's command created this file."""
        done = self.journal.done_of(intent.step, intent.action)
        return done is None or path in done.after
