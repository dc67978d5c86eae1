"""The stopping rule: asked after every release it keeps its level, whoever answers, and it does stop."""

import numpy as np
import pytest

from fairveil import registry
from fairveil.bandits.environments.arms import UNIT
from fairveil.bandits.feedback import AT_ONCE, Lateness
from fairveil.bandits.nash.adap_ucb import AdapUcb
from fairveil.bandits.nash.planning import PlanQuestion, guessed_world
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.bandits.nash.stopping import NEVER, follow, separated, separation, words
from fairveil.bandits.protocol import HEADER
from fairveil.bandits.simulate import Case, Streams, walk
from fairveil.errors import PrivacyError, SpecError

PEOPLE = 20_000


def followed(policy, means, runs, late=AT_ONCE, silence="any"):
    world, names = guessed_world(means)
    question = PlanQuestion(policy, world, names, PEOPLE, runs, late, 0.95, silence)
    case = Case.of(policy, world, PEOPLE, lateness=late, seed=3)
    return [follow(case, question, policy, run) for run in range(runs)], np.array(means)


def missed(run, means):
    """Whether an interval that was looked at until the rule stopped misses its mean."""
    rows = run.ruled[run.at <= run.stopped]
    return bool(((rows[:, :, 1] > means) | (rows[:, :, 2] < means)).any())


@pytest.mark.parametrize(
    ("policy", "means", "late"),
    [
        (PrivateNash(arms=3, epsilon=1.0, exploration=8.0), [0.3, 0.5, 0.7], AT_ONCE),
        (PrivateNash(arms=3, epsilon=0.2, exploration=8.0), [0.5, 0.5, 0.5], AT_ONCE),
        (PrivateNash(arms=2, epsilon=1.0, exploration=8.0), [0.3, 0.6], Lateness.of({"delay": 50, "missing": 0.1})),
        (PrivateNash(arms=3, epsilon=1.0, exploration=8.0, release="arrivals"), [0.3, 0.5, 0.7], AT_ONCE),
        (
            PrivateNash(arms=2, epsilon=1.0, exploration=8.0, release="arrivals"),
            [0.3, 0.6],
            Lateness.of({"delay": ["uniform", 0, 100], "window": 600, "missing": 0.1}),
        ),
    ],
)
def test_sequences_that_are_stopped_at_the_first_separation_keep_their_level(policy, means, late):
    """200 runs; the level is .95 and the bound is conservative, so more than 10 misses of 200 would be a mistake."""
    runs, truth = followed(policy, means, 200, late)
    assert sum(missed(run, truth) for run in runs) <= 10
    best = set(np.flatnonzero(truth == truth.max()))
    assert sum(run.stopped < NEVER and run.verdict not in best for run in runs) <= 10
    if len(best) == 1 and late == AT_ONCE:  # a rule that never stops would keep its level too
        assert sum(run.stopped < NEVER for run in runs) >= 150


def test_usual_intervals_would_not_keep_it():
    """What the rule is for: looked at after every release, plain 95 % intervals miss some time far more often."""
    runs, truth = followed(PrivateNash(arms=3, epsilon=5.0, exploration=8.0), [0.5, 0.5, 0.5], 200)
    out = [bool(((run.rows[:, :, 1] > truth) | (run.rows[:, :, 2] < truth)).any()) for run in runs]
    assert sum(out) > 30


ARRIVALS = {"release": "arrivals"}


@pytest.mark.parametrize(
    ("policy", "late"),
    [
        (PrivateNash(arms=3, epsilon=1.0), AT_ONCE),
        (PrivateNash(arms=3, epsilon=1.0, **ARRIVALS), AT_ONCE),
        (PrivateNash(arms=3, epsilon=1.0, **ARRIVALS), Lateness.of({"delay": 40})),
        (PrivateNash(arms=3, epsilon=1.0, **ARRIVALS), Lateness.of({"delay": 40, "missing": 0.1, "window": 90})),
        (PrivateNash(arms=3, epsilon=1.0, **ARRIVALS), Lateness.of({"delay": ["geometric", 9.0], "missing": 0.3})),
        (AdapUcb(arms=3, epsilon=1.0, **ARRIVALS), Lateness.of({"delay": ["uniform", 4, 20], "window": 60})),
    ],
    ids=str,
)
def test_a_simulated_run_is_followed_as_its_steps_publish(policy, late):
    """Sure rewards, so that sums are equal: after every release of the steps the same rows, at the same people. Where
    several arms are released at once, after the last of them."""
    silence = "any" if policy.shape().keep else "independent"
    world, names = guessed_world([0.0, 1.0, 1.0])
    question = PlanQuestion(policy, world, names, 600, 1, late, 0.95, silence)
    case = Case.of(policy, world, 600, lateness=late, seed=4)
    found = follow(case, question, policy, 0)
    seen, given = 0, np.zeros(3)
    for decided, step in enumerate(walk(policy, world, 600, Streams.of(4, 0), late), 1):
        given[step.decision.arm] += 1
        if int(step.state["released"][0]) > seen:
            seen = int(step.state["released"][0])
            assert found.at[seen - 1] == decided
            assert found.rows[seen - 1] == pytest.approx(policy.arm_intervals(step.state), nan_ok=True)
            ruled = separation(policy, step.state, silence=silence).rows
            assert found.ruled[seen - 1] == pytest.approx(ruled, nan_ok=True)
    assert seen == len(found.at) > 3
    assert np.bincount(found.played, np.diff(found.ends, prepend=0), 3).tolist() == given.tolist()


def published(policy, blocks):
    """A state with these blocks published: (arm, rounds, answers, sum of rewards)."""
    first, releases = 0, []
    for place, (arm, rounds, answers, total) in enumerate(blocks):
        header = np.array([arm, first, first + rounds], np.int64)
        value = {HEADER: header, "total": np.array([int(total * UNIT)]), "count": np.array([float(answers)])}
        releases.append((f"block-{place}", value))
        first += rounds
    return policy.restored(releases)


def test_silence_that_depends_on_the_outcome_is_inside_the_bounds():
    """Half of 4,000 people recover; the recovered answer half as often. Those who answered show a third."""
    policy = PrivateNash(arms=2, epsilon=1.0)
    state = published(policy, [(0, 4_000, 3_000, 1_000), (1, 4_000, 4_000, 2_000)])
    anyhow, narrow = separation(policy, state), separation(policy, state, silence="independent")
    assert narrow.rows[0, 2] < 0.5
    assert anyhow.rows[0, 1] < 0.5 < anyhow.rows[0, 2]
    assert narrow.best == 1
    assert anyhow.best is None
    assert anyhow.rows[1] == pytest.approx(narrow.rows[1])  # everybody answered
    assert "nothing is assumed" in anyhow.estimates().notes[2]


def test_the_verdict_in_words_and_what_is_refused():
    policy = PrivateNash(arms=2, epsilon=1.0)
    found = separation(policy, published(policy, [(0, 4_000, 4_000, 1_000), (1, 4_000, 4_000, 2_500)]))
    assert words(found, ("usual care", "new drug")).startswith(
        "new drug is better than every other option at level 95%"
    )
    assert "looking again" in words(separation(policy, policy.start()), ("a", "b"))
    assert separated(np.array([[0.5, 0.4, 0.6]])) is None
    hidden = PrivateNash(arms=2, epsilon=1.0, arrivals="private")
    with pytest.raises(SpecError, match="noisy"):
        separation(hidden, hidden.start(), silence="independent")
    assert separation(hidden, hidden.start()).best is None
    forgets = AdapUcb(arms=2, epsilon=1.0)
    with pytest.raises(SpecError, match="silence cannot be bounded"):
        separation(forgets, forgets.start())
    assert separation(forgets, forgets.start(), silence="independent").best is None
    printed = registry.build(
        "policy", {"name": "gdp-ncb", "variant": "printed", "arms": 2, "epsilon": 1.0, "horizon": 9}, "policy"
    )
    with pytest.raises(PrivacyError, match="not established"):
        separation(printed, printed.start())
