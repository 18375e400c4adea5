"""`gdr ps`: this machine, a bundle, a node over ssh; hostile records end in one line."""

from __future__ import annotations

import gzip
import io
import json
import tarfile

import jsonschema
import pytest

from gdrkit.cli import main
from gdrkit.evidence import running
from tests.jobs.running.records import closed, device, held, process, record

MADE = record(process(701), rdma=[device(*held(1, 701, 4 << 20, pairs=2))])


@pytest.fixture
def bundle(tmp_path):
    """A bundle that has a record, or any other text in its place."""

    def write(content: object) -> str:
        path = tmp_path / "node.tar.gz"
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        with tarfile.open(path, "w:gz") as archive:
            for name, text in (("sos_commands/gdr/running", data), ("etc/hostname", b"node17\n")):
                member = tarfile.TarInfo(f"gdr-node17/{name}")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text))
        return str(path)

    return write


def test_a_bundle_shows_what_ran_when_it_was_collected(bundle, capsys):
    assert main(["ps", bundle(MADE)]) == 2
    out = capsys.readouterr().out

    assert "701 python3" in out and "through host memory (certain)" in out


@pytest.mark.parametrize("asked", [["--pid", "9"], ["--job", "typo"]])
def test_a_process_that_is_not_there_is_not_one_that_goes_directly(bundle, capsys, asked):
    assert main(["ps", bundle(MADE), *asked]) == 3
    assert "no process" in capsys.readouterr().out


def test_the_output_is_valid_against_its_schema(bundle, capsys):
    main(["ps", bundle(MADE), "--json"])
    document = json.loads(capsys.readouterr().out)
    main(["schema", "ps"])
    schema = json.loads(capsys.readouterr().out)

    jsonschema.validate(document, schema)
    assert schema["title"] == document["schema"] == "gdrkit.ps/1"
    document["processes"][0]["verdict"]["path"] = "sideways"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema)


def test_the_record_of_a_bundle_is_what_was_collected(bundle, capsys):
    assert main(["ps", bundle(MADE), "--record"]) == 0
    assert json.loads(capsys.readouterr().out) == MADE


def test_one_process_and_one_job_are_chosen(bundle, capsys):
    made = bundle(record(process(701), closed(702, cgroup="0::/job_9/step_0\n")))
    main(["ps", made, "--job", "9", "--json"])
    assert [one["pid"] for one in json.loads(capsys.readouterr().out)["processes"]] == [702]
    main(["ps", made, "--pid", "701", "--json"])
    assert [one["pid"] for one in json.loads(capsys.readouterr().out)["processes"]] == [701]


def test_a_bundle_without_a_record_is_not_known(tmp_path, capsys):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hostname").write_text("node17\n")

    assert main(["ps", str(tmp_path)]) == 3
    assert "gdr ps --record" in capsys.readouterr().err


@pytest.fixture(params=["plain", "compressed"])
def kept(request, tmp_path):
    """A file that has a record, or any other text in its place."""

    def write(content: object) -> str:
        path = tmp_path / "node17.json"
        data = content if isinstance(content, bytes) else json.dumps(content, indent=1).encode()
        path.write_bytes(gzip.compress(data) if request.param == "compressed" else data)
        return str(path)

    return write


def test_a_record_that_was_printed_is_judged_from_its_file(kept, bundle, capsys):
    answers = []
    for target in (kept(MADE), kept(b" \n" + json.dumps(MADE).encode()), bundle(MADE)):
        assert main(["ps", target]) == 2
        answers.append(capsys.readouterr().out)

    assert "701 python3" in answers[0] and len({*answers}) == 1


def test_what_is_printed_of_a_kept_record_is_that_record(kept, capsys):
    assert main(["ps", kept(MADE), "--record"]) == 0
    assert json.loads(capsys.readouterr().out) == MADE


def test_a_kept_record_is_of_no_machine_that_could_be_asked_more(kept, capsys):
    assert main(["ps", kept(MADE), "--ras"]) >= 64
    assert "not a running machine" in capsys.readouterr().err


HOSTILE = (
    b"{}", b"{", b"[" * 100_000, b"\xff\xfe", b'{"a":' * 100_000, b"{\0}", json.dumps(MADE).encode()[:-9],
    {**MADE, "schema": "gdrkit.running/9"}, {**MADE, "uid": 10**400},
    {**MADE, "processes": 7}, {**MADE, "processes": [{**MADE["processes"][0], "pid": "701"}]},
    {**MADE, "sources": {"rdma": {"status": 1}}},
)  # fmt: skip


@pytest.mark.parametrize("content", [*HOSTILE, b"[]"])
def test_a_record_of_another_form_ends_in_one_line(bundle, capsys, content):
    code = main(["ps", bundle(content)])
    err = capsys.readouterr().err

    assert code >= 64 and err.startswith("gdr ps: not a record of processes") and "internal error" not in err


@pytest.mark.parametrize("content", HOSTILE)
def test_a_file_of_another_form_ends_in_one_line_and_what_to_do(kept, capsys, content):
    code = main(["ps", kept(content)])
    out, err = capsys.readouterr()

    assert code >= 64 and not out and err.startswith("gdr ps: ") and "internal error" not in err
    assert err.count("\n") == 2 and "\x1b" not in err
    if isinstance(content, dict) or content[:1] == b"{":
        assert err.startswith("gdr ps: not a record of processes")


def test_a_record_that_is_cut_off_or_without_end_ends_in_one_line(tmp_path, monkeypatch, capsys):
    path = tmp_path / "node17.json.gz"
    path.write_bytes(gzip.compress(json.dumps(MADE).encode())[:-20])
    assert main(["ps", str(path)]) >= 64
    cut = capsys.readouterr().err
    monkeypatch.setattr(running, "RECORD_LIMIT_BYTES", 1 << 20)
    path.write_bytes(gzip.compress(b"{" + b" " * (1 << 20)))
    assert main(["ps", str(path)]) >= 64
    long = capsys.readouterr().err

    assert cut.startswith("gdr ps: not a record of processes") and cut.count("\n") == 2
    assert long.startswith("gdr ps: not a record of processes: more than 1 MiB")


def test_this_machine_is_judged_without_an_error(capsys):
    assert main(["ps", "--json"]) in (0, 2, 3)
    document = json.loads(capsys.readouterr().out)

    assert {one["name"]: one["status"] for one in document["sources"]}["processes"] == "found"


@pytest.mark.parametrize(
    "words",
    [["--json", "--verbose"], ["--pid", "1", "--record"], ["--job", "1", "--record"], ["--pid", "0"]],
)
def test_options_without_an_effect_are_refused(words, capsys):
    assert main(["ps", *words]) == 64
    assert capsys.readouterr().err.startswith("gdr ps: ")


def test_a_name_of_no_host_is_refused_before_ssh_runs(capsys):
    assert main(["ps", "ssh://-oProxyCommand=x"]) >= 64
    assert "not a valid ssh target" in capsys.readouterr().err
