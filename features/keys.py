"""Names of keys in the store: ours, and templates for people's own.

Ours are `{tag}view:version:id`. The tag, in literal braces, is two hex digits of the
id's hash: on a cluster everything about one id lies in one slot, and a batch of ids
meets at most 256 slots. Ids are bytes and compared as such.

A release's manifest states `tag_contract()`, so that a writer in another language can
prove that it names keys the same way.
"""

from dataclasses import dataclass

import mmh3

TAGS = 256
_HEX = tuple(f"{{{tag:02x}}}".encode() for tag in range(TAGS))
_GOLDEN_IDS = ("user_1", "17850", "", "用户💰")


def tag(identity: bytes) -> int:
    """Return the tag of an id, 0 to 255: murmur3_32 of its bytes, seed 0, low 8 bits."""
    return int(mmh3.hash(identity, 0, False)) & (TAGS - 1)


def tag_contract() -> dict[str, object]:
    """Return the tag function's name, count and golden values, ready for the manifest's JSON."""
    return {
        "function": "murmur3_32(id, seed 0) & 255, as two lower-case hex digits",
        "count": TAGS,
        "golden": {text: f"{tag(text.encode()):02x}" for text in _GOLDEN_IDS},
    }


@dataclass(frozen=True, slots=True)
class OwnKey:
    """Key of one of our views. `version` is the view's, so an unchanged view survives a release."""

    view: str
    version: str

    def __post_init__(self) -> None:
        for part in (self.view, self.version):
            if not part or ":" in part:
                raise ValueError(f"{part!r} can't be part of a key: it is empty or has a colon")

    def key(self, identity: bytes) -> bytes:
        """Return the key of an id."""
        return b"%b%b:%b:%b" % (_HEX[tag(identity)], self.view.encode(), self.version.encode(), identity)


@dataclass(frozen=True, slots=True)
class KeyTemplate:
    """Key in somebody else's layout, as `u:{id}`; braces other than `{id}` stand for themselves."""

    prefix: bytes
    suffix: bytes

    @classmethod
    def compile(cls, text: str) -> "KeyTemplate":
        """Split a template at its placeholder; ValueError unless `{id}` stands in it exactly once."""
        parts = text.split("{id}")
        if len(parts) != 2:
            raise ValueError(f"a key template has {{id}} exactly once, {text!r} has it {len(parts) - 1} times")
        return cls(parts[0].encode(), parts[1].encode())

    def key(self, identity: bytes) -> bytes:
        """Return the key of an id."""
        return self.prefix + identity + self.suffix
