"""Exports of log stores give the lines that were logged, whatever the name and the place of their field."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.formats.log_store import frame_of, logged_text, without_frames

LINES = [
    "n-a:200:300 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.42.0.5<0>",
    "loading weights, part 1",
    'n-a:200:300 [0] NCCL INFO NCCL_TOPO_FILE set by environment to "C:\\x"',
    "n-a:200:300 [0] NCCL INFO Channel 00/0 : 0[0] -> 2[0] [send] via NET/IB/0/GDRDMA",
]
TIME = "2026-11-25T10:00:00.000001Z"


def objects(of_line: Callable[[str], object]) -> str:
    return "".join(json.dumps(of_line(line)) + "\n" for line in LINES)


def rows(head: str, row: str, *, quoted: bool = True) -> str:
    """A table of a time and of the lines."""
    texts = ['"' + line.replace('"', '""') + '"' if quoted else line for line in LINES]
    return head + "\n" + "".join(row.format(time=TIME, line=text) + "\n" for text in texts)


LOKI = {"data": {"result": [{"stream": {"app": "t"}, "values": [["17640648000", line] for line in LINES]}]}}
EXPORTS = {
    "logcli -o jsonl": objects(lambda line: {"labels": {"app": "t"}, "line": line, "timestamp": TIME}),
    "journalctl -o json": objects(lambda line: {"_HOSTNAME": "n1", "MESSAGE": line, "PRIORITY": "6"}),
    "a field inside": objects(lambda line: {"jsonPayload": {"message": line}, "severity": "INFO"}),
    "a name of nobody": objects(lambda line: {"level": "info", "zeile": line}),
    "JSON in JSON": objects(lambda line: {"message": json.dumps({"log": line, "stream": "stderr"})}),
    "Fluent Bit": objects(lambda line: {"time": TIME, "stream": "stderr", "_p": "F", "log": line}),
    "gcloud, on many lines": json.dumps(
        [{"insertId": "x", "textPayload": line} for line in LINES], indent=2
    ),
    "aws logs get-log-events": json.dumps({"events": [{"message": line} for line in LINES]}, indent=4),
    "Elasticsearch, on one line": json.dumps({"hits": [{"_source": {"message": line}} for line in LINES]}),
    "Loki's values": json.dumps(LOKI),
    "Loki's values, on many lines": json.dumps(LOKI, indent=2),
    "CloudWatch": rows("@timestamp,@message", "{time},{line}"),
    "without quotation marks": rows("@timestamp,@message", "{time},{line}", quoted=False),
    "the line in the middle": rows("Date,Message,Host", "{time},{line},n1"),
    "the line first": rows('"_raw","_time"', '{line},"{time}"'),
    "a comma in the time": rows('"TimeGenerated [UTC]",LogMessage', '"11/25/2026, 10:00 AM",{line}'),
    "semicolons": rows("time;a", "{time};{line}"),
    "tabs": rows("time\ta", "{time}\t{line}", quoted=False),
    "JSON in CSV": "a,b\n1," + '"' + json.dumps({"log": LINES[0]}).replace('"', '""') + '"\n',
}


@pytest.mark.parametrize("store", EXPORTS)
def test_an_export_gives_the_logged_lines(store: str):
    found = without_frames(EXPORTS[store].encode()).decode().split("\n")
    wanted = LINES[:1] if store == "JSON in CSV" else LINES

    assert [line for line in found if line in LINES] == wanted
    assert not any("NCCL" in line for line in found if line not in LINES)


@pytest.mark.parametrize("store", EXPORTS)
def test_lines_keep_their_numbers_where_the_export_has_any(store: str):
    text = EXPORTS[store]
    found = without_frames(text.encode()).decode().split("\n")

    if "\n" in text:
        assert [n for n, line in enumerate(found) if "NCCL INFO" in line] == [
            n for n, line in enumerate(text.split("\n")) if "NCCL INFO" in line
        ]


NO_STORES = {
    "a log": "\n".join(LINES) + "\n",
    "a log below a list of words": "step, loss\n" + "\n".join(LINES) + "\n",
    "a log below a name of a field": "message,time\n" + "\n".join(LINES[3:]) + "\n",
    "a launcher's tag": "".join(f"[1,0]<stdout>:{line}\n" for line in LINES),
    "a document without a program's line": json.dumps({"items": [{"name": "nvidia-peermem-ctr"}]}),
}


@pytest.mark.parametrize("name", NO_STORES)
def test_another_text_stays_as_it_is(name: str):
    text = NO_STORES[name].encode()

    assert without_frames(text) == text


def test_words_between_the_objects_stay():
    export = EXPORTS["logcli -o jsonl"]
    text = without_frames(f"What is wrong here?\n\n{export}Thanks\n".encode()).decode()

    assert text.split("\n") == ["What is wrong here?", "", *LINES, "Thanks", ""]


def test_the_usual_name_decides_where_no_line_is_of_a_program():
    assert logged_text('{"labels": {"a": "b"}, "line": "waiting", "timestamp": "1"}') == "waiting"
    assert logged_text('{"name": "nvidia", "count": 3}') is None
    assert logged_text('{"log": ["x"]}') is None


def test_an_endless_line_is_cut_behind_a_value():
    text = EXPORTS["Elasticsearch, on one line"].encode()
    frame = frame_of(text)
    assert frame is not None
    whole = frame.feed(text).split(b"\n")
    for size in range(len(text) // 2, len(text)):
        at = frame.edge(text[:size])
        both = b"\n".join(map(frame.feed, (text[:at], text[at:])))
        assert both.removesuffix(b"\n").split(b"\n") == whole


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_survives_json(line: str, other: str):
    logged = f"x NCCL INFO {line}"
    found = logged_text(json.dumps({"a": other, "b": logged, "c": other}))

    if "NCCL" not in other:
        assert found is not None
        assert found.split() == logged.encode(errors="replace").decode().split()
