"""Limits on the work that schemas cause in one answer. Schemas and answers come from others, and together they can be
expensive: a schema with many alternatives, and many calls that match none of them."""

from ..types import JSONValue
from .json_values import weight

#: Number of schemas that coercion may try in one answer, at about 30 microseconds each.
MAX_ANSWER_TRIES = 4_096
#: Number of checks that the validation of expensive schemas may take in one answer, at about thirty per microsecond.
#: Each call is validated several times.
MAX_ANSWER_CHECKS = 2_000_000
#: Number of checks per value up to which a schema is not expensive. The schema of an ordinary tool needs about ten.
CHEAP_CHECKS = 64
#: Number of calls in one answer whose problems are explained. Nobody reads more explanations.
MAX_EXPLAINED_CALLS = 8

#: The problem of arguments that were not validated.
TOO_EXPENSIVE = "`arguments` take too long to validate"
#: The problem of arguments that is not explained any further.
UNEXPLAINED = "`arguments` do not fit their schema"


class WorkLimit:
    """The work that is left for the schemas of one answer, shared by all its calls."""

    __slots__ = ("_checks", "_invalid_calls", "_tries")

    def __init__(self) -> None:
        self._tries = MAX_ANSWER_TRIES
        self._checks = MAX_ANSWER_CHECKS
        self._invalid_calls = 0

    def allows(self, effort: int, value: JSONValue) -> bool:
        """Whether a value may be validated. `effort`: the number of checks that one value may need."""
        return effort <= CHEAP_CHECKS or effort * weight(value) <= self._checks

    def charge(self, effort: int, value: JSONValue) -> int:
        """Count the validation of the arguments of a call, or of a part of them. Returns the number of checks."""
        checks = effort * weight(value) if effort > CHEAP_CHECKS else 0
        self._checks -= checks
        return checks

    def refund(self, checks: int) -> None:
        """Stop counting the validation of the parts of a call."""
        self._checks += checks

    @property
    def coerces(self) -> bool:
        """Whether arguments may still be coerced."""
        return self._tries >= 0

    def spend(self, tries: int) -> bool:
        """Count tries of coercion. Returns whether they are still allowed."""
        self._tries -= tries
        return self.coerces

    def count_problem(self) -> None:
        """Count a call with invalid arguments."""
        self._invalid_calls += 1

    @property
    def explains(self) -> bool:
        """Whether the problems of a call are still explained."""
        return self._invalid_calls < MAX_EXPLAINED_CALLS
