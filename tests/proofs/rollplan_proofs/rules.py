"""The rules that make the bounds hold, each with a switch: a proof that stays true without its rule proves nothing."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """By which rules sizes are decided. The defaults are the planner's."""

    counts_at_most_the_size: bool = True
    """No more pods of a ReplicaSet count as available than it wants, or has wanted within the plan: the clamp."""
    downs_first: bool = True
    """A settled plan scales down before it scales up."""
    unavailable_rounds_down: bool = True
    """A percentage of unavailable pods is rounded down."""
    both_zero_means_one: bool = True
    """No surge and no unavailability mean that one pod may be unavailable."""
    unavailable_within_wanted: bool = True
    """No more pods may be unavailable than are wanted."""
    new_set_within_wanted: bool = True
    """The new ReplicaSet grows to the wanted pods at most."""
    new_set_within_room: bool = True
    """The new ReplicaSet grows by the room at most that the surge leaves."""
    unhealthy_go_first: bool = True
    """Unavailable pods are taken away before others."""
    unhealthy_within_room: bool = True
    """No more unavailable pods are taken away than the minimum and the new ReplicaSet's unavailable pods allow."""
    healthy_within_size: bool = True
    """A ReplicaSet loses no more pods than it has."""
    spare_is_shared: bool = True
    """What one old ReplicaSet has lost, the next ones may not lose again."""
    first_takes_the_rest: bool = True
    """In proportional scaling the first ReplicaSet takes what rounding leaves."""
    first_at_least_zero: bool = True
    """It does not fall below zero by that."""
    shares_within_rest: bool = True
    """No ReplicaSet takes more than is left."""
    rounds_to_nearest: bool = True
    """Shares are rounded to the nearest whole pod."""
    held_within_word: bool = True
    """Results are held within 32 bits."""


PLANNER = Rules()
