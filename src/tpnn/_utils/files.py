"""write_file: whole files, so that a crash leaves either the old content or the new one."""

from __future__ import annotations

import contextlib
import os
import re
import reprlib
import stat
import uuid
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # on Windows, where an open file cannot be removed anyway
    fcntl = None  # type: ignore[assignment]

STREAM_FOLDERS = ("/dev", "/dev/fd", "/proc/self/fd")  # such as /dev/stdout, also if it is a file
MOST_NAME_CHARACTERS = 50  # of the target's name in the name of its temporary file


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file in one step; devices and pipes are written into.

    The data go to a temporary file beside the target, which then takes its place. The target keeps
    its mode and, where the system allows it, its owner; a link to it stays a link. A process that
    is killed leaves its temporary file behind: the next one that writes the same target removes it.

    Raises
    ------
    TypeError
        If the path is neither a str nor a path object.
    FileNotFoundError
        If the path is a folder or lies in a folder that does not exist.
    PermissionError
        If there is a file that must not be written.
    """
    check_path(path)
    try:
        _write(path, data)
    except OSError as error:
        if error.errno is None:  # one of our own, which names the file
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def _write(path: str | os.PathLike[str], data: bytes) -> None:
    if is_stream(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0))
        with open(descriptor, "wb") as file:
            file.write(data)
        return
    target = Path(os.path.realpath(path))
    if target.is_dir() or not target.parent.is_dir():
        raise FileNotFoundError(
            f"path: must be a file in a folder that exists, found {os.fspath(path)!r}. "
            "Create the folder, or save elsewhere."
        )
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(
            f"path: must be a file that may be written, found {os.fspath(path)!r}, which is "
            "read-only. Change its mode, or save elsewhere."
        )
    _remove_abandoned(target)
    _replace(target, data)


def check_path(path: Any) -> None:
    """Refuse everything but the path of a file; bytes and numbers of open files are refused too."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise TypeError(
            f"path: must be the path of a file, a str or a pathlib.Path, found {reprlib.repr(path)}"
            f" of type {type(path).__name__}. Pass for example 'model.tpnn'."
        )
    if "://" in os.fspath(path):
        raise ValueError(
            f"path: must be a file of this machine, found the address {os.fspath(path)!r}. Copy "
            "the file from or to the store."
        )


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a device, a pipe or an open file of this process, not a file of its own."""
    if os.path.dirname(os.path.abspath(path)) in STREAM_FOLDERS:
        return True
    try:
        mode = os.stat(path).st_mode
    except OSError:  # there is nothing yet
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _replace(target: Path, data: bytes) -> None:
    file = _new_temporary(target)
    temporary = Path(file.name)
    try:
        with file:
            if target.exists():
                _take_over(temporary, target)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if fcntl is not None:  # under the lock, so that nobody takes the file for abandoned
                os.replace(temporary, target)
        if fcntl is None:  # where only a closed file can be renamed
            os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _new_temporary(target: Path) -> IO[bytes]:
    """Create a temporary file beside the target and lock it until it is closed."""
    while True:
        unique = f".{target.name[:MOST_NAME_CHARACTERS]}.{uuid.uuid4().hex}"
        file = open(target.with_name(unique), "xb")  # noqa: SIM115 - the caller closes it
        lock(file)
        if os.path.exists(file.name):  # nobody took it for abandoned before it was locked
            return file
        file.close()


def lock(file: IO[bytes]) -> None:
    """Lock an open file until it is closed, where the system has such locks."""
    if fcntl is not None:
        with contextlib.suppress(OSError):  # some file systems have no locks
            fcntl.flock(file, fcntl.LOCK_EX)


def _take_over(temporary: Path, target: Path) -> None:
    """Give a temporary file the owner, where that is allowed, and the mode of its target."""
    status = target.stat()
    if hasattr(os, "chown"):
        with contextlib.suppress(OSError):
            os.chown(temporary, status.st_uid, status.st_gid)
    os.chmod(temporary, stat.S_IMODE(status.st_mode))


def _remove_abandoned(target: Path) -> None:
    """Remove the temporary files of processes that were killed while they wrote the target."""
    prefix = re.escape(target.name[:MOST_NAME_CHARACTERS])
    for name in os.listdir(target.parent):
        if re.fullmatch(rf"\.{prefix}\.[0-9a-f]{{32}}", name):
            with contextlib.suppress(OSError):  # it is still being written, or already gone
                _remove_unless_locked(target.with_name(name))


def _remove_unless_locked(path: Path) -> None:
    if fcntl is None:
        path.unlink()
        return
    with open(path, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
