"""The pages that people see in a browser: self-contained HTML files beside this one."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from importlib import resources

_INLINE = re.compile(rb"<(script|style)>(.*?)</\1>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Page:
    """A page and the content security policy that allows its own script and style, and nothing else."""

    html: bytes
    policy: str


def load_page(name: str) -> Page:
    """Read a page of this package. Raises FileNotFoundError."""
    html = (resources.files(__package__) / name).read_bytes()
    sources: dict[str, list[str]] = {"script": [], "style": []}
    for kind, text in _INLINE.findall(html):
        digest = base64.b64encode(hashlib.sha256(text).digest()).decode()
        sources[kind.decode()].append(f"'sha256-{digest}'")
    policy = (
        "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"frame-ancestors 'none'; script-src {' '.join(sources['script'])}; style-src {' '.join(sources['style'])}"
    )
    return Page(html, policy)
