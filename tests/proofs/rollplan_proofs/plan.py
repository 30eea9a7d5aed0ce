"""Computes plans with the proved arithmetic: `pass/proportional.rs` and `settle/`.

The model covers only the sizes that a plan writes, in their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast

from .rolling import ReplicaSet, Rollout, scale_new, scale_old_sizes
from .rules import PLANNER, Rules
from .size import Caps, Limits, clamp, cut_share, fraction, proportional, rolling_limits, rounded_down, rounded_up

WORD = 2**31 - 1
PASSES_MAX = 64
PASSES_TIMES_SETS_MAX = 1024
"""As in `settle/budget.rs`."""
EXACT = replace(PLANNER, counts_at_most_the_size=False)
"""The rules of `HORIZON_PASS`, which are those of Kubernetes."""


@dataclass(frozen=True)
class Limit:
    """A limit as specified by a user."""

    number: int
    percent: bool = False


@dataclass(frozen=True)
class Seen:
    """A ReplicaSet in a snapshot, with its two annotations."""

    size: int
    reported: int
    desired: int | None
    max_total: int | None


@dataclass(frozen=True)
class World:
    """A Deployment in a rolling update. ReplicaSets are ordered from oldest to youngest; `new` is the current one."""

    replicas: int
    surge: Limit
    unavailable: Limit
    sets: tuple[Seen, ...]
    new: int | None
    caps: Caps | None = None


@dataclass(frozen=True)
class Write:
    """A write of a size. `before` is None for a new ReplicaSet, which gets the next free index."""

    index: int
    before: int | None
    after: int


def limits_of(world: World, rules: Rules) -> Limits:
    """Return the limits as numbers of pods."""

    def pods(limit: Limit, *, up: bool) -> int:
        if not limit.percent:
            return limit.number
        rounded = rounded_up if up else rounded_down
        return cast(int, rounded(limit.number * world.replicas, WORD))

    surge, unavailable = pods(world.surge, up=True), pods(world.unavailable, up=False)
    # Without desired pods, caps do not apply.
    caps = world.caps if world.replicas else None
    return replace(rolling_limits(world.replicas, surge, unavailable, WORD, rules), caps=caps)


class Planner:
    """The state of a world while passes run."""

    def __init__(self, world: World, rules: Rules) -> None:
        self.limits = limits_of(world, rules)
        self.rules = rules
        self.wanted = world.replicas
        self.sets = [ReplicaSet(seen.size, seen.reported, seen.size) for seen in world.sets]
        self.desired = [seen.desired for seen in world.sets]
        self.max_total = [seen.max_total for seen in world.sets]
        self.new = world.new
        # The total in the Deployment's status, which replaces a missing annotation.
        self.all_before = cast(int, clamp(sum(seen.size for seen in world.sets), WORD))

    def old(self) -> list[int]:
        """Return the old ReplicaSets, oldest first."""
        return [index for index in range(len(self.sets)) if index != self.new]

    def size(self, index: int) -> int:
        """Return the size of a ReplicaSet, which is always a number here, not a term."""
        return cast(int, self.sets[index].size)

    def run_pass(self) -> tuple[list[Write], bool]:
        """Run one pass. Return the sizes that it writes, and whether it writes to any ReplicaSet."""
        active = [index for index in range(len(self.sets)) if self.size(index) > 0]
        if any(self.desired[index] not in (None, self.wanted) for index in active):
            return self.scale_all(active)
        writes = self.roll()
        return writes, bool(writes)

    def write(self, index: int, size: int) -> list[Write]:
        """Write a size together with the annotations."""
        before = self.size(index)
        self.sets[index] = self.sets[index].resized(size)
        self.desired[index] = self.wanted
        self.max_total[index] = cast(int, self.limits.max_total())
        return [Write(index, before, size)] if size != before else []

    def scale_all(self, active: list[int]) -> tuple[list[Write], bool]:
        """Model of `scale_all`."""
        new = self.new
        if len(active) == 1:
            [alone] = active
            size = self.wanted
            # A rollout that was complete is scaled as usual.
            if alone == new and self.desired[alone] != self.size(alone):
                size = cast(int, self.limits.capped(self.size(alone), self.wanted))
            forced = self.rules.counts_at_most_the_size or size != self.wanted
            if self.size(alone) == size and not forced:
                return [], False
            return self.write(alone, size), True
        newest_first = [index for index in reversed(self.old()) if index in active]
        if new is not None and self.is_saturated(new):
            return self.remove_old_pods(newest_first, self.size(new))
        order = newest_first + ([new] if new in active and new is not None else [])
        total, allowed = sum(map(self.size, order)), cast(int, self.limits.scaled_total())
        if total < allowed:
            order.sort(key=lambda index: (-self.size(index), -index))
        elif total > allowed:
            order.sort(key=lambda index: (-self.size(index), index))
        sizes = [self.size(index) for index in order]
        befores = [self.max_total[index] or self.all_before for index in order]
        if self.rules.counts_at_most_the_size and total > allowed:
            # A settled plan scales up no ReplicaSet while the total decreases, whatever the annotations contain.
            befores = [max(before, allowed) for before in befores]
        wishes = [fraction(self.limits, size, before) for size, before in zip(sizes, befores, strict=True)]
        scaled = cast(list[int], proportional(self.limits, sizes, wishes))
        if new in order:
            first_old = next(place for place, index in enumerate(order) if index != new)
            scaled = cast(list[int], cut_share(self.limits, sizes, scaled, order.index(new), first_old))
        return [write for index, size in zip(order, scaled, strict=True) for write in self.write(index, size)], True

    def remove_old_pods(self, newest_first: list[int], new_size: int) -> tuple[list[Write], bool]:
        """Model of `remove_old_pods`."""
        old = sum(map(self.size, newest_first))
        left = cast(int, self.limits.removable(old, new_size, old))
        writes, any_write = [], False
        for index in newest_first:
            removed = min(self.size(index), max(left, 0))
            left -= removed
            size = self.size(index) - removed
            any_write = any_write or removed > 0 or self.desired[index] != self.wanted
            if removed > 0 or size > 0:
                writes += self.write(index, size)
        return writes, any_write

    def is_saturated(self, new: int) -> bool:
        """Model of `is_saturated`."""
        one = self.sets[new]
        return one.size == self.wanted == self.desired[new] and one.counted(self.rules) == self.wanted

    def roll(self) -> list[Write]:
        """Model of `RollingUpdate::rollout`."""
        writes = []
        old = self.old()
        if self.new is None:
            size = cast(int, self.limits.capped(0, self.limits.new_set_size(0, sum(map(self.size, old)))))
            self.new = len(self.sets)
            self.sets.append(ReplicaSet(size, 0, size))
            self.desired.append(self.wanted)
            self.max_total.append(cast(int, self.limits.max_total()))
            writes.append(Write(self.new, None, size))
        rollout = Rollout(tuple(self.sets[index] for index in old), self.sets[self.new])
        grown = self.write_if(self.new, cast(int, scale_new(self.limits, rollout).new.size))
        if grown:
            return writes + grown
        scaled = scale_old_sizes(self.limits, rollout)
        for sizes in [scaled.unhealthy, scaled.healthy]:
            for index, size in zip(old, sizes, strict=True):
                writes += self.write_if(index, cast(int, size))
        return writes

    def write_if(self, index: int, size: int) -> list[Write]:
        """Write a size if it differs."""
        return self.write(index, size) if size != self.size(index) else []


def plan_pass(world: World) -> list[Write]:
    """Model of `plan_pass`: return the sizes that one pass writes."""
    return Planner(world, EXACT).run_pass()[0]


def plan_settled(world: World) -> list[Write]:
    """Model of `plan_settled`: return the sizes that a settled plan writes, merged and in order."""
    planner = Planner(world, PLANNER)
    before = [seen.size for seen in world.sets]
    after: list[int] = list(before)
    created: int | None = None
    passes, passes_max = 0, PASSES_MAX
    while passes < passes_max:
        passes += 1
        writes, any_write = planner.run_pass()
        turned = turned_by(writes, before, after)
        if turned:
            passes_max = max(PASSES_MAX, PASSES_TIMES_SETS_MAX // len(world.sets))
        for write in writes:
            if write.index < len(before):
                after[write.index] = write.after
            else:
                created = write.after
        # From now on, these have the sizes that their single write leaves.
        for index in turned:
            lowest = min(before[index], after[index])
            planner.sets[index] = ReplicaSet(after[index], world.sets[index].reported, lowest)
        if not any_write:
            break
    indices = range(len(before))
    changes = [Write(index, before[index], after[index]) for index in indices if before[index] != after[index]]
    downs = [write for write in changes if write.after < before[write.index]]
    ups = [write for write in changes if write.after > before[write.index]]
    new = [] if created is None else [Write(len(before), None, created)]
    return [*downs, *new, *ups]


def turned_by(writes: Iterable[Write], before: list[int], after: list[int]) -> set[int]:
    """Return the ReplicaSets whose sizes a pass reverses, as `Merged::turned_by` does."""
    return {
        write.index
        for write in writes
        if write.before is not None
        and write.index < len(before)
        and sign(after[write.index] - before[write.index]) == -sign(write.after - write.before) != 0
    }


def sign(number: int) -> int:
    """Return -1, 0 or 1."""
    return (number > 0) - (number < 0)
