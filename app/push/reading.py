"""A folder of configuration read once into memory, within limits, and only while nobody is writing to it."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from app.config.files import FILES, NOT_UTF8, SCENES, yaml_names
from app.config.yaml_nodes import MAX_BYTES
from app.texts import encodable

MAX_FILES = 256
MAX_TOTAL = 16 * MAX_BYTES
STILL = 0.2
TRIES = 25


class Unsettled(Exception):
    """The folder kept changing while it was read; str() is for the person who pushes."""


@dataclass(frozen=True, slots=True)
class Content:
    """Files by name (`scenes/home.yaml`), and what can't be pushed, with the place: such content is refused."""

    files: Mapping[str, bytes]
    problems: tuple[str, ...]
    digest: str
    """16 hexadecimal digits of names, bytes and problems: equal exactly when nothing has changed."""


def read_folder(directory: Path) -> Content:
    """What the files hold now, symbolic links followed. Raises nothing: what can't be read is a problem.

    Left out is what a configuration's reading ignores too (`yaml_names`): what it refuses has to be there to be
    refused. At most MAX_FILES files of MAX_BYTES, MAX_TOTAL together; a pipe or a device is never opened for its
    content.
    """
    names, problems = _names(directory)
    if len(names) > MAX_FILES:
        problems.append(f"{directory}: There are {len(names):,} files. Expected at most {MAX_FILES}.")
        names = names[:MAX_FILES]
    files: dict[str, bytes] = {}
    total = 0
    for name in names:
        path = directory / name
        try:
            data = _read(path, name)
        except (OSError, _Refused) as error:
            problems.append(encodable(f"{path}: {_said(error)}"))
            continue
        total += len(data)
        if total > MAX_TOTAL:
            problems.append(f"{directory}: The files have over {MAX_TOTAL:,} bytes together. Expected at most that.")
            break
        files[name] = data
    return Content(MappingProxyType(files), tuple(problems), digest_of(files, problems))


async def read_settled(
    read: Callable[[], Content], sleep: Callable[[float], Awaitable[None]], *, tries: int = TRIES
) -> Content:
    """The first content that two readings STILL seconds apart agree on. Raises Unsettled after `tries` of them.

    So neither a file caught half-written nor a folder caught between the renames of two files is ever pushed.
    """
    before = await asyncio.to_thread(read)
    for _ in range(tries):
        await sleep(STILL)
        now = await asyncio.to_thread(read)
        if now.digest == before.digest:
            return now
        before = now
    raise Unsettled(f"The files keep changing. Expected them to stay as they are for {STILL * 1000:.0f} ms.")


def digest_of(files: Mapping[str, bytes], problems: list[str] | tuple[str, ...] = ()) -> str:
    """The digest of a content."""
    made = hashlib.blake2b(digest_size=8)
    for name, data in sorted(files.items()):
        made.update(b"%d:%d:" % (len(os.fsencode(name)), len(data)))
        made.update(os.fsencode(name))
        made.update(data)
    for problem in problems:
        made.update(b"!" + os.fsencode(problem))
    return made.hexdigest()


class _Refused(Exception):
    """A file that isn't read."""


def _names(directory: Path) -> tuple[list[str], list[str]]:
    if not directory.is_dir():
        expected = ", ".join((*FILES, f"{SCENES}/"))
        return [], [f"{directory}: There is no such directory. Expected one with {expected}."]
    try:
        return yaml_names(directory), []
    except OSError as error:
        return [], [encodable(f"{error.filename}: The directory can't be read: {error.strerror or error}.")]


def _read(path: Path, name: str) -> bytes:
    if encodable(name) != name:
        raise _Refused(NOT_UTF8)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise _Refused("Not a file. Expected one, or a symbolic link to one.")
        data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise _Refused(f"The file has {max(facts.st_size, len(data)):,} bytes. Expected at most {MAX_BYTES:,}.")
        return data


def _said(error: OSError | _Refused) -> str:
    if isinstance(error, FileNotFoundError):
        return "A link that leads nowhere, or a file that was just removed. Expected a file."
    if isinstance(error, IsADirectoryError):
        return "Not a file. Expected one, or a symbolic link to one."
    return f"The file can't be read: {error.strerror or error}." if isinstance(error, OSError) else str(error)
