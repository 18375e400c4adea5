"""Errors of the C library in other languages have the causes of the same errors in English."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit import catalogue
from gdrkit.messages.errors import strerror
from gdrkit.messages.strerror import _TRANSLATIONS, in_english

TRANSLATED = [(number, text) for number, texts in _TRANSLATIONS.items() for text in texts]


@pytest.mark.parametrize(("number", "text"), TRANSLATED)
def test_each_translation_becomes_the_english_text_of_its_error(number, text):
    assert in_english(f"call failed: {text} [{number}]") == f"call failed: {strerror(number)} [{number}]"


@pytest.mark.parametrize(
    "line",
    [
        "Call to ibv_reg_mr failed with error Ungültige Adresse",
        "Call to ibv_reg_mr failed with error Mauvaise adresse",
        "Call to ibv_reg_mr failed with error Indirizzo errato",
        "Call to ibv_reg_mr failed with error Endereço inválido",
        "Call to ibv_reg_mr failed with error Błędny adres",
        "Call to ibv_reg_mr failed with error 错误的地址",
        "Call to ibv_reg_mr failed with error 錯誤的位址",
        "Call to ibv_reg_mr failed with error 不正なアドレスです",
        "Call to ibv_reg_mr failed with error 잘못된 주소",
    ],
)
def test_a_failed_registration_has_the_same_causes_in_every_language(line):
    english = catalogue.match("Call to ibv_reg_mr failed with error Bad address")
    found = catalogue.match(in_english(line))

    assert english is not None and found is not None
    assert found.causes == english.causes


def test_no_translation_means_two_errors():
    texts = [text for _, text in TRANSLATED]

    assert len(texts) == len(set(texts))


def test_a_sentence_of_another_language_stays_as_it_is():
    assert (
        in_english("Die Karte ist neu. Argument: 3. Keine Sorge")
        == "Die Karte ist neu. Argument: 3. Keine Sorge"
    )
    assert in_english("L'indirizzo è quello della scheda") == "L'indirizzo è quello della scheda"
    assert in_english("地址") == "地址"


@given(st.text())
def test_any_text_can_be_translated(text):
    assert isinstance(in_english(text), str)
