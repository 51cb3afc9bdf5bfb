"""Hostile words: in messages, events, logs, metrics and requests they stay words, short and in their place."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import kopf
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kopf._core.actions.loggers import ObjectJsonFormatter
from tests.security.corpus import HARMLESS, server
from tests.support.scenario_world import NOW, record, world
from tests.support.scenario_world import server as sound

from specdec.api.v1alpha1 import SpecDecodeServer
from specdec.controller.clock import Clock
from specdec.controller.events import MESSAGE_LENGTH, EventPoster
from specdec.controller.status import TEXT_LENGTH, rendered
from specdec.controller.text import fit
from specdec.rollout import requests
from specdec.rollout.plan import plan
from specdec.rollout.world import Event, Settings, World

WORDS = {
    "a line feed": "x\nforged",
    "a terminal's escape": "\x1b[2J\x1b]0;title\x07",
    "a C1 control": "\x9b2J",
    "a direction override": "\u202egnp.exe",
    "an isolate": "\u2066x\u2069",
    "a line separator": "a\u2028b",
    "a byte order mark": "\ufeffx",
    "a null": "a\x00b",
    "a forged JSON line": '"}\n{"level":"info","message":"forged"}',
    "a megabyte": "a" * 1_000_000,
    "a lone surrogate": "\ud800",
}
SETTINGS = Settings("registry.example/engine:1", ("registry.example/",))


def misleads(text: str) -> bool:
    return any(not letter.isprintable() and letter not in " \n\t" for letter in text if letter != "\ud800")


@pytest.mark.parametrize("case", WORDS)
def test_texts_are_clipped_and_can_not_move_a_cursor(case: str):
    assert len(fit(WORDS[case], 100)) <= 100
    assert not misleads(fit(WORDS[case], 100))


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_texts_of_every_language_stay_as_they_are(text: str):
    assert fit(text, 10_000) == text


@pytest.mark.parametrize("case", WORDS)
def test_events_are_fit(case: str):
    poster = EventPoster(None, Clock(), "operator")  # type: ignore[arg-type]
    metadata = {"name": "kimi", "namespace": "serving", "uid": "u"}
    message = poster._manifest(metadata, Event("Warning", "Stalled", WORDS[case]))["message"]
    assert len(message) <= MESSAGE_LENGTH
    assert not misleads(message)


@pytest.mark.parametrize("case", [case for case in HARMLESS if "pin" in case])
def test_a_pin_that_is_shown_is_fit(case: str):
    of = SpecDecodeServer.model_validate(server(HARMLESS[case]))
    shown = json.loads(json.dumps(rendered(plan(World(of, SETTINGS), {}, NOW).status)))
    for text in texts(shown):
        assert len(text) <= TEXT_LENGTH
        assert not misleads(text)


def texts(value: Any) -> list[str]:
    match value:
        case str():
            return [value]
        case list():
            return [text for child in value for text in texts(child)]
        case dict():
            return [text for child in value.values() for text in texts(child)]
        case _:
            return []


@pytest.mark.parametrize("case", WORDS)
def test_a_log_line_is_one_object_whatever_it_says(case: str):
    formatter = ObjectJsonFormatter()
    line = logging.LogRecord("specdec", logging.WARNING, "x.py", 1, "%s: failed", (WORDS[case],), None)
    text = formatter.format(line)
    assert "\n" not in text
    assert json.loads(text)["message"].startswith(WORDS[case][:20])
    assert kopf.LogFormat.JSON


@pytest.mark.parametrize("case", WORDS)
@pytest.mark.parametrize("form", ["{}", "retry@{}@1", "promote@kimi-1@{}"])
def test_a_request_is_handled_once_whatever_it_says(case: str, form: str):
    v1 = record("v1", 1)
    asked = replace(world(sound("v1"), v1, records=(v1,)), request=form.format(WORDS[case]))
    first = plan(asked, {}, NOW)
    kept = rendered(first.status)["lastHandledRequest"]
    assert kept == requests.mark(asked.request)
    assert len(kept) <= requests.LONGEST
    answers = [event for event in first.events if event.reason == "RequestHandled"]
    assert len(answers) == 1
    status = first.status.model_copy(update={"last_handled_request": kept})
    again = replace(asked, server=asked.server.model_copy(update={"status": status}))
    assert [event for event in plan(again, {}, NOW + 1).events if event.reason == "RequestHandled"] == []


def test_two_long_requests_are_two():
    assert requests.mark("retry@a@" + "1" * 300) != requests.mark("retry@a@" + "1" * 301)


def test_an_ordinary_request_is_kept_as_it_is():
    assert requests.mark("retry@kimi-1234567890@17") == "retry@kimi-1234567890@17"
