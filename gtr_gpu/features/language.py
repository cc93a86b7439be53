"""The language that a spaCy pipeline is for."""

from __future__ import annotations

import re

# spaCy's names of pipelines begin with the code of a language.
_LANGUAGE = re.compile(r"blank:(?P<blank>[a-z]{2,3})|(?P<named>[a-z]{2,3})_\w+")


def language_of(spacy_model: str) -> str:
    """The code of a pipeline's language, such as `en`; empty where the name doesn't tell it.

    Args:
        spacy_model: `auto`, which is English, a pipeline's name such as `de_core_news_sm`, or `blank:de`.
    """
    code = _LANGUAGE.fullmatch("blank:en" if spacy_model == "auto" else spacy_model)
    return (code["blank"] or code["named"]) if code else ""
