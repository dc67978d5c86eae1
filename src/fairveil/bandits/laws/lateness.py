"""Laws of policies whose rewards come late, in another order, or never."""

from __future__ import annotations

from dataclasses import replace

from fairveil.bandits.environments.base import Environment
from fairveil.bandits.feedback import Lateness
from fairveil.bandits.laws.playing import ROUNDS, Silent, play, turns
from fairveil.bandits.protocol import Feedback, Policy, Report, settle
from fairveil.laws import must
from fairveil.privacy.noise import SeededNoise
from fairveil.state import same_state


def late_and_missing_rewards(policy: Policy, world: Environment) -> None:
    """Rewards may come late, out of order, or never."""
    late = Lateness("uniform", (0.0, 20.0), 20, missing=0.2)
    must(len(play(policy, world, SeededNoise(3), late)) == ROUNDS, "late rewards stop it")
    must(len(play(policy, world, SeededNoise(3), Silent(window=7))) == ROUNDS, "missing rewards stop it")


def order_of_arrival(policy: Policy, world: Environment) -> None:
    """Settled clock: where arrivals are hidden, any order inside the windows gives the same run."""
    if policy.clock == "decided" or policy.local:
        return
    late = Lateness("uniform", (0.0, 15.0), 15, treat="default")
    first, second = (play(policy, world, SeededNoise(3), late, arrivals=seed) for seed in (1, 2))
    must([s.decision.arm for s in first] == [s.decision.arm for s in second], "the order of arrival changed the run")
    must(same_state(first[-1].state, second[-1].state), "the order of arrival changed the state")


def too_late_changes_nothing(policy: Policy, world: Environment) -> None:
    """Settled clock: a delivery for a round of a released block, or a second one, changes nothing."""
    if policy.clock == "decided":
        return
    noise, seen = SeededNoise(3), []
    for turn in turns(policy, world, 40, noise):
        seen.append(turn.answer)
        turn.state = policy.learn(turn.state, turn.answer)
        for old in (seen[0], turn.answer):
            must(same_state(policy.learn(turn.state, old), turn.state), "a delivery counted twice", "one watermark")
        turn.state = settle(policy, turn.state, turn.index + 1, noise)


def learn_all_is_a_fold(policy: Policy, world: Environment) -> None:
    """Many feedbacks at once are learned as one after the other."""
    noise, before = SeededNoise(3), policy.start()
    answers: list[Feedback | Report] = []
    for turn in turns(policy, world, 30, noise):
        if not answers:
            before = turn.state
        answer = turn.answer
        if isinstance(answer, Feedback):  # rewards of every size: a bound that is read off them would differ
            answer = replace(answer, reward=(1 + turn.index * 7 % 10) / 10)
        answers.append(answer)
        turn.state = policy.learn(turn.state, answer)
        if policy.due(turn.state, turn.index + 1) is not None or len(answers) == 8:
            one_by_one = before
            for answer in answers:
                one_by_one = policy.learn(one_by_one, answer)
            must(same_state(policy.learn_all(before, iter(answers)), one_by_one), "learn_all differs from learn")
            answers = []
        turn.state = settle(policy, turn.state, turn.index + 1, noise)
