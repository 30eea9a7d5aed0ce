"""`src/core/pass/rolling.rs`: how one pass of a rolling update changes sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .algebra import Bool, Int, add, choose, every, no, smaller, some
from .rules import Rules
from .size import Limits


@dataclass(frozen=True)
class ReplicaSet:
    """A ReplicaSet: its size, the pods that it last reported available, and the smallest size within the plan."""

    size: Int
    reported: Int
    lowest: Int

    def available(self) -> Int:
        """Pods that are certain to be available: a smaller size takes pods away, a larger one brings none yet."""
        return smaller(self.reported, smaller(self.size, self.lowest))

    def counted(self, rules: Rules) -> Int:
        """Pods that decisions count as available: `Pass::available`."""
        return self.available() if rules.counts_at_most_the_size else self.reported

    def resized(self, size: Int) -> ReplicaSet:
        """The same after a write of its size: `apply`."""
        return ReplicaSet(size, self.reported, smaller(self.lowest, smaller(self.size, size)))


@dataclass(frozen=True)
class Rollout:
    """Old ReplicaSets, oldest first, and the new one."""

    old: tuple[ReplicaSet, ...]
    new: ReplicaSet

    def all(self) -> tuple[ReplicaSet, ...]:
        """Old ReplicaSets, then the new one."""
        return (*self.old, self.new)

    def total(self) -> Int:
        """What the sizes add up to."""
        return add(each.size for each in self.all())

    def available(self) -> Int:
        """Pods that are certain to be available."""
        return add(each.available() for each in self.all())

    def unhealthy(self) -> Int:
        """How many more pods there are by size than are certain to be available."""
        return self.total() - self.available()


def scale_new(limits: Limits, rollout: Rollout) -> Rollout:
    """`scale_new`."""
    size, wanted = rollout.new.size, limits.replicas
    grown = limits.new_set_size(size, rollout.total())
    return Rollout(rollout.old, rollout.new.resized(choose(size > wanted, wanted, grown)))


@dataclass(frozen=True)
class ScaledOld:
    """What `scale_old` comes to: the sizes after taking away unavailable pods, and after taking away others too."""

    unhealthy: tuple[Int, ...]
    healthy: tuple[Int, ...]


def scale_old_sizes(limits: Limits, rollout: Rollout) -> ScaledOld:
    """`scale_old`: `clean_up_unhealthy`, then `scale_down_healthy`."""
    rules, new = limits.rules, rollout.new
    room = limits.max_scaled_down(rollout.total(), new.size - new.counted(rules))
    given_up: Bool = no(room > 0)

    removed: Int = 0
    unhealthy: list[Int] = []
    for each in rollout.old:
        looked_at = every(no(given_up), each.size > 0, removed < room)
        count = each.size - each.counted(rules)
        # The status is older than the size: the pass gives up on scaling down.
        given_up = some(given_up, every(looked_at, count < 0))
        if rules.unhealthy_within_room:
            count = smaller(count, room - removed)
        count = choose(every(looked_at, count > 0), count, 0) if rules.unhealthy_go_first else 0
        removed = removed + count
        unhealthy.append(each.size - count)

    active = [choose(each.size > 0, each.counted(rules), 0) for each in rollout.old]
    spare = add(active) + new.counted(rules) - limits.min_available()
    removed = 0
    healthy: list[Int] = []
    for size in unhealthy:
        left = spare - removed if rules.spare_is_shared else spare
        count = smaller(size, left) if rules.healthy_within_size else left
        count = choose(every(no(given_up), left > 0, size > 0), count, 0)
        removed = removed + count
        healthy.append(size - count)
    return ScaledOld(tuple(unhealthy), tuple(healthy))


def scale_old(limits: Limits, rollout: Rollout) -> Rollout:
    """`scale_old`, and what `apply` makes of it."""
    sizes = scale_old_sizes(limits, rollout)
    old = zip(rollout.old, sizes.unhealthy, sizes.healthy, strict=True)
    return Rollout(tuple(each.resized(first).resized(second) for each, first, second in old), rollout.new)


def differs(a: Sequence[ReplicaSet], b: Sequence[ReplicaSet]) -> Bool:
    """Whether a size differs."""
    return some(*(x.size != y.size for x, y in zip(a, b, strict=True)))


def rolling_pass(limits: Limits, rollout: Rollout) -> Rollout:
    """`RollingUpdate::rollout`: the new ReplicaSet is scaled, or else the old ones are."""
    with_new, with_old = scale_new(limits, rollout), scale_old(limits, rollout)
    first = differs(with_new.all(), rollout.all())
    sets = (
        ReplicaSet(choose(first, a.size, b.size), a.reported, choose(first, a.lowest, b.lowest))
        for a, b in zip(with_new.all(), with_old.all(), strict=True)
    )
    *old, new = sets
    return Rollout(tuple(old), new)
