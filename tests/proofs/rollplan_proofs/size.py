"""`src/core/size.rs`: the arithmetic of sizes.

`word` is the largest number that fits: 2^31 - 1 in the Rust code, any number in the proofs. Nothing here falls below
the smallest one, so that end is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .algebra import Bool, Int, add, choose, every, larger, smaller, some, whole_quotient
from .rules import PLANNER, Rules


def clamp(number: Int, word: Int, rules: Rules = PLANNER) -> Int:
    """`clamp`: the number held within the word."""
    return smaller(number, word) if rules.held_within_word else number


def rounded_up(hundredths: Int, word: Int) -> Int:
    """`IntOrPercent::rounded_up`, of percent times total."""
    return clamp(whole_quotient(hundredths + 99, 100), word)


def rounded_down(hundredths: Int, word: Int) -> Int:
    """`IntOrPercent::rounded_down`, of percent times total."""
    return clamp(whole_quotient(hundredths, 100), word)


@dataclass(frozen=True)
class Limits:
    """`Limits`: what the strategy allows, resolved for the wanted number of pods."""

    replicas: Int
    max_surge: Int
    max_unavailable: Int
    word: Int
    rules: Rules = PLANNER

    def max_total(self) -> Int:
        """The most pods that the sizes may add up to."""
        return clamp(self.replicas + self.max_surge, self.word, self.rules)

    def scaled_total(self) -> Int:
        """What the sizes add up to after proportional scaling."""
        return choose(self.replicas == 0, 0, self.max_total())

    def min_available(self) -> Int:
        """The fewest available pods that scaling down may leave."""
        return self.replicas - self.max_unavailable

    def new_set_size(self, size: Int, total: Int) -> Int:
        """The size of the new ReplicaSet in a rolling update, beside the `total` of all sizes."""
        room = self.max_total() - total
        missing = self.replicas - size
        growth: Int = smaller(room, missing)
        if not self.rules.new_set_within_wanted:
            growth = room
        if not self.rules.new_set_within_room:
            growth = missing
        return choose(room <= 0, size, clamp(size + growth, self.word, self.rules))

    def max_scaled_down(self, total: Int, new_set_unavailable: Int) -> Int:
        """How many pods of old ReplicaSets may be taken away, available or not."""
        return total - self.min_available() - new_set_unavailable


def rolling_limits(replicas: Int, surge: Int, unavailable: Int, word: Int, rules: Rules = PLANNER) -> Limits:
    """`Limits::rolling`, of limits that are whole pods."""
    both_zero: Bool = every(surge == 0, unavailable == 0)
    if rules.both_zero_means_one:
        unavailable = choose(both_zero, 1, unavailable)
    if rules.unavailable_within_wanted:
        unavailable = smaller(unavailable, replicas)
    return Limits(replicas, surge, unavailable, word, rules)


def fraction(limits: Limits, size: Int, before: Int) -> Int:
    """`fraction`: by how much a ReplicaSet grows to keep its share; `before` is what the sizes could add up to."""
    half = before if limits.rules.rounds_to_nearest else 2 * before - 1
    # Divided by one where the share is not known: that number is not taken.
    divisor = choose(before == 0, 1, 2 * before)
    share = clamp(whole_quotient(2 * size * limits.max_total() + half, divisor), limits.word)
    return choose(limits.replicas == 0, -size, choose(before == 0, 0, share - size))


def proportional(limits: Limits, sizes: Sequence[Int], fractions: Sequence[Int]) -> list[Int]:
    """`proportional`: new sizes of the active ReplicaSets, each with its `fraction`."""
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
