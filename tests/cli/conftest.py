import sys

import pytest

from labelsift.cli import main


@pytest.fixture
def cli(monkeypatch, capsys, tmp_path):
    """Run the command line in this process, in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["labelsift", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return stop.value.code, out, err

    return run


@pytest.fixture
def refuses(cli):
    """The command ends with one sentence on stderr and exit code 2."""

    def run(*words):
        code, out, err = cli(*words)
        assert code == 2, err
        assert out == ""
        assert err.startswith("labelsift: ")
        assert err.count("\n") == 1, err
        assert "Traceback" not in err
        return err

    return run
