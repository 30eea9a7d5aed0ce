"""Model of `src/core/size.rs`: the arithmetic of sizes.

`word` is the largest representable number: 2^31 - 1 in the Rust code, any number in the proofs. There is no lower
limit, because no result is less than the smallest representable number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .algebra import Bool, Int, add, choose, every, larger, smaller, some, whole_quotient
from .rules import PLANNER, Rules


def clamp(number: Int, word: Int, rules: Rules = PLANNER) -> Int:
    """Model of `clamp`: limit the number to the word."""
    return smaller(number, word) if rules.held_within_word else number


def rounded_up(hundredths: Int, word: Int) -> Int:
    """Model of `IntOrPercent::rounded_up`, given percent times total."""
    return clamp(whole_quotient(hundredths + 99, 100), word)


def rounded_down(hundredths: Int, word: Int) -> Int:
    """Model of `IntOrPercent::rounded_down`, given percent times total."""
    return clamp(whole_quotient(hundredths, 100), word)


@dataclass(frozen=True)
class Caps:
    """Model of `Caps`."""

    new_max: Int
    old_min: Int


@dataclass(frozen=True)
class Limits:
    """Model of `Limits`: the limits of the strategy for the number of desired pods."""

    replicas: Int
    max_surge: Int
    max_unavailable: Int
    word: Int
    rules: Rules = PLANNER
    caps: Caps | None = None
    """None is the code without caps."""

    def max_total(self) -> Int:
        """Return the maximum sum of the sizes."""
        return clamp(self.replicas + self.max_surge, self.word, self.rules)

    def scaled_total(self) -> Int:
        """Return the sum of the sizes after proportional scaling."""
        return choose(self.replicas == 0, 0, self.max_total())

    def min_available(self) -> Int:
        """Return the minimum number of available pods after scaling down."""
        return self.replicas - self.max_unavailable

    def new_set_size(self, size: Int, total: Int) -> Int:
        """Return the size of the new ReplicaSet in a rolling update; `total` is the sum of all sizes."""
        room = self.max_total() - total
        missing = self.replicas - size
        growth: Int = smaller(room, missing)
        if not self.rules.new_set_within_wanted:
            growth = room
        if not self.rules.new_set_within_room:
            growth = missing
        return choose(room <= 0, size, clamp(size + growth, self.word, self.rules))

    def capped(self, size: Int, following: Int) -> Int:
        """Model of `Caps::new_size`: the next size of the new ReplicaSet, which is `following` without caps."""
        if self.caps is None:
            return following
        cap = self.caps.new_max
        bound = smaller(following, cap) if self.rules.caps_only_stop else cap
        if self.rules.caps_keep_sizes:
            bound = larger(bound, size)
        return choose(following <= size, following, bound)

    def removable(self, pods: Int, new: Int, old: Int) -> Int:
        """Model of `Caps::removable`: how many of `pods` may be removed from old ReplicaSets of size `old`."""
        if self.caps is None:
            return pods
        kept = self.caps.old_min
        if self.rules.caps_within_surge:
            kept = larger(smaller(kept, self.max_total() - new), 0)
        return smaller(pods, old - kept) if self.rules.caps_only_stop else old - kept

    def max_scaled_down(self, total: Int, new_set_unavailable: Int) -> Int:
        """Return how many pods of old ReplicaSets may be removed, available or not."""
        return total - self.min_available() - new_set_unavailable


def rolling_limits(replicas: Int, surge: Int, unavailable: Int, word: Int, rules: Rules = PLANNER) -> Limits:
    """Model of `Limits::rolling` for limits in pods."""
    both_zero: Bool = every(surge == 0, unavailable == 0)
    if rules.both_zero_means_one:
        unavailable = choose(both_zero, 1, unavailable)
    if rules.unavailable_within_wanted:
        unavailable = smaller(unavailable, replicas)
    return Limits(replicas, surge, unavailable, word, rules)


def fraction(limits: Limits, size: Int, before: Int) -> Int:
    """Model of `fraction`: the change that preserves a ReplicaSet's share; `before` is the earlier maximum total."""
    half = before if limits.rules.rounds_to_nearest else 2 * before - 1
    # If the share is unknown, the result of the division is not used, so any divisor will do.
    divisor = choose(before == 0, 1, 2 * before)
    share = clamp(whole_quotient(2 * size * limits.max_total() + half, divisor), limits.word)
    return choose(limits.replicas == 0, -size, choose(before == 0, 0, share - size))


def cut_share(limits: Limits, before: Sequence[Int], scaled: Sequence[Int], new: int, first_old: int) -> list[Int]:
    """Model of `Caps::cut_share`: what the new ReplicaSet may not have goes to the first old one."""
    cut = list(scaled)
    cut[new] = limits.capped(before[new], scaled[new])
    excess = scaled[new] - cut[new]
    cut[first_old] = clamp(scaled[first_old] + excess, limits.word, limits.rules)
    return cut


def proportional(limits: Limits, sizes: Sequence[Int], fractions: Sequence[Int]) -> list[Int]:
    """Model of `proportional`: the new sizes of the active ReplicaSets, given their fractions."""
    rules = limits.rules
    to_add = limits.scaled_total() - add(sizes)
    added: Int = 0
    scaled: list[Int] = []
    for size, wish in zip(sizes, fractions, strict=True):
        left = to_add - added
        portion = choose(to_add > 0, smaller(wish, left), larger(wish, left)) if rules.shares_within_rest else wish
        portion = choose(some(size == 0, to_add == 0, left == 0), 0, portion)
        added = added + portion
        scaled.append(clamp(size + portion, limits.word, rules))
    if scaled and rules.first_takes_the_rest:
        first = scaled[0] + to_add - added
        if rules.first_at_least_zero:
            first = larger(first, 0)
        scaled[0] = clamp(first, limits.word, rules)
    return scaled
