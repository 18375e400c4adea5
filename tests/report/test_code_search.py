"""The search of `gdr codes WORD`: names first, all words needed, starts of words but no middles."""

import pytest

from gdrkit.report.code_search import search
from gdrkit.report.glossary import GLOSSARY, term
from gdrkit.report.pages import titles


@pytest.mark.parametrize("words", ["port down", "PORT-DOWN", "down port"])
def test_the_code_with_all_words_in_its_name_comes_first(words):
    assert search(words)[0].name == "port-down"


def test_a_word_in_a_title_or_in_the_text_of_a_term_is_found_after_names():
    found = [match.name for match in search("redirects")]
    assert "acs-redirect" in found

    ranked = [match.name for match in search("switch")]
    named = [name for name in ranked if "switch" in name.casefold()]
    assert ranked[: len(named)] == named and len(ranked) > len(named)


def test_every_code_and_every_term_finds_itself_first_by_its_name():
    for name in (*(row.code for row in titles()), *(entry.name for entry in GLOSSARY)):
        assert name in [match.name for match in search(name)], name


def test_the_middle_of_a_word_and_a_part_of_the_words_are_no_match():
    assert "port" not in " ".join(match.name for match in search("ort"))
    assert search("port flux-capacitor") == [] and search("") == [] and search("--") == []


def test_the_words_of_a_message_find_its_codes_the_likeliest_first():
    found = [match.name for match in search("Invalid argument") if match.where != "glossary"]
    assert found[0] == "peermem-stub" and {"module-crc-mismatch", "gid-index-wrong"} <= set(found)
    refused = {match.name for match in search("key was  rejected")}
    assert refused == {
        "module-unsigned", "module-unknown-key", "module-signature-broken", "module-key-revoked",
    }  # fmt: skip


def test_words_of_a_message_in_another_order_and_short_ones_find_no_message():
    assert not [match for match in search("argument Invalid") if "Message:" in match.text]
    assert not [match for match in search("key") if "Message:" in match.text]


@pytest.mark.parametrize(
    ("words", "name"),
    [
        *(
            (words, "gpu-consumer")
            for words in ("4090", "RTX 4090", "tinygrad", "patched driver", "GeForce")
        ),
        *((words, "integrated GPU") for words in ("GB10", "DGX Spark", "spark")),
        *((words, "unified memory") for words in ("unified memory", "cudaMallocManaged")),
        ("NCCL_P2P_LEVEL", "P2P"),
        ("zero copy", "host-mapped"),
        ("zero-copy", "host-mapped"),
    ],
)
def test_the_words_of_owners_of_a_spark_or_a_geforce_are_found(words, name):
    entry = term(words)
    assert name == (entry.name if entry is not None else search(words)[0].name)
    if name == "unified memory":
        assert entry is not None and {"gpu-integrated", "memory-not-registrable"} <= set(entry.codes)
    assert term(f"{words} flux") is None and not search(f"{words} flux")


@pytest.mark.parametrize("word", ["GDRDMA", "/GDRDMA", "gdrdma"])
def test_what_a_channel_line_ends_in_is_explained(word):
    entry = term(word)
    assert entry is not None and "NET/IB/0/GDRDMA" in entry.text and "proof-misread" in entry.codes


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("error=14", "peermem-not-loaded"),
        ("EFAULT", "peermem-not-loaded"),
        ("Bad address", "peermem-not-loaded"),
        ("peerdirect_support", "lock-inversion"),
    ],
)
def test_an_error_and_the_words_of_a_page_find_it(words: str, code: str):
    assert search(words)[0].name == code


def test_no_match_shows_a_pattern():
    texts = [
        match.text for words in ("allocate MR", "error=", "failed", "Port module") for match in search(words)
    ]
    assert texts
    assert not [text for text in texts if "{" in text or "\\b" in text]
