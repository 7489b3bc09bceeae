"""Whether a release's artefacts have plausible sizes: compared with those of another release, before it serves.

A blank export, a file cut short or rows written twice load without an error, and answer badly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from features.manifest import SECTIONS, Manifest

LEAST, MOST = 0.5, 2.0


def implausible(new: Manifest, old: Manifest) -> list[str]:
    """Artefacts with no rows or bytes, with less than half or at least double of the other release's; a line each.

    Rows are those of id tables and lists. An artefact that the other release lacks must only not be blank; one that
    is blank in both is how things are. Reads headers of files: call it after the checksums were verified.
    """
    problems = []
    for section in SECTIONS:
        for name, entry in getattr(new, section).items():
            before = getattr(old, section).get(name)
            sizes_before = {} if before is None else _sizes(old, section, name, before)
            for unit, size in _sizes(new, section, name, entry).items():
                problem = _problem(size, sizes_before.get(unit))
                if problem is not None:
                    problems.append(f"{section} {name}: {size:,} {unit}, {problem.format(old.release)}")
    return problems


def _problem(size: int, before: int | None) -> str | None:
    if size == 0 and before != 0:
        return "none at all." if before is None else f"and {before:,} in {{}}. Expected some."
    if before and not LEAST * before <= size < MOST * before:
        least, most = math.ceil(LEAST * before), math.ceil(MOST * before) - 1
        return f"and {before:,} in {{}}. Expected {least:,} to {most:,}."
    return None


def _sizes(manifest: Manifest, section: str, name: str, entry: Any) -> dict[str, int]:
    sizes = {"bytes": sum(int(facts["bytes"]) for facts in entry["files"].values())}
    if section == "entities":
        sizes["rows"] = int(entry["n"])
    elif section == "lists":
        path = manifest.root / f"lists.{name}.rows.npy"
        sizes["rows"] = len(np.load(path, mmap_mode="r", allow_pickle=False))
    return sizes
