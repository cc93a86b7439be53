"""Every knob: its range, its way from text and to JSON, and the presets."""

import dataclasses
import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtr_gpu.config import EDGE_KINDS, KNOBS, MODALITIES, PRESETS, Config
from gtr_gpu.errors import GTRError

FIELDS = {field.name: field for field in dataclasses.fields(Config)}
NAMES = sorted(KNOBS)
NUMBERS = [name for name in NAMES if type(FIELDS[name].default) in (int, float)]
CHOICES = [name for name in NAMES if KNOBS[name].choices]


def values_of(name):
    """Any allowed value of a knob."""
    knob, kind = KNOBS[name], type(FIELDS[name].default)
    if kind is bool:
        return st.booleans()
    if kind is tuple and knob.choices:
        return st.lists(st.sampled_from(knob.choices), unique=True, min_size=name == "modalities").map(tuple)
    if knob.choices:
        return st.sampled_from(knob.choices)
    low = None if math.isinf(knob.low) else knob.low
    high = None if math.isinf(knob.high) else knob.high
    if kind is int:
        return st.integers(low, high if high is not None else 2**62 - 1)
    if kind is float:
        return st.floats(low, high if high is not None else 1e18, allow_nan=False, allow_infinity=False)
    if kind is tuple:
        return st.lists(st.integers(1, 2**62 - 1), max_size=4).map(tuple)
    return st.text().map(str.strip)


configs = st.fixed_dictionaries({}, optional={name: values_of(name) for name in NAMES}).map(lambda v: Config(**v))


@given(configs)
def test_json_keeps_every_knob(config):
    # Through real JSON text, as a manifest stores it: tuples become lists there.
    text = json.dumps(config.to_json(), allow_nan=False)
    assert Config.from_json(json.loads(text)) == config
    assert sorted(json.loads(text)) == NAMES


@given(st.data())
def test_texts_set_every_knob(data):
    name = data.draw(st.sampled_from(NAMES))
    value = data.draw(values_of(name))
    text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    config = Config().override([f"{name}={text}"])
    assert getattr(config, name) == value
    assert config == Config().override({name: value})
    assert dataclasses.replace(config, **{name: FIELDS[name].default}) == Config()


@given(configs, configs)
def test_searching_as_takes_search_knobs_only(build, search):
    both = build.searching_as(search)
    for name, knob in KNOBS.items():
        assert getattr(both, name) == getattr(build if knob.stage == "build" else search, name)


def test_missing_knobs_take_their_defaults():
    assert Config() == Config.preset("default")
    assert Config.from_json({"damping": 0.3, "stemming": "auto"}) == Config(damping=0.3)


def test_knobs_that_an_older_index_lacks_are_what_it_did():
    assert Config.from_json({"damping": 0.3}) == Config(damping=0.3, stemming="none")


def test_every_knob_is_described_and_has_a_default_in_its_range():
    for name, knob in KNOBS.items():
        assert knob.stage in ("build", "search") and knob.text and not knob.text.endswith("."), name
        if name in NUMBERS:
            assert knob.low <= FIELDS[name].default <= knob.high, name


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_outside_of_the_range(name):
    knob, kind = KNOBS[name], type(FIELDS[name].default)
    assert not math.isinf(knob.low), "each number has a lower end"
    beyond = [knob.low - 1, 1 << 62, 10**30]
    beyond += [] if math.isinf(knob.high) else [knob.high + 1]
    beyond += [math.inf, -math.inf, math.nan] if kind is float else []
    for value in beyond:
        value = kind(value)
        with pytest.raises(GTRError, match=f"^{name} must be a (whole )?number .*got {re.escape(str(value))}$"):
            Config(**{name: value})
        with pytest.raises(GTRError, match=f"^{name} must be"):
            Config().override([f"{name}={value}"])
    for value in ("three", None, True, [1], (1,)):
        with pytest.raises(GTRError, match=f"^{name} must be a (whole )?number"):
            Config(**{name: value})
    with pytest.raises(GTRError, match=f"^{name} must be a (whole )?number.*got 'three'"):
        Config().override([f"{name}=three"])
    for value in (knob.low, knob.high):
        if not math.isinf(value):
            assert getattr(Config(**{name: kind(value)}), name) == value


def test_whole_numbers_are_not_rounded():
    with pytest.raises(GTRError, match=r"n_probe must be a whole number of at least 1, got '1\.5'"):
        Config().override(["n_probe=1.5"])
    with pytest.raises(GTRError, match=r"n_probe must be a whole number of at least 1, got 2\.0"):
        Config(n_probe=2.0)
    assert Config(damping=0).damping == 0


@pytest.mark.parametrize("name", CHOICES)
def test_words_outside_of_the_choices(name):
    wrong = KNOBS[name].choices[0] + "x"
    value = (wrong,) if type(FIELDS[name].default) is tuple else wrong
    with pytest.raises(
        GTRError, match=rf"^{name} must be .*got '{wrong}' \(did you mean '{KNOBS[name].choices[0]}'\?\)"
    ):
        Config(**{name: value})
    for value in (7, None, True, ("x", 3)):
        with pytest.raises(GTRError, match=f"^{name} must be"):
            Config(**{name: value})


@pytest.mark.parametrize("name", [name for name in NAMES if type(FIELDS[name].default) is bool])
def test_truth(name):
    for word, value in {"true": True, "NO": False, "1": True, "0": False, "yes": True, "False": False}.items():
        assert getattr(Config().override([f"{name}={word}"]), name) is value
    for wrong in ("maybe", ""):
        with pytest.raises(GTRError, match=f"{name} must be true or false, got '{wrong}'"):
            Config().override([f"{name}={wrong}"])
    with pytest.raises(GTRError, match=f"{name} must be true or false, got 1"):
        Config(**{name: 1})


@pytest.mark.parametrize("value", [("a",), (1.5,), (True,), (0,), (-1,), "50", [50], 50, ("50",), (10**30,)])
def test_rounds_are_whole_numbers(value):
    with pytest.raises(GTRError, match=r"^keep must be whole numbers, separated by commas"):
        Config(keep=value)


def test_lists():
    assert Config().override(["keep=100, 50,"]).keep == (100, 50)
    assert Config().override(["keep="]).keep == ()
    assert Config().override(["edge_kinds= key , cells "]).edge_kinds == ("key", "cells")
    assert Config(edge_kinds=()).edge_kinds == ()
    for kinds in ({"edge_kinds": ("key", "key")}, {"modalities": ("semantic", "semantic")}):
        with pytest.raises(GTRError, match="must name each kind once"):
            Config(**kinds)
    with pytest.raises(GTRError, match="modalities must be some of semantic, structural, heuristic"):
        Config(modalities=())


def test_unknown_knobs():
    with pytest.raises(GTRError, match=r"there is no knob 'dampin' \(did you mean 'damping'\?\); `gtr info --knobs`"):
        Config().override(["dampin=0.5"])
    with pytest.raises(GTRError, match="there is no knob 'zzz'; "):
        Config.from_json({"zzz": 1})
    for text in ("damping", "", "damping 0.5"):
        with pytest.raises(GTRError, match="a knob is set as NAME=VALUE"):
            Config().override([text])


def test_values_may_hold_equals_signs():
    assert Config().override(["query_prefix=a=b"]).query_prefix == "a=b"
    assert Config().override([" damping = 0.25 "]).damping == 0.25
    assert Config().override(["damping=0.1", "damping=0.2"]).damping == 0.2


@pytest.mark.parametrize("name", NAMES)
def test_a_stage_takes_its_own_knobs_only(name):
    stage = KNOBS[name].stage
    value = FIELDS[name].default
    assert Config().override({name: value}, stage) == Config()
    other = "search" if stage == "build" else "build"
    with pytest.raises(GTRError, match=f"{name} is a knob of the {stage}, not of the {other}; "):
        Config().override({name: value}, other)


def test_presets():
    for name in PRESETS:
        preset = Config.preset(name)
        assert Config.from_json(preset.to_json()) == preset
        assert set(PRESETS[name]) <= set(NAMES)
    assert Config.preset("paper") != Config()
    with pytest.raises(
        GTRError, match=r"preset must be one of default, paper, got 'papper' \(did you mean 'paper'\?\)"
    ):
        Config.preset("papper")
    with pytest.raises(GTRError, match="got ''"):
        Config.preset("")


def test_configs_do_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().damping = 0.5
    assert hash(Config()) == hash(Config())
    assert (MODALITIES, len(set(EDGE_KINDS))) == (("semantic", "structural", "heuristic"), 6)
