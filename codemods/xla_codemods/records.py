"""`NamedTuple`, as in `typing`: tuples with named fields.

`typing` compiles every annotation, and a function for every class. For the 60 classes of a check that takes 10 ms, more
than a twentieth of its time. Here, a class takes a tenth of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from collections import _tuplegetter

    class _WithFields(type):
        """Makes the annotated names in the body of a class its fields."""

        def __new__(cls, name, bases, body):
            fields = tuple(body.get("__annotations__", ()))
            defaults = {field: body[field] for field in fields if field in body}
            ends = [tuple(defaults.values())[k:] for k in range(len(defaults) + 1)]
            body["_ends"] = dict(enumerate(ends, len(fields) - len(defaults)))
            body["_defaults"] = defaults
            body.update((field, _tuplegetter(k, None)) for k, field in enumerate(fields))
            body["_fields"] = body["__match_args__"] = fields
            body["__slots__"] = ()
            return super().__new__(cls, name, bases, body)

    class NamedTuple(tuple, metaclass=_WithFields):
        """The base of tuples with named fields."""

        def __new__(cls, *values, **named):
            if named:
                known = cls._defaults | named
                return tuple.__new__(
                    cls, (*values, *[known[name] for name in cls._fields[len(values) :]])
                )
            return tuple.__new__(cls, values + cls._ends[len(values)])

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            fields = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self))
            return f"{type(self).__name__}({fields})"

        def _replace(self, **changes):
            return type(self)(*map(changes.pop, self._fields, self))
