"""What `gdr nccl` and `gdr config check` find in a text, for the answer of `gdr explain`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import structs

from gdrkit import catalogue
from gdrkit.explain.explanation import (
    NO_ERROR,
    NO_PROBLEM,
    UNDECIDED,
    Answer,
    AnswerKind,
    Explanation,
    KnownFact,
    QuotedLine,
    RankedCause,
    Sureness,
    plain,
)
from gdrkit.explain.healthy import OF_JOB
from gdrkit.explain.lines.transcript import Gap
from gdrkit.explain.logged_job import (
    CHANNELS,
    DIFFERS,
    DiagnosticsReport,
    LoggedCause,
    LoggedEnd,
    LoggedJob,
    OtherEvidence,
)
from gdrkit.explain.outputs.measured import BENCHMARKS, IPERF, NCCL_TESTS, PERFTEST
from gdrkit.explain.outputs.pcie_links import LINKS
from gdrkit.explain.products import products
from gdrkit.formats.plural import plural
from gdrkit.formats.regex import regex

if TYPE_CHECKING:  # a text without a log or a manifest needs none of them: they take as long as all others
    from gdrkit.explain.lines.transcript import TextLine
    from gdrkit.explain.outputs.pasted_host import PastedHost
    from gdrkit.jobs.job import JobDiagnostics, LogPosition, Rank
    from gdrkit.jobs.pasted import PastedJob
    from gdrkit.repair.config.fault import CheckedFile, ConfigFault

# -- the job of a log --------------------------------------------------------------------------------------


MARKS = (b"NCCL", b"NET/", b"cfg#", b"ep_cfg")
"""What every log has of which `gdr nccl` knows lines: NCCL's, and UCX's tables."""


class LogReader:
    """Reads the log of NCCL in a text, once, when the rest of the text is judged."""

    def __init__(self, content: bytes, name: str, gap: Gap) -> None:
        self.job: PastedJob | None = None
        self._content, self._name, self._gap = content, name, gap

    def __call__(self, others: OtherEvidence) -> LoggedJob | None:
        if not any(mark in self._content for mark in MARKS):
            return None
        from gdrkit.jobs.pasted import pasted_job

        job = pasted_job(self._content, self._name, others.left, self._number)
        if not job.decides and not job.text.dropped:
            return None
        if job.decides:
            self.job = job
        return self._logged(job)

    def _number(self, position: int) -> int:
        """The number of a line, in a text of which a part was left out."""
        return position + self._gap.lines if position > self._gap.after else position

    def _logged(self, job: PastedJob) -> LoggedJob:
        from gdrkit.jobs.findings import JUDGED

        found, report = job.document, job.document.diagnostics
        # the tables of UCX are not lines of NCCL; explain/outputs/ucx_outputs.py has what they show
        only_ucx = found.ucx is not None and not found.jobs
        return LoggedJob(
            state="unknown" if only_ucx else found.verdict.state,
            failed=bool(found.errors),
            end=self._end(job),
            summary=found.verdict.summary,
            causes=tuple(self._causes(job)),
            legs=self._legs(job, [rank for part in found.jobs for rank in part.ranks]),
            legs_of_hosts=tuple(self._legs_of_hosts(job)),
            on_one_host=bool(found.jobs) and all(part.on_one_host for part in found.jobs),
            judged=JUDGED,
            unread=frozenset(map(self._number, job.text.dropped)),
            report=None if report is None else _report_of(report),
        )

    def _quote(self, job: PastedJob, line: LogPosition) -> QuotedLine:
        at = line.line - self._gap.lines if line.line > self._gap.after else line.line
        return QuotedLine(line.line, job.text.lines[at - 1].strip())

    def _end(self, job: PastedJob) -> LoggedEnd | None:
        if not job.document.ended:
            return None
        first, *_ = errors = job.document.errors
        causes = frozenset(code for error in errors for code in error.codes)
        line, words = self._quote(job, first.line), first.meaning or first.words
        return LoggedEnd(line, words, first.codes, first.todo, causes)

    def _causes(self, job: PastedJob) -> Iterator[LoggedCause]:
        """What the log proves, then what it leaves open; ranking leaves out what the text excludes."""
        from gdrkit.jobs.hosts import FAR, a_setting_decides, hardware_of

        found = job.log
        proven = {finding.code for finding in found.findings}
        failures = {(error.codes, error.call) for error in found.errors}
        for finding in found.findings:
            is_failure = finding.status == "failed" or ((finding.code,), finding.subject) in failures
            # a report shows what differs, and what follows from it
            is_failure = is_failure or (found.diagnostics is not None and finding.code == DIFFERS)
            matters = finding.status != "note" and not (finding.code in FAR and a_setting_decides(found))
            if finding.status == "warning" and finding.code != DIFFERS and found.why_not_direct:
                # the legs that are not direct have reasons of their own, which may be changed
                matters = matters and bool(hardware_of(job.document))
            yield LoggedCause(
                line=self._quote(job, finding.lines[0]), codes=(finding.code,), proven=True,
                matters=matters,
                subject=finding.subject, seen="" if is_failure else finding.seen, todo=finding.todo,
            )  # fmt: skip
        reasons = [(why.line, why.codes) for why in (*found.why_not_direct, *found.refused)]
        for line, codes in (*reasons, *((error.line, error.codes) for error in found.errors)):
            if codes and not proven.issuperset(codes):
                quoted = self._quote(job, line)
                yield LoggedCause(line=quoted, codes=codes, **_traits(quoted.text, codes))
        for one in found.diagnostics.statements if found.diagnostics else ():
            if one.codes and one.effect in ("possible", "fault"):
                yield LoggedCause(
                    line=self._quote(job, one.line), codes=one.codes, note=UNDECIDED, todo=one.todo
                )

    def _legs(self, job: PastedJob, ranks: list[Rank]) -> KnownFact | None:
        """How many legs of these ranks access GPU memory directly, with the first that does, or that does
        not."""
        from gdrkit.jobs.analyse import carried_legs
        from gdrkit.programs.nccl.log_records import INDIRECT, OVER_NETWORK, Carrier

        totals, _ = carried_legs(ranks)
        network = sum(totals[carrier] for carrier in OVER_NETWORK)
        if network:
            shown = "network legs that were read" if self._gap.lines else "network legs"
            words = f"{totals[Carrier.DIRECT]} of {network} {shown} access GPU memory directly"
            carriers = (Carrier.DIRECT,) if totals[Carrier.DIRECT] else INDIRECT
        elif totals[Carrier.NVLINK]:
            words = (
                f"{plural(totals[Carrier.NVLINK], 'leg')} over NVLink between hosts (MNNVL), none over a NIC"
            )
            carriers = (Carrier.NVLINK,)
        else:
            return None
        every = (leg for rank in ranks for leg in rank.legs)
        proof = self._quote(job, min(leg.line for leg in every if leg.carried in carriers))
        return KnownFact(CHANNELS, words, proof.line, proof.text)

    def _legs_of_hosts(self, job: PastedJob) -> Iterator[KnownFact]:
        """The same for each host."""
        hosts: dict[str, list[Rank]] = {}
        for rank in (rank for part in job.document.jobs for rank in part.ranks):
            hosts.setdefault(rank.host, []).append(rank)
        yield from filter(None, (self._legs(job, ranks) for ranks in hosts.values()))


def _traits(text: str, codes: tuple[str, ...]) -> dict[str, Any]:
    """What the catalogue knows of a line with these causes: whether it says the first one itself, or has it
    by far most often; and whether it has more causes than those which gdrkit knows."""
    from gdrkit.jobs.gpu_names import OF_HARDWARE
    from gdrkit.jobs.reasons import DISTANCES

    found = catalogue.match(text)
    if found is None:
        return {}
    row = found.message
    both = {*found.causes[:1], *codes[:1]}
    leads = (len(both) == 1 or both <= {*DISTANCES}) and (row.leads or len(found.causes) == 1)
    if found.causes and codes[0] in OF_HARDWARE and found.causes[0] not in OF_HARDWARE:
        leads = True  # the log names its GPU
    return {"leads": leads, "note": NO_ERROR if row.hides_error else "", "message": row.name}


def _report_of(found: JobDiagnostics) -> DiagnosticsReport:
    """What NCCL's diagnostics show, and what to do about it, the worst first."""
    from gdrkit.programs.nccl.diagnostic_statements import PROBLEMS, Effect

    problems = [one for one in found.statements if one.effect in PROBLEMS]
    untested = [] if found.tested else [one for one in found.statements if one.effect is Effect.OPEN]
    todo = (f"{one.todo[0].upper()}{one.todo[1:]}." for one in (*problems, *untested) if one.todo)
    return DiagnosticsReport(
        summary=found.summary,
        shown=any(one.effect is Effect.CAUSE for one in problems),
        problems=bool(problems or untested),
        todo=tuple(dict.fromkeys(todo)),
    )


# -- manifests and settings --------------------------------------------------------------------------------


FINDS_NOTHING = (AnswerKind.HARMLESS, AnswerKind.NO_PROBLEM, AnswerKind.NOTHING, AnswerKind.NO_OUTPUT)
OF_MANIFESTS = ("policy-duplicate-key", "manifest-invalid")
"""Causes that are faults of a manifest, of which `gdr config check` knows all."""
MOST_FAULTS = 8


_SCRIPT = regex(r"\s*#(?:! ?/|SBATCH |PBS |BSUB )")
"""How scripts of a shell, and those of Slurm, PBS and LSF begin."""


_STATUS = regex(rb"^\s{0,8}\"?status\"?: *\{?\r?$", re.MULTILINE)
"""What objects have that a cluster printed, and no file that makes them."""


def _is_script(content: bytes, explanation: Explanation) -> bool:
    """Whether a text is a script, which `gdr config check` judges, without the output of a failure."""
    fails = (one.established or any(line.fails for line in one.open) for one in explanation.machines)
    return _SCRIPT.match(content[:1000].decode("utf-8", "replace")) is not None and not any(fails)


def with_faults(explanation: Explanation, file: CheckedFile | None, content: bytes) -> Explanation:
    """The explanation, headed by what `gdr config check` finds in a script, or in manifests of which its own
    answer finds no problem or nothing."""
    answer = explanation.answer
    if file is None:
        return explanation
    if file.documents and _has_only_settings(file) and _is_script(content, explanation):
        found = _of_file(file) if file.worst not in ("", "note") else _without_fault(file)
        return structs.replace(explanation, answer=found, question=None)
    if file.is_not_judged and answer.kind in (AnswerKind.NOTHING, AnswerKind.NO_OUTPUT):
        of_cluster = _STATUS.search(content) is not None
        return structs.replace(explanation, answer=_not_judged(file, of_cluster=of_cluster))
    if file.worst in ("", "note") or (file.worst == "unreadable" and _has_only_settings(file)):
        return _with_summary(explanation, file) if answer.kind is AnswerKind.NO_OUTPUT else explanation
    remark = file.worst == "warning" and _has_only_settings(file)
    if remark and answer.kind is not AnswerKind.NO_OUTPUT and not _is_all_clear(explanation):
        return _with_summary(explanation, file)  # a remark on a command explains no output of it
    if answer.kind in FINDS_NOTHING:
        return structs.replace(explanation, answer=_of_file(file))
    if answer.cause in OF_MANIFESTS:
        now = (f"{answer.now[0]} gdr config check finds:", *_faults(file), *answer.now[1:])
        others = (*answer.others, *_invalid(file, answer))
        return structs.replace(explanation, answer=structs.replace(answer, now=now, others=others))
    return explanation


def with_rates(explanation: Explanation, text: PastedHost) -> Explanation:
    """The explanation of a text; of one about a PCIe link with what that carries, of one with a result of
    a benchmark, judged by the port and link that it shows, or that a DGX Spark has."""
    if any(
        code in LINKS for code in (explanation.answer.cause, *(o.code for o in explanation.answer.others))
    ):
        from gdrkit.cli.pasted_links import with_link

        explanation = with_link(explanation, text)
    measured = {fact.name for machine in explanation.machines for fact in machine.known}
    if measured.isdisjoint((PERFTEST, IPERF, NCCL_TESTS)):
        return explanation
    from gdrkit.cli.pasted_halves import with_half
    from gdrkit.cli.pasted_rates import with_low_rate

    return with_low_rate(with_half(explanation, text), text)


def _is_all_clear(explanation: Explanation) -> bool:
    """Whether the answer says that there is no problem, of states and not of a rate that was measured."""
    shown = {fact.name for machine in explanation.machines for fact in machine.known}
    return NO_PROBLEM in explanation.answer.sentence and shown.isdisjoint(BENCHMARKS)


def _has_only_settings(file: CheckedFile) -> bool:
    return all(found.kind == "settings" for found in file.documents)


def _with_summary(explanation: Explanation, file: CheckedFile) -> Explanation:
    """The explanation of a text, with what `gdr config check` says of its settings."""
    now = (f"gdr config check: {file.summary()}", *_faults(file), *explanation.answer.now)
    return structs.replace(explanation, answer=structs.replace(explanation.answer, now=now))


def _worst_first(file: CheckedFile) -> list[ConfigFault]:
    from gdrkit.repair.config.fault import SEVERITIES

    faults = [fault for fault in file.faults if fault.severity != "note"]
    return sorted(faults, key=lambda fault: SEVERITIES.index(fault.severity))


def _faults(file: CheckedFile) -> Iterator[str]:
    """One item for each fault that `gdr config check` finds, the worst first."""
    for fault in _worst_first(file)[:MOST_FAULTS]:
        yield f"- line {fault.line}: {fault.severity}: {fault.message}"


INVALID, NO_SCHEMA = "manifest-invalid", ("duplicate-key",)


def _invalid(file: CheckedFile, answer: Answer) -> Iterator[RankedCause]:
    """That a manifest does not fit its schema, if an error says so and the answer does not."""
    from gdrkit.report.pages import code_page

    errors = [one for one in _worst_first(file) if one.severity == "error" and one.code not in NO_SCHEMA]
    if errors and INVALID not in (answer.cause, *(other.code for other in answer.others)):
        yield RankedCause(INVALID, code_page(INVALID)[0], errors[0].line)


def _of_file(file: CheckedFile) -> Answer:
    """The faults that `gdr config check` finds, the worst first."""
    faults = [fault for fault in _worst_first(file) if fault.severity != "unreadable"]
    if not faults:
        return _not_judged(file)
    kinds = _kinds(file)
    of_file = any(not fault.path.startswith("status.") for fault in faults)  # else the cluster wrote it
    todo = ("Correct these lines; `gdr config check FILE` shows all of them.",) if of_file else ()
    return Answer(
        kind=AnswerKind.ELSEWHERE,
        sentence=f"gdr config check finds {plural(len(faults), 'fault')} in this text ({kinds}).",
        cause=None, subject="", machine="", sureness=Sureness.CERTAIN, claimed=False,
        lines=(QuotedLine(faults[0].line, faults[0].seen),), others=(), besides=(),
        now=(*todo, *_faults(file)),
    )  # fmt: skip


def _without_fault(file: CheckedFile) -> Answer:
    """That `gdr config check` knows no fault of a script, with what may be meant."""
    notes = tuple(f"- line {fault.line}: {fault.severity}: {fault.message}" for fault in file.faults)
    return plain(
        AnswerKind.NOTHING, f"gdr config check knows no fault of this text ({_kinds(file)}).", now=notes
    )


def _not_judged(file: CheckedFile, *, of_cluster: bool = False) -> Answer:
    """That `gdr config check` judges nothing of a file, or not all of it, and shows no fault."""
    from gdrkit.repair.config.check import RENDERED

    faults = tuple(_faults(file))
    hint = f"Give `gdr config check` what clusters get of it, such as {RENDERED}."
    return plain(
        AnswerKind.NOTHING,
        f"gdr config check does not judge all of this text ({_kinds(file)}): it shows no fault there, and"
        " excludes none.",
        now=faults or (OF_JOB if of_cluster else hint,),
    )


def _kinds(file: CheckedFile) -> str:
    return ", ".join(dict.fromkeys(found.kind for found in file.documents)) or "no known kind"


MANIFESTS_LIMIT_BYTES = 1 << 20
"""The longest text that is searched for manifests; a longer one is a log. The API server of Kubernetes takes
no object above 1.5 MiB: kubernetes.io, ConfigMap and etcd limits."""


def checked_file(
    content: bytes, name: str, lines: tuple[TextLine, ...], explanation: Explanation
) -> CheckedFile | None:
    """What `gdr config check` finds in the manifests and settings of a text, whose lines are these; None
    where it finds none, or where the explanation has a cause of its own."""
    from gdrkit.repair.config.check import check

    asks = explanation.answer.kind in FINDS_NOTHING or explanation.answer.cause in OF_MANIFESTS
    if len(content) > MANIFESTS_LIMIT_BYTES or not (asks or _is_script(content, explanation)):
        return None
    integrated = products("\n".join(line.text for line in lines)) == {"gpu-integrated"}
    found = check(content, name, integrated=integrated)
    if found.documents and found.documents[0].kind != "settings":  # which are the only document of a text
        return found
    if shown := _manifests_alone(lines):
        return check(shown, name)
    return found if found.documents else None


def _manifests_alone(lines: tuple[TextLine, ...]) -> bytes:
    """The manifests in the code blocks of a text, each on its lines; b"" if it has none."""
    from gdrkit.explain.outputs.manifests import manifests

    shown: dict[int, str] = {}
    for first, text in manifests(lines).items():
        shown.update(enumerate(("---", *text.split("\n")), first - 1))
    return "".join(f"{shown.get(number, '')}\n" for number in range(1, max(shown, default=0) + 1)).encode()
