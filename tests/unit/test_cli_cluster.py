"""`kubectl specdec` against a scenario's cluster: what it shows, decides and foretells."""

from __future__ import annotations

import copy
import json
import re

import pytest
import yaml
from tests.support.golden import Recorded, recorded
from tests.support.merge import merged
from tests.support.scenario import Scenario
from tests.support.scenario_kube import ScenarioKube

from specdec.cli import cluster as connection
from specdec.controller.kube import ForbiddenError, KubeError
from specdec.resources.labels import PREFLIGHT

__all__ = ["recorded"]


@pytest.fixture(scope="module")
def begun() -> Scenario:
    """v1 and v2 were promoted, v4 was rejected, v3 is a candidate on one of two engines."""
    scenario = Scenario()
    scenario.given.drafters(v1=0.9, v2=0.8, v3=0.8, v4=0.0).server("v1", floor="2.2", replicas=2).traffic(1)
    scenario.when.time(60).drafter("v2").time(60).drafter("v4").time(30).drafter("v3").time(6)
    return scenario


@pytest.fixture
def stage(begun, monkeypatch) -> ScenarioKube:
    """Each test goes on from there by itself."""
    made = ScenarioKube(copy.deepcopy(begun))
    monkeypatch.setattr(connection, "connect", made.connect)
    return made


def file_of(stage: ScenarioKube, **spec) -> str:
    """The server's manifest with changes."""
    head = {"apiVersion": "specdec.dev/v1alpha1", "kind": "SpecDecodeServer", "metadata": {"name": "kimi"}}
    return yaml.safe_dump({**head, "spec": merged(stage.scenario.cluster.manifest["spec"], spec)})


def drafter(version: str) -> dict[str, str]:
    return {"model": f"pvc://models/drafters/{version}"}


@pytest.mark.parametrize(
    "words",
    ["status kimi", "status kimi -o wide", "status", "status -A -o wide", "history kimi", "diff kimi v1 v2"],
)
def test_it_shows_what_was_recorded(stage, words, recorded: Recorded):
    result = stage.call(*words.split())
    assert result.exit_code == (1 if words.startswith("diff") else 0)
    recorded(f"cli/{words.replace(' ', '-').replace('--', '-')}.txt", result.output)


def test_a_screen_fits_a_terminal_and_has_colours_only_there(stage):
    plain = stage.call("status", "kimi").output
    assert len(plain.splitlines()) <= 40
    assert "\x1b" not in plain


def test_status_for_programs_is_the_status_itself(stage):
    as_json = json.loads(stage.call("status", "kimi", "-o", "json").output)
    as_yaml = yaml.safe_load(stage.call("status", "kimi", "-o", "yaml").output)
    assert as_json == as_yaml
    assert as_json["status"]["candidate"]["version"] == "v3"
    assert as_json["events"][-1]["reason"] == "CandidateServing"
    listed = json.loads(stage.call("status", "-o", "json").output)
    assert [(item["name"], item["status"]["rollout"]) for item in listed] == [("kimi", "Judging")]


def test_a_server_that_no_operator_has_seen_is_shown_as_that(stage):
    stage.kube.objects["SpecDecodeServer", "llm", "kimi"].pop("status")
    assert "no operator has looked at it yet" in stage.call("status", "kimi").output


def test_what_a_person_holds_is_shown(stage):
    stage.scenario.when.spec(
        rollout={"paused": True, "pinnedRevision": "kimi-1"}, drafting="Off", mode="Observe"
    )
    stage.refresh()
    shown = stage.call("status", "kimi").output
    assert all(
        word in shown for word in ("rollout.paused", "pinnedRevision is kimi-1", "drafting is Off", "Observe")
    )


def test_namespaces_are_kubectls(stage):
    assert "No servers in namespace other" in stage.call("status", "-n", "other").stderr
    assert stage.where.namespace == "other"
    assert stage.call("status", "kimi", "-A").exit_code == 2


def test_watch_tells_changes_in_plain_lines_where_there_is_no_terminal(stage):
    result = stage.call("watch", "kimi", "--timeout", "60")
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    assert "v3 is promoted" in result.output
    states = [line for line in result.output.splitlines() if " status " in line]
    assert "Judging" in states[0]
    assert "Idle" in states[-1]
    assert len(states) == len(set(states))


def test_watch_ends_when_the_rollout_is_where_it_shall_be_or_the_time_is_up(stage):
    late = stage.call("watch", "kimi", "--until", "Idle", "--timeout", "3")
    assert late.exit_code == 1
    assert "is Judging, not Idle" in late.output
    assert stage.call("watch", "kimi", "--until", "Idle", "--timeout", "100").exit_code == 0


def test_watch_right_after_an_apply_waits_for_the_new_specs_rollout(stage):
    stage.call("watch", "kimi", "--until", "Idle", "--timeout", "100")
    stage.scenario.when.drafter("v1")
    stage.refresh()
    assert stage.scenario.cluster.status.rollout == "Idle"
    result = stage.call("watch", "kimi", "--until", "Idle", "--timeout", "300")
    assert result.exit_code == 0
    assert "active v1" in result.output.splitlines()[-1]


def test_watch_says_no_once_the_rollout_ended_otherwise(stage):
    stage.scenario.when.drafter("v4")
    stage.refresh()
    result = stage.call("watch", "kimi", "--until", "Idle", "--timeout", "1000000")
    assert result.exit_code == 1
    assert "the rollout of kimi ended: RolledBack, not Idle" in result.output
    assert stage.call("watch", "kimi", "--until", "RolledBack", "--timeout", "10").exit_code == 0


def test_watch_waits_for_the_answer_to_a_retry(stage):
    stage.scenario.when.drafter("v4").time(30)
    stage.refresh()
    assert stage.call("retry", "kimi", "--timeout", "0").exit_code == 0
    result = stage.call("watch", "kimi", "--until", "RolledBack", "--timeout", "300")
    assert result.exit_code == 0
    assert "RolledBack" in result.output.splitlines()[-1]


def test_watch_knows_the_words_that_it_can_wait_for(stage):
    result = stage.call("watch", "kimi", "--until", "Idel")
    assert result.exit_code == 2
    assert "'Idel' is not one of" in result.output


def test_watch_survives_an_api_server_that_is_away_for_a_moment(stage, monkeypatch):
    away = iter([KubeError("get failed: TimeoutError", 0), KubeError("get was refused with 503", 503)])
    listed = stage.kube.list

    async def now_and_then(*args, **more):
        if (error := next(away, None)) is not None:
            raise error
        return await listed(*args, **more)

    monkeypatch.setattr(stage.kube, "list", now_and_then)
    result = stage.call("watch", "kimi", "--timeout", "5")
    assert result.exit_code == 0
    assert result.stderr.count("trying again") == 2
    assert "Judging" in result.stdout


def test_a_live_screen_is_drawn_over_the_last_one(stage, monkeypatch):
    from specdec.cli import picture, watch

    manifest = stage.kube.objects["SpecDecodeServer", "llm", "kimi"]
    seen = picture.Picture(manifest, picture.SpecDecodeServer.model_validate(manifest), (), ())
    monkeypatch.setenv("LINES", "6")
    drawn = watch._redrawn(seen, stage.scenario.cluster.now)
    assert drawn.startswith(watch.HOME)
    assert drawn.endswith(watch.REST)
    assert drawn.count("\n") == 5


@pytest.mark.parametrize(
    ("words", "said", "served"),
    [
        ("undo kimi", "undo: .*-315a5819b4 serves again", "v2"),
        ("undo kimi --to-revision 1", "undo: .*-523eff73fb serves again", "v1"),
        ("promote kimi", "promote: .* is promoted", "v3"),
        ("abort kimi v3", "abort: .* is taken back", "v2"),
        ("retry kimi", "retry: .* gets another trial", "v3"),
    ],
)
def test_a_verb_is_answered_by_the_operator_and_done(stage, words, said, served):
    result = stage.call(*words.split())
    assert (result.exit_code, bool(re.match(said, result.output))) == (0, True), result.output
    stage.scenario.when.time(60)
    stage.scenario.then.serves(served)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("undo kimi --to-revision v4", "undo refused: kimi-ffd9bb6761 was rejected (DeadDrafter)"),
        ("undo kimi --to-revision v3", "undo refused: kimi-6c43a5c51c is what the spec asks for"),
        ("undo kimi --to-revision v9", "has no revision v9"),
        ("promote kimi v1", "promote refused: kimi-523eff73fb does not serve"),
        ("abort kimi v2", "abort refused: kimi-315a5819b4 is active"),
        ("abort nobody", "there is no SpecDecodeServer nobody in namespace llm"),
        ("pin kimi v9", "has no revision v9"),
        ("diff kimi v1 v9", "has no revision v9"),
    ],
)
def test_a_no_is_one_sentence_and_exit_code_1(stage, words, said):
    result = stage.call(*words.split())
    assert result.exit_code == 1
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_undo_of_what_the_spec_asks_for_and_serves_returns_to_the_one_before(stage):
    stage.scenario.when.time(100)
    stage.refresh()
    assert "kimi-315a5819b4 serves again in place of kimi-6c43a5c51c" in stage.call("undo", "kimi").output
    stage.scenario.when.time(20)
    stage.refresh()
    assert "kimi-523eff73fb serves again" in stage.call("undo", "kimi").output


def test_without_an_operator_a_verb_says_that_nobody_answered(stage):
    stage.scenario.when.operator_gone()
    result = stage.call("retry", "kimi", "--timeout", "5")
    assert result.exit_code == 2
    assert "no operator answered retry within 5 s; it stays asked for" in result.stderr
    assert stage.call("retry", "kimi", "--timeout", "0").output.startswith("asked: retry")


@pytest.mark.parametrize(
    ("words", "path", "value"),
    [
        ("pause kimi", ("rollout", "paused"), True),
        ("pin kimi v1", ("rollout", "pinnedRevision"), "kimi-523eff73fb"),
        ("drafting kimi off", ("drafting",), "Off"),
    ],
)
def test_a_lasting_decision_is_a_field_of_the_spec(stage, words, path, value):
    assert " already" not in stage.call(*words.split()).output
    found = stage.kube.objects["SpecDecodeServer", "llm", "kimi"]["spec"]
    for key in path:
        found = found[key]
    assert found == value
    assert stage.kube.writes == [("merge", "SpecDecodeServer", "kimi")]
    assert " already" in stage.call(*words.split()).output


def test_a_lasting_decision_can_be_taken_back(stage):
    before = stage.kube.objects["SpecDecodeServer", "llm", "kimi"]["spec"]
    for words in ("pause kimi", "resume kimi", "pin kimi 1", "unpin kimi"):
        assert stage.call(*words.split()).exit_code == 0
    assert "already" in stage.call("resume", "kimi").output
    after = stage.kube.objects["SpecDecodeServer", "llm", "kimi"]["spec"]
    assert {**after, "rollout": {}} == {**before, "rollout": {}}
    assert after["rollout"] == {}


@pytest.mark.parametrize(
    ("changes", "course", "sentence", "code"),
    [
        ({}, "Nothing", "nothing would change; v3 is being rolled out", 0),
        ({"drafter": drafter("v5")}, "InPlace", "v5 would be swapped in on running engines", 0),
        ({"drafter": drafter("v2")}, "InPlace", "v2 would serve again", 0),
        ({"drafter": drafter("v4")}, "Refused", "0 of 40 verify calls", 1),
        ({"engine": {"contextLength": 4096}}, "Restart", "engine.contextLength: (not set) -> 4096", 0),
        ({"drafter": {"model": "pvc://other/v1"}}, "Blocked", "no PersistentVolumeClaim other", 1),
        ({"acceptance": {"minAcceptLength": "1.5"}}, "Settings", "v3 stays what is asked for", 0),
        ({"rollout": {"paused": True}, "drafter": drafter("v5")}, "Held", "rollout.paused holds", 0),
        ({"drafting": "Off"}, "Held", "the spec says drafting: Off", 0),
    ],
)
def test_plan_says_what_would_happen_and_changes_nothing(stage, changes, course, sentence, code):
    result = stage.call("plan", "-f", "-", "-o", "json", stdin=file_of(stage, **changes))
    (answer,) = json.loads(result.output)
    assert (answer["course"], result.exit_code) == (course, code)
    assert sentence in answer["sentence"]
    assert not stage.kube.writes


def test_plan_for_people(stage, recorded: Recorded):
    result = stage.call("plan", "-f", "-", stdin=file_of(stage, drafter=drafter("v5")))
    recorded("cli/plan.txt", result.output)


def test_what_plan_foretells_is_what_happens(stage):
    """The first pass, as foretold from lists, is the one that the operator makes."""
    changed = file_of(stage, drafter=drafter("v5"))
    (answer,) = json.loads(stage.call("plan", "-f", "-", "-o", "json", stdin=changed).output)
    stage.scenario.given.drafters(v5=0.8)
    stage.scenario.when.drafter("v5")
    made = stage.scenario.cluster.reconcile()
    told = [f"tell {order.pod}: Swap {order.command.drafter.version}" for order in made.commands]
    assert [line for line in answer["first"] if line.startswith("tell")] == told
    assert answer["revision"] in stage.scenario.cluster.revisions


def test_plan_of_a_new_server(stage):
    text = yaml.safe_load(file_of(stage))
    text["metadata"]["name"] = "new"
    text["spec"]["engine"] = {}
    result = stage.call("plan", "-f", "-", stdin=yaml.safe_dump(text))
    assert result.exit_code == 0
    assert "FirstStart  llm/new: engines would be created and start with v3" in result.output
    assert "the preflight judges v3 first, in a Job" in result.output
    assert "create Job new-check-" in result.output
    assert "--default-image says it" in result.output


def test_plan_says_which_agents_it_could_not_ask(stage):
    stage.kube.served.clear()
    result = stage.call("plan", "-f", "-", stdin=file_of(stage, drafter=drafter("v5")))
    assert "the agents of kimi-0, kimi-1 did not answer" in result.output


def test_plan_expects_no_answer_of_a_preflights_pod(stage):
    engine = copy.deepcopy(stage.kube.objects["Pod", "llm", "kimi-0"])
    engine["metadata"] |= {"name": "kimi-check-1", "uid": "uid-of-the-check"}
    engine["metadata"]["labels"]["app.kubernetes.io/component"] = PREFLIGHT
    stage.kube.add(engine)
    result = stage.call("plan", "-f", "-", stdin=file_of(stage, drafter=drafter("v5")))
    assert "did not answer" not in result.output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Pod\nmetadata: {name: x}", "has no SpecDecodeServer"),
        ("a: [", "is not YAML"),
        ("kind: SpecDecodeServer\nspec: {}", "without metadata.name"),
    ],
)
def test_a_file_that_makes_no_sense_is_said(stage, text, said):
    result = stage.call("plan", "-f", "-", stdin=text)
    assert result.exit_code == 2
    assert said in result.stderr


def test_what_admission_refuses_is_plans_no(stage):
    stage.kube.failures["dry-run SpecDecodeServer"] = KubeError("update was refused with 422: too high", 422)
    result = stage.call("plan", "-f", "-", stdin=file_of(stage))
    assert (result.exit_code, result.stderr) == (1, "Error: update was refused with 422: too high\n")


def test_a_missing_right_is_said_and_no_answer(stage):
    stage.kube.failures["merge SpecDecodeServer"] = ForbiddenError("you may not patch it: ask", 403)
    result = stage.call("pause", "kimi")
    assert (result.exit_code, result.stderr) == (2, "Error: you may not patch it: ask\n")


def test_report_draws_and_says_what(stage, tmp_path):
    result = stage.call("report", "kimi", "--to", str(tmp_path / "kimi.png"))
    assert "3 judged revisions, 6 events" in result.output
    assert (tmp_path / "kimi.png").read_bytes().startswith(b"\x89PNG")
    data = json.loads(stage.call("report", "kimi", "-o", "json").output)
    assert [item["outcome"] for item in data["judged"]] == ["Promoted", "Promoted", "Rejected"]


def test_report_without_anything_to_draw_or_to_draw_with_says_so(stage, tmp_path, monkeypatch):
    from specdec.cli import report

    missing = stage.call("report", "kimi", "--to", str(tmp_path / "no" / "kimi.png"))
    assert (missing.exit_code, "can't be written" in missing.stderr) == (2, True)
    monkeypatch.setattr(report.importlib.util, "find_spec", lambda name: None)
    assert "needs matplotlib" in stage.call("report", "kimi").stderr
    for address in [key for key in stage.kube.objects if key[0] in ("Event", "ControllerRevision")]:
        del stage.kube.objects[address]
    empty = stage.call("report", "kimi")
    assert (empty.exit_code, "has nothing to draw" in empty.stderr) == (1, True)
