"""Claims with assumptions and a conclusion, and controls that must make them fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import z3

from .algebra import Bool, Int
from .rolling import ReplicaSet, Rollout
from .rules import PLANNER, Rules
from .size import Caps, Limits


@dataclass(frozen=True)
class Claim:
    """A claim about some number of ReplicaSets."""

    assumed: Sequence[Bool]
    concluded: Bool
    happens: Bool = True
    """A case that the claim is about. It must be possible, because the claim would otherwise be vacuous."""
    shown: Sequence[tuple[str, Int]] = ()
    """Numbers to print in a counterexample."""


@dataclass(frozen=True)
class Control:
    """A change that must make the claim fail."""

    what: str
    rules: Rules = PLANNER
    claim: Callable[[int, Rules], Claim] | None = None
    """A different claim that must fail: one with fewer assumptions or a stronger conclusion."""
    sets: int = 2
    """The number of ReplicaSets."""


@dataclass(frozen=True)
class Theorem:
    """A claim for each number of ReplicaSets in `sizes`, with its controls."""

    statement: str
    claim: Callable[[int, Rules], Claim]
    controls: Sequence[Control]
    sizes: Sequence[int] = field(default_factory=lambda: range(9))


def number(name: str) -> z3.ArithRef:
    """Return a variable for any integer."""
    return z3.Int(name)


def any_caps(word: Int) -> tuple[Caps, list[Bool]]:
    """Return any caps. A theorem about one pass with any caps is about any sequence of caps."""
    caps = Caps(number("new_max"), number("old_min"))
    return caps, [caps.new_max >= 0, caps.new_max <= word, caps.old_min >= 0, caps.old_min <= word]


def any_limits(rules: Rules) -> tuple[Limits, list[Bool]]:
    """Return any limits that `Limits::rolling` may return (theorems "limits"), and any caps. All fit into the word."""
    replicas, surge, unavailable = number("replicas"), number("maxSurge"), number("maxUnavailable")
    word = number("word")
    caps, about_caps = any_caps(word)
    return Limits(replicas, surge, unavailable, word, rules, caps), [
        replicas >= 0, replicas <= word, surge >= 0, surge <= word, unavailable >= 0, unavailable <= replicas,
        *about_caps,
    ]  # fmt: skip


def any_set(name: str, limits: Limits) -> tuple[ReplicaSet, list[Bool]]:
    """Return any ReplicaSet in the middle of a plan, with any reported status."""
    one = ReplicaSet(number(f"{name}.size"), number(f"{name}.reported"), number(f"{name}.lowest"))
    return one, [one.lowest >= 0, one.lowest <= one.size, one.size <= limits.word, one.reported >= 0]


def any_rollout(old: int, limits: Limits) -> tuple[Rollout, list[Bool]]:
    """Return any rolling update in the middle of a plan."""
    sets, assumed = [], []
    for name in [*(f"old{index}" for index in range(old)), "new"]:
        one, about_set = any_set(name, limits)
        sets.append(one)
        assumed += about_set
    return Rollout(tuple(sets[:-1]), sets[-1]), assumed


def shown_limits(limits: Limits) -> list[tuple[str, Int]]:
    """Return the limits for a counterexample."""
    return [
        ("replicas", limits.replicas),
        ("maxSurge", limits.max_surge),
        ("maxUnavailable", limits.max_unavailable),
        *([("new_max", limits.caps.new_max), ("old_min", limits.caps.old_min)] if limits.caps else []),
    ]


def shown_rollout(when: str, rollout: Rollout) -> list[tuple[str, Int]]:
    """Return sizes, reported available pods and certainly available pods for a counterexample."""
    names = [*(f"old{index}" for index in range(len(rollout.old))), "new"]
    shown: list[tuple[str, Int]] = []
    for name, one in zip(names, rollout.all(), strict=True):
        shown.append((f"{when} {name}.size", one.size))
        if when == "before":
            shown.append((f"{when} {name}.reported", one.reported))
        shown.append((f"{when} {name}.available", one.available()))
    return shown
