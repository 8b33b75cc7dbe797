"""Tuples with named fields, as `typing.NamedTuple` makes them."""

from __future__ import annotations

import pickle

import pytest

from xla_codemods.records import NamedTuple


class Place(NamedTuple):
    """A line of a file."""

    path: str
    line: int = 1
    names: tuple[str, ...] = ()

    def shown(self) -> str:
        """The place as messages show it."""
        return f"{self.path}:{self.line}"


def test_fields_are_given_by_position_by_name_and_by_default() -> None:
    place = Place("a.py", names=("x",))
    assert place == ("a.py", 1, ("x",)) == Place("a.py", 1, ("x",))
    assert place.path == "a.py"
    assert place.names == ("x",)
    assert place.shown() == "a.py:1"
    assert repr(place) == "Place(path='a.py', line=1, names=('x',))"


def test_a_field_is_replaced() -> None:
    assert Place("a.py", 2)._replace(line=3) == Place("a.py", 3)


def test_patterns_match_by_position_and_by_name() -> None:
    match Place("a.py", 2):
        case Place(path, line=2):
            assert path == "a.py"
        case _:
            pytest.fail("the pattern did not match")


def test_a_place_is_pickled_and_hashed() -> None:
    place = Place("a.py", 2)
    again = pickle.loads(pickle.dumps(place))
    assert again == place
    assert type(again) is Place
    assert len({place, again}) == 1


def test_fields_cannot_be_assigned() -> None:
    with pytest.raises(AttributeError):
        Place("a.py").line = 2  # type: ignore[misc]


def test_a_missing_field_is_an_error() -> None:
    with pytest.raises(KeyError, match="path"):
        Place(line=2)  # type: ignore[call-arg]


@pytest.mark.parametrize("count", [0, 4])
def test_a_wrong_number_of_values_is_an_error(count: int) -> None:
    with pytest.raises(KeyError):
        Place(*["a"] * count)  # type: ignore[arg-type]
