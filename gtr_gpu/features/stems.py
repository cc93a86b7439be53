"""Stems of words by the Snowball stemmers, so that "cities" finds "city"."""

from __future__ import annotations

from collections.abc import Callable

import Stemmer

from gtr_gpu.features.language import language_of

Stem = Callable[[list[str]], list[str]]

# Snowball's algorithms by the codes that spaCy's pipelines begin with.
_ALGORITHMS = {
    "ar": "arabic",
    "ca": "catalan",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "eu": "basque",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "nb": "norwegian",
    "ne": "nepali",
    "nl": "dutch",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    "yi": "yiddish",
}


def stem_of(stemming: str, spacy_model: str) -> Stem:
    """What makes stems of terms, for one thread at a time.

    Args:
        stemming: `auto` takes the language of the spaCy model, whose words stay as they are where Snowball has no
            stemmer for it; `none` leaves all words as they are.
        spacy_model: `auto`, which is English, a pipeline's name such as `de_core_news_sm`, or `blank:de`.
    """
    algorithm = _ALGORITHMS.get(language_of(spacy_model)) if stemming == "auto" else None
    if algorithm is None:
        return list
    stem: Stem = Stemmer.Stemmer(algorithm).stemWords
    return stem
