"""The private folder of a run: what a killed one left goes with the next, even where a removal was killed, too."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from trainops import private


@pytest.fixture
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(private.tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_is_gone_with_the_block(parent: Path) -> None:
    with private.private_folder() as folder:
        (folder / "env").mkdir()
        (folder / "env" / "extravars").write_text("token: x")
        private.remove_abandoned(parent)
        assert (folder / "env" / "extravars").exists()
    assert list(parent.iterdir()) == []


def test_a_removal_that_was_killed_is_ended_by_the_next(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    abandoned = parent / "trainops-abandoned"
    (abandoned / "env").mkdir(parents=True)
    (abandoned / "env" / "extravars").write_text("token: x")
    (abandoned / "in-use").touch()
    whole = shutil.rmtree

    def killed(path: Path, ignore_errors: bool) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(private.shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        private.remove_abandoned(parent)
    monkeypatch.setattr(private.shutil, "rmtree", whole)
    private.remove_abandoned(parent)
    assert list(parent.iterdir()) == []
