"""Base class of sequences of user ids that are made or read when they are needed."""

from __future__ import annotations

from collections.abc import Sequence


class UserIds(Sequence[str]):
    """Ids of users; equal to any list or tuple of the same ids."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes) or len(self) != len(other):
            return False
        return all(one == two for one, two in zip(self, other, strict=True))

    def __repr__(self) -> str:
        return f"<{len(self)} users: {', '.join(self[:3])}{', ...' if len(self) > 3 else ''}>"
