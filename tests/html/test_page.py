"""The frame of a report: no word of a stranger becomes markup, and the policy lets one script run."""

from __future__ import annotations

import base64
import hashlib
import json
import re

from hypothesis import given
from hypothesis import strategies as st

from gdrkit.html.page import command, page, rich, safe

FRAME = {"title": "t", "style": "p{}", "script": "1;", "version": "0"}


def test_the_policy_names_the_hash_of_the_style_and_of_the_script():
    text = page(body="", data={}, **FRAME)
    for element, content in (("style", "p{}"), ("script", "1;")):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{element}-src 'sha256-{digest}'" in text
    assert "default-src 'none'" in text and "unsafe" not in text


@given(st.text())
def test_words_of_strangers_are_no_markup(words):
    for made in (safe(words), rich(words), command(words)):
        outside = re.sub(r"</?(code|div|button)[^<>]*>", "", made)
        assert not set("<>") & set(outside)
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", made)


@given(st.text())
def test_data_of_strangers_ends_no_script_and_is_read_back_as_it_was(words):
    text = page(body="", data={"words": words}, **FRAME)
    (embedded,) = re.findall(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert not set("<>&") & set(embedded)
    assert json.loads(embedded) == {"words": words}


def test_words_in_backticks_are_code():
    assert rich("Run `a <b` now") == "Run <code>a &lt;b</code> now"
