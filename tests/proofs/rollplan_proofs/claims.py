"""What is claimed: assumptions, a conclusion, and the rules without which it must not hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import z3

from .algebra import Bool, Int
from .rolling import ReplicaSet, Rollout
from .rules import PLANNER, Rules
from .size import Limits


@dataclass(frozen=True)
class Claim:
    """A claim about some number of ReplicaSets."""

    assumed: Sequence[Bool]
    concluded: Bool
    happens: Bool = True
    """Something that the claim is about: there must be a world where it happens."""
    shown: Sequence[tuple[str, Int]] = ()
    """Numbers that make a counterexample readable."""


@dataclass(frozen=True)
class Control:
    """A change after which the claim must fail."""

    what: str
    rules: Rules = PLANNER
    claim: Callable[[int, Rules], Claim] | None = None
    """Another claim to fail instead: one that assumes less, or concludes more."""
    sets: int = 2
    """For this many ReplicaSets."""


@dataclass(frozen=True)
class Theorem:
    """A claim for every number of ReplicaSets of `sizes`, and its controls."""

    says: str
    claim: Callable[[int, Rules], Claim]
    controls: Sequence[Control]
    sizes: Sequence[int] = field(default_factory=lambda: range(9))


def number(name: str) -> z3.ArithRef:
    """Any whole number."""
    return z3.Int(name)


def any_limits(rules: Rules) -> tuple[Limits, list[Bool]]:
    """Any limits that `Limits::rolling` gives, by theorem "limits"; the word holds what comes in."""
    limits = Limits(number("replicas"), number("maxSurge"), number("maxUnavailable"), number("word"), rules)
    replicas, surge, unavailable, word = limits.replicas, limits.max_surge, limits.max_unavailable, limits.word
    return limits, [
        replicas >= 0, replicas <= word, surge >= 0, surge <= word, unavailable >= 0, unavailable <= replicas,
    ]  # fmt: skip


def any_set(name: str, limits: Limits) -> tuple[ReplicaSet, list[Bool]]:
    """Any ReplicaSet in the middle of a plan; it may report anything."""
    one = ReplicaSet(number(f"{name}.size"), number(f"{name}.reported"), number(f"{name}.lowest"))
    return one, [one.lowest >= 0, one.lowest <= one.size, one.size <= limits.word, one.reported >= 0]


def any_rollout(old: int, limits: Limits) -> tuple[Rollout, list[Bool]]:
    """Any rolling update in the middle of a plan."""
    sets, assumed = [], []
    for name in [*(f"old{index}" for index in range(old)), "new"]:
        one, about_it = any_set(name, limits)
        sets.append(one)
        assumed += about_it
    return Rollout(tuple(sets[:-1]), sets[-1]), assumed


def shown_limits(limits: Limits) -> list[tuple[str, Int]]:
    """The limits, for a counterexample."""
    return [
        ("replicas", limits.replicas),
        ("maxSurge", limits.max_surge),
        ("maxUnavailable", limits.max_unavailable),
    ]


def shown_rollout(when: str, rollout: Rollout) -> list[tuple[str, Int]]:
    """Sizes, what is reported available and what is certain to be, for a counterexample."""
    names = [*(f"old{index}" for index in range(len(rollout.old))), "new"]
    shown: list[tuple[str, Int]] = []
    for name, one in zip(names, rollout.all(), strict=True):
        shown.append((f"{when} {name}.size", one.size))
        if when == "before":
            shown.append((f"{when} {name}.reported", one.reported))
        shown.append((f"{when} {name}.available", one.available()))
    return shown
