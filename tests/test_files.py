import os
import resource
import signal
import stat
import subprocess
import sys

import pytest

from keras_bert2d.files import atomic_file, atomic_folder, sha256_of
from keras_bert2d.progress import progress


@pytest.fixture
def umask_022():
    before = os.umask(0o022)
    yield
    os.umask(before)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_there_only_when_the_block_has_ended(tmp_path):
    path = tmp_path / "new" / "out.txt"
    with atomic_file(path) as file:
        file.write("ş\n")
        assert not path.exists()
    assert path.read_bytes() == "ş\n".encode()
    assert names(path.parent) == ["out.txt"]


def test_bytes_are_written_as_they_are(tmp_path):
    with atomic_file(tmp_path / "out.bin", "wb") as file:
        file.write(b"\xff\r\n")
    assert (tmp_path / "out.bin").read_bytes() == b"\xff\r\n"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_block_that_raises_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(error), atomic_file(path) as file:
        file.write("new")
        raise error
    assert path.read_text() == "old"
    assert names(tmp_path) == ["out.txt"]


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "out.bin"
    path.write_bytes(b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))
    try:
        with pytest.raises(OSError), atomic_file(path, "wb") as file:
            file.write(bytes(4096))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["out.bin"]


def test_a_process_killed_while_writing_leaves_the_old_file(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    program = f"""
import os, signal
from keras_bert2d.files import atomic_file
with atomic_file({str(path)!r}) as file:
    file.write("new")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program])
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old"


def test_files_and_folders_get_the_permissions_of_the_umask(tmp_path, umask_022):
    with atomic_file(tmp_path / "out.txt") as file:
        file.write("x")
    with atomic_folder(tmp_path / "out") as folder:
        (folder / "x").touch()
    assert stat.S_IMODE((tmp_path / "out.txt").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o755


def test_a_folder_is_there_only_when_the_block_has_ended(tmp_path):
    path = tmp_path / "new" / "out"
    with atomic_folder(path) as folder:
        (folder / "a.txt").write_text("a")
        assert not path.exists()
    assert (path / "a.txt").read_text() == "a"
    assert names(path.parent) == ["out"]


def test_a_folder_takes_the_place_of_the_old_one_whole(tmp_path):
    path = tmp_path / "out"
    path.mkdir()
    (path / "old.txt").write_text("old")
    with atomic_folder(path) as folder:
        (folder / "new.txt").write_text("new")
        assert names(path) == ["old.txt"]
    assert names(path) == ["new.txt"]
    assert names(tmp_path) == ["out"]


def test_a_folder_block_that_raises_leaves_the_old_folder_and_nothing_else(tmp_path):
    path = tmp_path / "out"
    path.mkdir()
    (path / "old.txt").write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_folder(path) as folder:
        (folder / "new.txt").write_text("new")
        raise KeyboardInterrupt
    assert names(path) == ["old.txt"]
    assert names(tmp_path) == ["out"]


def test_the_digest_is_sha256(tmp_path):
    path = tmp_path / "abc"
    path.write_bytes(b"abc")
    # The example of FIPS 180-2, appendix B.1.
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_of(path) == known


def test_progress_goes_to_stderr_with_what_it_counts(capsys):
    with progress(2000, "reading", "lines") as bar:
        bar.update(2000)
    out, err = capsys.readouterr()
    assert out == ""
    assert "reading" in err
    assert "2.00k/2.00k" in err
    assert "lines/s" in err
    assert err.isascii()


def test_progress_goes_on_from_what_was_done_before(capsys):
    with progress(10, "steps", "steps", initial=4) as bar:
        bar.update(6)
    assert "10.0/10.0" in capsys.readouterr().err


def test_progress_counts_where_the_total_is_not_known(capsys):
    with progress(None, "reading", "lines") as bar:
        bar.update(3)
    assert "3.00 lines" in capsys.readouterr().err
