"""One vocabulary: every package knows the same notions, and no two criteria share a word."""

from __future__ import annotations

import pickle

import pytest

from fairveil import registry
from fairveil.dynamics.participation.trained import CRITERIA
from fairveil.dynamics.problem import CODES
from fairveil.errors import SpecError
from fairveil.fairness.metrics import GAPS
from fairveil.fairness.notions import EVERYWHERE, NOTIONS, Notion, by_constraint, by_cutoffs, by_rule, rules
from fairveil.lab import papers
from fairveil.lab.artefact import say
from fairveil.lab.papers.thesis_words import ParticipationArtefact, ThesisArtefact


def unique(names):
    named = [name for name in names if name]
    return len(set(named)) == len(named)


def test_no_two_criteria_share_a_word_or_a_name():
    assert unique(notion.words.lower() for notion in NOTIONS)
    assert all(notion.words for notion in NOTIONS)
    for names in ("name", "short", "fairlearn", "cutoffs", "level"):
        assert unique(getattr(notion, names) for notion in NOTIONS), names


def test_every_notion_has_what_the_packages_need():
    constrained = [notion for notion in NOTIONS if notion.labels]
    assert {notion.name for notion in constrained} | {"error-gap"} == set(GAPS)
    assert {notion.level for notion in NOTIONS if notion.rule} == set(CODES)
    assert all(by_constraint(notion.short) is notion for notion in constrained)
    assert all(by_cutoffs(notion.cutoffs) is notion for notion in NOTIONS if notion.cutoffs)
    assert {notion.cutoffs for notion in NOTIONS if notion.cutoffs} == set(CRITERIA)
    reductions = pytest.importorskip("fairlearn.reductions")
    assert all(hasattr(reductions, notion.fairlearn) for notion in constrained)


def test_specs_keep_their_values():
    assert rules("participation") == ("none", "simple", "dp", "eqopt", "eqloss", "eqloss-above")
    assert rules("qualification") == ("none", "simple", "dp", "eqopt")
    assert rules("strategic") == ("none", "dp", "eqopt")
    for model in EVERYWHERE:
        fields = registry.get("task", model).Spec.model_fields
        assert set(fields["fairness"].annotation.__args__) == set(rules(model))
    assert {by_rule(rule, rate).level for rule in rules("participation") for rate in ("tpr", "fpr")} == set(CODES)
    with pytest.raises(SpecError, match="criterion"):
        by_rule("fair")
    with pytest.raises(SpecError, match="equal-opportunity"):
        Notion.of("equal-oportunity")


def test_a_notion_is_stored_by_its_name():
    for name in ("none", "equalized-odds"):
        assert pickle.loads(pickle.dumps(Notion.of(name))) == Notion.of(name)
    old = Notion.__new__(Notion)
    old.__setstate__({"name": "false-positive", "labels": ((0,),)})
    assert old == Notion.of("false-positive")


def test_pictures_of_the_thesis_call_a_criterion_what_its_spec_makes_equal():
    """Chapter 4's Simple is one threshold and not no constraint; its EqOpt equalises false positives."""
    papers.load()
    seen = set()
    for entry in registry.entries("artefact"):
        if not issubclass(entry.target, ThesisArtefact):
            continue
        made = entry.target()
        short = {notion.thesis for notion in NOTIONS if notion.thesis}
        for label, spec in made.specs("quick").items():
            said = [name for name in short if name in label.replace(",", " ").split()]
            if "fairness" not in spec or len(said) != 1:
                continue
            rate = "fpr" if spec["task"] == "participation" else "tpr"
            assert by_rule(spec["fairness"], spec.get("rate", rate)).words in say(label, made.words), (
                entry.name,
                label,
            )
            seen.add((spec["task"], *said))
    assert {task for task, _ in seen} == set(EVERYWHERE)
    assert {name for task, name in seen if task == "participation"} == {"UN", "Simple", "EqOpt", "DP", "EqLos"}


@pytest.mark.parametrize("artefact", [ThesisArtefact, ParticipationArtefact])
def test_words_differ_where_criteria_do(artefact):
    said = {name: artefact.words[name] for name in ("UN", "Simple", "EqOpt", "DP", "EqLos")}
    assert len(set(said.values())) == len(said)
