"""The way back: the last action first, every file as it was, what somebody else changed since left alone."""

from __future__ import annotations

from gdrkit.repair.apply.commands import called, run_command
from gdrkit.repair.apply.enrolment import withdraw
from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.executor import Say
from gdrkit.repair.apply.journal import ActionDone, ActionIntent, ActionUndone, Journal, UndoBegun, UndoEnded
from gdrkit.repair.apply.root_fs import FileState
from gdrkit.repair.apply.secrets import Secrets
from gdrkit.repair.platforms.action import Action, EnrolKey, MakeKey, RunCommand


class Reverter:
    """Takes back one run. `force`: put files back that somebody else changed since, too."""

    def __init__(self, journal: Journal, secrets: Secrets, say: Say, *, force: bool = False) -> None:
        self.journal, self.place, self.secrets = journal, journal.place, secrets
        self.say, self.force = say, force

    def take_back(self) -> tuple[str, ...]:
        """Returns the files that were left alone. What a crash cut short, a second time completes."""
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
                kept += self._take_back(intent, self._action(intent))
                self.journal.append(ActionUndone(step=intent.step, action=intent.action))
        self._again(intents)
        for intent in reversed(intents):
            if isinstance(self._action(intent), RunCommand):
                self._restore_written(intent, intact)
        for intent in reversed(intents):
            for folder in reversed(intent.folders):
                self.place.remove_folder(folder)
        self.journal.append(UndoEnded(kept=tuple(kept)))
        self.journal.forget_copies()
        return tuple(kept)

    def _action(self, intent: ActionIntent) -> Action:
        procedure = self.journal.procedure_of(intent.step)
        if procedure is None:
            raise ApplyError(f"the journal says nothing of step {intent.step}")
        return procedure.actions[intent.action]

    # -- files --------------------------------------------------------------------------------------------

    def _take_back(self, intent: ActionIntent, action: Action) -> list[str]:
        """Undo one action; returns the files that were left alone."""
        done = self.journal.done_of(intent.step, intent.action)
        match action:
            case RunCommand():
                self._run_inverse(action, done)
            case EnrolKey():
                copy = f"{self.journal.folder}/enrolled.der"
                withdraw(self.place, action, self.secrets, self.say, copy)
            case MakeKey():
                for state in intent.states:  # of keys that were there no copy was made, and none is needed
                    if state.kind == "absent":
                        self.place.restore(state, b"", self.journal.run)
            case _:
                return [s.path for s in intent.states if not self._put_back(s, done)]
        return []

    def _put_back(self, before: FileState, done: ActionDone | None) -> bool:
        """Restore a file unless somebody else changed it; where a crash cut us short, it was us."""
        if done is not None and not self.force:
            now = self.place.digest(before.path)
            if now not in (before.digest, done.after.get(before.path)):
                self.say(f"left alone, since somebody changed it: {before.path}")
                return False
        self.place.restore(before, self.journal.kept(before), self.journal.run)
        return True

    # -- commands -----------------------------------------------------------------------------------------

    def _run_inverse(self, action: RunCommand, done: ActionDone | None) -> None:
        if done is not None and done.note:  # it was not run
            return
        for argv in action.undo:
            if not self.place.is_machine:
                continue
            code, said = called(argv)
            if code:
                last = said.strip().splitlines()[-1:] or [""]
                self.say(f"{' '.join(argv)}: exit code {code}: {last[0]}")

    def _again(self, intents: list[ActionIntent]) -> None:
        """Commands that make files from others run once more, now that the others are back."""
        seen: set[tuple[str, ...]] = set()
        for intent in intents:
            action = self._action(intent)
            if isinstance(action, RunCommand) and action.again and action.argv not in seen:
                seen.add(action.argv)
                try:
                    run_command(self.place, action.argv, action.in_root)
                except ApplyError as error:
                    self.say(str(error))

    def _written_by_commands(self) -> list[str]:
        """Files that are still as commands left them: they are put back from their copies."""
        found: dict[str, bool] = {}
        for record in self.journal.records:
            if not isinstance(record, ActionIntent) or not isinstance(self._action(record), RunCommand):
                continue
            done = self.journal.done_of(record.step, record.action)
            before = {state.path: state.digest for state in record.states}
            for path in {*before, *(done.after if done else self._matching(record))}:
                now = self.place.digest(path)
                found[path] = done is None or now in (before.get(path, ""), done.after.get(path, ""))
        return [path for path, whole in found.items() if whole]

    def _matching(self, intent: ActionIntent) -> list[str]:
        action = self._action(intent)
        patterns = action.touches if isinstance(action, RunCommand) else ()
        return [path for pattern in patterns for path in self.place.matching(pattern)]

    def _restore_written(self, intent: ActionIntent, intact: set[str]) -> None:
        before = {state.path: state for state in intent.states}
        for path in (*before, *(p for p in self._matching(intent) if p not in before)):
            if path in intact or (path not in before and self._is_new(intent, path)):
                state = before.get(path, FileState(path=path))
                self.place.restore(state, self.journal.kept(state), self.journal.run)

    def _is_new(self, intent: ActionIntent, path: str) -> bool:
        """Whether a file came while we were at it: a command made it that is taken back."""
        done = self.journal.done_of(intent.step, intent.action)
        return done is None or path in done.after
