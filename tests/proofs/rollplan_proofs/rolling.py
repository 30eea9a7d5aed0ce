"""Model of `src/core/strategy/rolling_update.rs`: how one pass of a rolling update changes sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .algebra import Bool, Int, add, choose, every, no, smaller, some
from .rules import Rules
from .size import Limits


@dataclass(frozen=True)
class ReplicaSet:
    """A ReplicaSet: its size, the available pods in its status, and its smallest size within the plan."""

    size: Int
    reported: Int
    lowest: Int

    def available(self) -> Int:
        """Return the pods that are certainly available: scaling down removes pods, scaling up adds none yet."""
        return smaller(self.reported, smaller(self.size, self.lowest))

    def counted(self, rules: Rules) -> Int:
        """Return the pods that decisions count as available: `Pass::available`."""
        return self.available() if rules.counts_at_most_the_size else self.reported

    def resized(self, size: Int) -> ReplicaSet:
        """Return the ReplicaSet after its size was written: `apply`."""
        return ReplicaSet(size, self.reported, smaller(self.lowest, smaller(self.size, size)))


@dataclass(frozen=True)
class Rollout:
    """The old ReplicaSets, oldest first, and the new one."""

    old: tuple[ReplicaSet, ...]
    new: ReplicaSet

    def all(self) -> tuple[ReplicaSet, ...]:
        """Return the old ReplicaSets followed by the new one."""
        return (*self.old, self.new)

    def total(self) -> Int:
        """Return the sum of the sizes."""
        return add(each.size for each in self.all())

    def available(self) -> Int:
        """Return the number of pods that are certainly available."""
        return add(each.available() for each in self.all())

    def unhealthy(self) -> Int:
        """Return the difference between the total size and the certainly available pods."""
        return self.total() - self.available()


def scale_new(limits: Limits, rollout: Rollout) -> Rollout:
    """Model of `scale_new`."""
    size, wanted = rollout.new.size, limits.replicas
    grown = limits.new_set_size(size, rollout.total())
    return Rollout(rollout.old, rollout.new.resized(limits.capped(size, choose(size > wanted, wanted, grown))))


@dataclass(frozen=True)
class ScaledOld:
    """The result of `scale_old`: the sizes without the removed unavailable pods, and also without the healthy ones."""

    unhealthy: tuple[Int, ...]
    healthy: tuple[Int, ...]


def scale_old_sizes(limits: Limits, rollout: Rollout) -> ScaledOld:
    """Model of `scale_old`: `clean_up_unhealthy`, followed by `scale_down_healthy`."""
    rules, new = limits.rules, rollout.new
    room = limits.max_scaled_down(rollout.total(), new.size - new.counted(rules))
    room = limits.removable(room, new.size, add(each.size for each in rollout.old))
    given_up: Bool = no(room > 0)

    removed: Int = 0
    unhealthy: list[Int] = []
    for each in rollout.old:
        considered = every(no(given_up), each.size > 0, removed < room)
        count = each.size - each.counted(rules)
        # The status is older than the size, so the pass does not scale down any further.
        given_up = some(given_up, every(considered, count < 0))
        if rules.unhealthy_within_room:
            count = smaller(count, room - removed)
        count = choose(every(considered, count > 0), count, 0) if rules.unhealthy_go_first else 0
        removed = removed + count
        unhealthy.append(each.size - count)

    active = [choose(each.size > 0, each.counted(rules), 0) for each in rollout.old]
    spare = add(active) + new.counted(rules) - limits.min_available()
    spare = limits.removable(spare, new.size, add(unhealthy))
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
    """Model of `scale_old` and `apply`."""
    sizes = scale_old_sizes(limits, rollout)
    old = zip(rollout.old, sizes.unhealthy, sizes.healthy, strict=True)
    return Rollout(tuple(each.resized(first).resized(second) for each, first, second in old), rollout.new)


def differs(a: Sequence[ReplicaSet], b: Sequence[ReplicaSet]) -> Bool:
    """Whether any size differs."""
    return some(*(x.size != y.size for x, y in zip(a, b, strict=True)))


def rolling_pass(limits: Limits, rollout: Rollout) -> Rollout:
    """Model of `RollingUpdate::rollout`: it scales the new ReplicaSet, or otherwise the old ones."""
    with_new, with_old = scale_new(limits, rollout), scale_old(limits, rollout)
    first = differs(with_new.all(), rollout.all())
    sets = (
        ReplicaSet(choose(first, a.size, b.size), a.reported, choose(first, a.lowest, b.lowest))
        for a, b in zip(with_new.all(), with_old.all(), strict=True)
    )
    *old, new = sets
    return Rollout(tuple(old), new)
