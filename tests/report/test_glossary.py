"""Every term in the output has an entry, and any spelling finds it."""

import pytest
from tools.pages import glossary_page

from gdrkit.catalogue import CODES
from gdrkit.report.glossary import GLOSSARY, term
from gdrkit.rules.capabilities import Path
from gdrkit.rules.rule import Layer
from gdrkit.verdict.path_state import State


@pytest.mark.parametrize("entry", GLOSSARY, ids=lambda entry: entry.name)
def test_an_entry_is_a_sentence_and_refers_to_existing_pages(entry):
    assert entry.text[0].isupper() or entry.text.startswith(("dmabuf", "ib_", "nvidia"))
    assert entry.text.endswith(".") or entry.text.endswith("`.")
    assert set(entry.codes) <= set(CODES)


def test_no_spelling_belongs_to_two_entries():
    spellings = [word for entry in GLOSSARY for word in (entry.name, *entry.also)]
    assert all(term(word) == entry for entry in GLOSSARY for word in (entry.name, *entry.also))
    assert len(spellings) == len({word.casefold() for word in spellings})


@pytest.mark.parametrize(
    "word", ["DMABUF", "dma buf", "dma_buf", "dma-buf", "peer memory API", "PXB", "pxb"]
)
def test_case_dashes_and_spaces_do_not_matter(word):
    assert term(word) is not None


@pytest.mark.parametrize(
    "word", [*(state.value for state in State), "stub", "staged", "socket", "host-mapped"]
)
def test_states_and_paths_are_explained(word):
    assert term(word) is not None


def test_the_direct_paths_and_the_layers_are_explained():
    assert all(path in term("path").text for path in Path)
    assert all(layer in term("layer").text for layer in Layer)


def test_the_entries_are_in_alphabetical_order_and_the_page_has_them_all():
    names = [entry.name for entry in GLOSSARY]
    assert names == sorted(names, key=str.casefold)
    assert all(f"| {name} |" in glossary_page() for name in names)


def test_an_unknown_word_has_no_entry():
    assert term("flux capacitor") is None


@pytest.mark.parametrize(
    "word",
    [
        "stub",
        "PXB",
        "PHB",
        "SYS",
        "NODE",
        "peer-memory API",
        "staged",
        "dma-buf",
        "BAR1",
        "ACS",
        "ATS",
        "IOMMU",
    ],
)
def test_words_that_an_admin_may_not_know_have_a_short_explanation(word):
    """It is put into a sentence, in parentheses."""
    short = term(word).short
    assert short and len(short) <= 60 and not set("().") & set(short)


def test_names_of_cards_that_nvidia_supports_and_their_slots_lead_to_an_answer():
    for word in ("RTX A6000", "a6000", "NVIDIA RTX PRO 6000", "RTX 6000 Ada", "Quadro", "H100"):
        found = term(word)
        assert found is not None and found.name == "professional card", word
    for word in ("x4", "ConnectX-5"):
        found = term(word)
        assert found is not None and found.name == "PCIe lanes", word
    for word in ("RTX 4090", "5090", "T400", "NVIDIA", "RTX", "6", "A60000"):
        found = term(word)
        assert found is None, word
