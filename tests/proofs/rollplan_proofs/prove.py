"""Proves all theorems and refutes all controls: `python -m rollplan_proofs.prove`. Anything else is a failure.

So is a table of theorems in the documentation that differs. `WRITE=1` writes it.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import z3

from .algebra import no
from .claims import Claim, Control, Theorem
from .rules import PLANNER
from .theorems_rolling import ROLLING
from .theorems_scaling import SCALING

THEOREMS = [*ROLLING, *SCALING]
PAGE = Path(__file__).parents[3] / "docs/contributors/parity.md"
PART = re.compile(
    r"(?<=<!-- theorems: written by WRITE=1 bash tests/run proofs -->\n).*(?=<!-- theorems ends -->)", re.DOTALL
)
TIMEOUT_MS = 1_200_000
"""The limit for one question. The slowest question takes a small part of it."""
SMALL = 8
"""Counterexamples are first searched among numbers up to this one, because they are easier to read."""


def ask(conditions: list[object], timeout_ms: int = TIMEOUT_MS) -> tuple[z3.CheckSatResult, z3.Solver]:
    """Whether there are numbers that satisfy all conditions."""
    solver = z3.Solver()
    solver.set("timeout", timeout_ms)
    for condition in conditions:
        solver.add(condition)
    return solver.check(), solver


def prove(theorem: Theorem, sets: int) -> str | None:
    """Return why the theorem is not proved for this number of ReplicaSets, or None if it is."""
    claim = theorem.claim(sets, PLANNER)
    if sets == max(theorem.sizes):
        # With few ReplicaSets, some cases are impossible.
        result, _ = ask([*claim.assumed, claim.happens])
        if result != z3.sat:
            return f"{sets} sets: the claim is vacuous ({result})"
    result, solver = ask([*claim.assumed, no(claim.concluded)])
    if result == z3.sat:
        return f"{sets} sets: NOT TRUE\n{show(claim, solver.model())}"
    return None if result == z3.unsat else f"{sets} sets: undecided ({solver.reason_unknown()})"


def refute(theorem: Theorem, control: Control) -> tuple[bool, str]:
    """Whether the claim fails as required, and a counterexample."""
    claim = (control.claim or theorem.claim)(control.sets, control.rules)
    conditions = [*claim.assumed, no(claim.concluded)]
    small = [abs_at_most(variable) for variable in variables(conditions)]
    for more in [small, []]:
        result, solver = ask([*conditions, *more])
        if result == z3.sat:
            return True, show(claim, solver.model())
    return False, f"no counterexample ({result})"


def variables(conditions: list[object]) -> list[z3.ExprRef]:
    """Return the variables in the conditions."""
    seen: set[int] = set()
    found = []
    left = [condition for condition in conditions if isinstance(condition, z3.ExprRef)]
    while left:
        term = left.pop()
        if term.get_id() in seen:
            continue
        seen.add(term.get_id())
        if z3.is_const(term) and term.decl().kind() == z3.Z3_OP_UNINTERPRETED:
            found.append(term)
        left += term.children()
    return found


def abs_at_most(variable: z3.ExprRef) -> z3.BoolRef:
    """The condition that a variable is small."""
    return z3.And(variable >= -SMALL, variable <= SMALL)


def show(claim: Claim, model: z3.ModelRef) -> str:
    """Format a counterexample."""
    lines = []
    for name, term in claim.shown:
        value = term if isinstance(term, int) else model.eval(term, model_completion=True)
        lines.append(f"      {name} = {value}")
    return "\n".join(lines)


@dataclass(frozen=True)
class Question:
    """A theorem for one number of ReplicaSets, or one of its controls."""

    theorem: int
    sets: int | None = None
    control: int | None = None


def answer(question: Question) -> tuple[bool, str, float]:
    """Whether the result is the required one, the text to print, and the CPU time in seconds."""
    started = time.process_time()
    theorem = THEOREMS[question.theorem]
    if question.control is not None:
        control = theorem.controls[question.control]
        good, numbers = refute(theorem, control)
        text = f"  {'fails as required' if good else 'FAILED TO FAIL'}: {control.what}\n{numbers}"
    else:
        wrong = prove(theorem, question.sets or 0)
        good, text = wrong is None, "" if wrong is None else f"  {wrong}"
    return good, text, time.process_time() - started


def questions(index: int) -> list[Question]:
    """Return all questions for a theorem. The largest come first, because they take longest."""
    theorem = THEOREMS[index]
    proofs = [Question(index, sets=sets) for sets in reversed(theorem.sizes)]
    return proofs + [Question(index, control=control) for control in range(len(theorem.controls))]


def table() -> str:
    """Return the table of theorems in the documentation."""
    rows = ["| theorem | ReplicaSets | what must not be provable |", "| --- | --- | --- |"]
    for theorem in THEOREMS:
        sets = of_how_many(theorem).removeprefix(" for ").removesuffix(" sets") or str(theorem.sizes[0])
        controls = "; ".join(control.what for control in theorem.controls)
        rows.append(
            f"| {theorem.statement} | {sets} | {controls} |".replace(
                "|replicas - new pods|", "\\|replicas - new pods\\|"
            )
        )
    return "\n".join(rows) + "\n"


def is_documented() -> bool:
    """Whether the documentation has the table of theorems, or has it now."""
    text = PAGE.read_text()
    if os.environ.get("WRITE"):
        PAGE.write_text(PART.sub(lambda _: table(), text))
        return True
    part = PART.search(text)
    return part is not None and part[0] == table()


def main() -> int:
    """Prove the theorems and refute the controls."""
    if not is_documented():
        print(f"{PAGE}: the table of theorems is out of date; run: WRITE=1 bash tests/run proofs")
        return 1
    words = sys.argv[1:]
    chosen = [
        index for index, theorem in enumerate(THEOREMS) if not words or any(word in theorem.statement for word in words)
    ]
    failures = 0
    with multiprocessing.Pool(maxtasksperchild=1) as pool:
        asked = {index: pool.map_async(answer, questions(index), chunksize=1) for index in chosen}
        for index in chosen:
            answers = asked[index].get()
            theorem = THEOREMS[index]
            proofs = answers[: len(theorem.sizes)]
            proved = all(good for good, _, _ in proofs)
            failures += sum(not good for good, _, _ in answers)
            seconds = sum(took for _, _, took in proofs)
            print(f"{'PROVED' if proved else 'FAILED'}{of_how_many(theorem)} in {seconds:.1f} s: {theorem.statement}")
            print("\n".join(text for _, text, _ in answers if text), flush=True)
    print(f"{len(chosen)} theorems, {failures} failures; z3 {z3.get_version_string()}")
    return 1 if failures or not chosen else 0


def of_how_many(theorem: Theorem) -> str:
    """Describe the numbers of ReplicaSets for which a theorem is proved."""
    return "" if len(theorem.sizes) == 1 else f" for {min(theorem.sizes)} to {max(theorem.sizes)} sets"


if __name__ == "__main__":
    sys.exit(main())
