"""This module sees to it that no test meets the user's home, git configuration or settings of this program."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No law of ours is about time: a slow machine fails no property.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=bool(os.environ.get("CI")))
settings.load_profile("unhurried")


# A runner in the background may ignore what ends a program, and children would inherit that.
for _number, _action in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL), (signal.SIGTERM, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(_number, _action)


@pytest.fixture(autouse=True)
def _nobodys_machine(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("GIT_", "SDAQF_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(_home(tmp_path_factory)))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def _home(factory: pytest.TempPathFactory) -> Path:
    """A home of this run. It stays as it is made."""
    home = factory.getbasetemp() / "home"
    home.mkdir(exist_ok=True)
    return home
