"""Files are written whole or not at all; devices and pipes are written into."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tpnn
from tests.models import small_model
from tpnn._utils.files import write_file
from tpnn.explain.report import write_report

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="pipes and modes of POSIX")

SAVED_BY: dict[str, Callable[[Path], object]] = {
    "write_file": lambda path: write_file(path, b"new"),
    "model": lambda path: small_model(1).save(path),
    "report": lambda path: write_report(small_model(1), path),
}
KILLED = """
import os, signal, sys
from tpnn._utils.files import write_file
os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
write_file(sys.argv[1], b"never")
"""


@pytest.fixture(params=SAVED_BY)
def save(request: pytest.FixtureRequest) -> Callable[[Path], object]:
    return SAVED_BY[request.param]


@POSIX
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o755])
def test_an_existing_file_keeps_its_mode(tmp_path: Path, mode: int, save: Any) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(mode)
    save(path)
    assert path.read_bytes() != b"old"
    assert stat.S_IMODE(path.stat().st_mode) == mode


@POSIX
def test_a_new_file_has_the_usual_mode(tmp_path: Path, save: Any) -> None:
    (tmp_path / "usual").write_text("")
    save(tmp_path / "file")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "usual").stat().st_mode


@POSIX
def test_a_pipe_is_written_into(tmp_path: Path, save: Any) -> None:
    path, plain = tmp_path / "pipe", tmp_path / "plain"
    os.mkfifo(path)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()), daemon=True)
    reader.start()
    save(path)
    reader.join(timeout=60)
    save(plain)
    assert read == [plain.read_bytes()]
    assert stat.S_ISFIFO(path.stat().st_mode)


@POSIX
def test_a_device_stays_a_device(tmp_path: Path, save: Any) -> None:
    link = tmp_path / "nothing"
    link.symlink_to("/dev/null")
    for path in (Path("/dev/null"), link):
        save(path)
        assert stat.S_ISCHR(path.stat().st_mode)
    assert link.is_symlink()
    assert os.listdir(tmp_path) == ["nothing"]


@POSIX
@pytest.mark.parametrize("to_file", [True, False])
def test_standard_output(tmp_path: Path, to_file: bool) -> None:
    """Whatever it is connected to, and after what was printed before."""
    code = (
        "from tpnn._utils.files import write_file; print('before', flush=True);"
        "write_file('/dev/stdout', b'data')"
    )
    command = [sys.executable, "-c", code]
    root = {**os.environ, "PYTHONPATH": str(Path(tpnn.__file__).parents[1])}
    if to_file:
        with open(tmp_path / "out", "wb") as out:
            subprocess.run(command, stdout=out, check=True, env=root)
        assert (tmp_path / "out").read_bytes() == b"before\ndata"
    else:
        told = subprocess.run(command, capture_output=True, check=True, env=root)
        assert told.stdout == b"before\ndata"


def test_a_full_disk_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: Any
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "file"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        save(path)
    assert caught.value.filename == str(path)  # and not the temporary one beside it
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_read_only_file_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: Any
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with pytest.raises(PermissionError, match=r"^path: must be a file that may be written, found"):
        save(path)
    assert path.read_text() == "old"


@POSIX
def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    path, root = tmp_path / "file", str(Path(tpnn.__file__).parents[1])
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(path)],
        env={**os.environ, "PYTHONPATH": root}, check=False,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    assert len(os.listdir(tmp_path)) == 1
    write_file(tmp_path / "other", b"new")
    assert len(os.listdir(tmp_path)) == 2
    write_file(path, b"new")
    assert sorted(os.listdir(tmp_path)) == ["file", "other"]


@POSIX
def test_what_another_process_still_writes_is_left_alone(tmp_path: Path) -> None:
    import fcntl

    temporary = tmp_path / f".file.{'0' * 32}"
    with open(temporary, "xb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        write_file(tmp_path / "file", b"new")
        assert temporary.exists()
    write_file(tmp_path / "file", b"new")
    assert not temporary.exists()


def test_files_of_the_user_are_never_taken_for_temporary_ones(tmp_path: Path) -> None:
    names = [".file", ".file.tmp", ".file.0123", f"file.{'0' * 32}", f".other.{'0' * 32}"]
    for name in names:
        (tmp_path / name).write_text("mine")
    write_file(tmp_path / "file", b"new")
    assert sorted(os.listdir(tmp_path)) == sorted([*names, "file"])


def test_many_threads_write_one_file(tmp_path: Path) -> None:
    """Each write succeeds and none removes what another one still writes."""
    path, failures = tmp_path / "file", list[BaseException]()

    def write(number: int) -> None:
        try:
            for _ in range(40):
                write_file(path, bytes([number]) * 1000)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(set(path.read_bytes())) == 1
    assert os.listdir(tmp_path) == ["file"]


def test_a_long_name(tmp_path: Path) -> None:
    path = tmp_path / ("ü" * 120)
    write_file(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_lone_surrogate_reaches_the_page(tmp_path: Path) -> None:
    """In the page's JSON it is an escape, so nothing is lost and the page is valid UTF-8."""
    path = tmp_path / "page.html"
    write_report(small_model(1), path, title="broken \udc80 name")
    assert r'"title":"broken \udc80 name"' in path.read_text("utf-8")
