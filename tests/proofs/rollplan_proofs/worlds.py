"""Worlds for the comparison: all small ones, and random ones of any size."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace

from .plan import WORD, Limit, Seen, World
from .size import Caps

REPLICAS_MAX = 3
LIMIT_MAX = 2
SIZE_MAX = 2
SETS = 3
CAPS = [(0, 0), (1, 1), (2, 0), (1, 3), (0, 2), (WORD, 1), (1, WORD)]
"""Caps of small worlds, which take turns."""


def small() -> Iterator[World]:
    """All worlds of three ReplicaSets with up to 2 pods each, 0 to 3 desired pods now and before, limits up to 2.

    Each is generated without caps and with some.
    """
    turns = itertools.cycle(CAPS)
    pods = [(size, available) for size in range(SIZE_MAX + 1) for available in range(size + 1)]
    counts, limits = range(REPLICAS_MAX + 1), range(LIMIT_MAX + 1)
    for wanted, before, surge, unavailable in itertools.product(counts, counts, limits, limits):
        for new in [None, *range(SETS)]:
            for sizes in itertools.product(pods, repeat=SETS):
                sets = tuple(Seen(size, available, before, before + surge) for size, available in sizes)
                world = World(wanted, Limit(surge), Limit(unavailable), sets, new)
                yield world
                yield replace(world, caps=Caps(*next(turns)))


def anything(chance: random.Random) -> World:
    """Any world: small or large numbers, reports that contradict sizes, annotations with any content."""
    scale = chance.choice([4, 20, 1000, 10**6, WORD])
    wanted = count(chance, scale)
    surge, unavailable = limit(chance, scale), limit(chance, scale)
    total = chance.randint(0, 9)
    before = wanted if chance.random() < 0.6 else count(chance, scale)
    allowed = min(before + (before if surge.percent else surge.number), WORD)
    consistent = chance.random() < 0.7
    sets = []
    for _ in range(total):
        size = 0 if chance.random() < 0.2 else count(chance, max(scale // 3, 1))
        reported = size if chance.random() < 0.4 else chance.randint(0, size)
        desired: int | None = before
        max_total: int | None = allowed
        if not consistent:
            reported = chance.choice([reported, count(chance, scale)])
            desired = chance.choice([desired, desired, count(chance, scale), None])
            max_total = chance.choice([max_total, max_total, count(chance, scale), 0, 1, None])
        sets.append(Seen(size, reported, desired, max_total))
    new = chance.randrange(total) if total and chance.random() < 0.85 else None
    caps = Caps(count(chance, scale), count(chance, scale)) if chance.random() < 0.5 else None
    return World(wanted, surge, unavailable, tuple(sets), new, caps)


def count(chance: random.Random, scale: int) -> int:
    """A number that is not negative, often zero or `scale`."""
    return chance.choice([chance.randint(0, scale), chance.randint(0, scale), chance.randint(0, 3), 0, scale])


def limit(chance: random.Random, scale: int) -> Limit:
    """A limit in pods or in percent."""
    if chance.random() < 0.5:
        return Limit(count(chance, max(scale // 4, 1)))
    return Limit(chance.choice([0, 1, 25, 50, 100, chance.randint(0, 300), chance.randint(0, 2 * 10**9), WORD]), True)
