"""Rendezvous hashing: which of several members owns a key. Pure.

Each member has a score for each key, and the member with the highest one owns the key. So a member that joins takes
keys only from those that had them, a member that leaves gives only its own away, and two members can tell which of them
comes first without knowing the others: that is what the hand-over (`membership.py`) relies on.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

__all__ = ["ALGORITHM", "View", "key_hash", "member_seed"]

ALGORITHM: Final = "1"
"""The version of the scores. Members that compute them differently must not share work: a new number says so."""

_MASK: Final = (1 << 64) - 1
_KEYS: Final = hashlib.blake2b(digest_size=8)


def key_hash(key: str) -> int:
    """64 bits of a key."""
    made = _KEYS.copy()  # a third faster than a new one with its options
    made.update(key.encode())
    return int.from_bytes(made.digest(), "big")


def member_seed(name: str) -> int:
    """64 bits of the name of a member."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8, person=b"member").digest())


def _score(hashed: int, seed: int) -> int:
    """The finalizer of splitmix64: each bit of the sum moves half of the bits of the score."""
    mixed = (hashed + seed) & _MASK
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
    return mixed ^ mixed >> 31


class View:
    """The members that share the keys, as one of them (`me`) knows them; immutable.

    `members` are by id, with the names that their scores are made of. Names are usually as unique as the ids; of two
    members with one name, the greater id comes first.
    """

    __slots__ = ("_others", "_seed", "me", "members")

    def __init__(self, me: str, members: Mapping[str, str]) -> None:
        self.me = me
        self.members = dict(members)
        self._seed = member_seed(self.members[me])
        # Those of an equal name and a greater id come before me.
        self._others = [(member_seed(name), one > me) for one, name in self.members.items() if one != me]

    def __len__(self) -> int:
        return len(self.members)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, View) and (self.me, self.members) == (other.me, other.members)

    def __hash__(self) -> int:
        return hash((self.me, *sorted(self.members.items())))

    def __repr__(self) -> str:
        return f"<View of {self.me}: {', '.join(sorted(self.members))}>"

    def owns(self, key: str) -> bool:
        """Whether `me` owns a key. A key of another member costs two scores on average, an own one all of them."""
        if not self._others:
            return True
        hashed = key_hash(key)
        mine = _score(hashed, self._seed)
        for seed, is_first in self._others:
            # `_score`, inlined: each member does this for the objects of all of them.
            theirs = (hashed + seed) & _MASK
            theirs = (theirs ^ theirs >> 30) * 0xBF58476D1CE4E5B9 & _MASK
            theirs = (theirs ^ theirs >> 27) * 0x94D049BB133111EB & _MASK
            theirs ^= theirs >> 31
            if theirs > mine or (is_first and theirs == mine):
                return False
        return True

    def owner(self, key: str) -> str:
        """The id of the member that owns a key."""
        hashed = key_hash(key)
        return max((_score(hashed, member_seed(name)), one) for one, name in self.members.items())[1]

    def with_members(self, ids: Iterable[str], names: Mapping[str, str]) -> "View":
        """The view of `me` and these members; itself if nothing changes."""
        members = {self.me: self.members[self.me], **{one: names[one] for one in ids}}
        return self if members == self.members else View(self.me, members)
