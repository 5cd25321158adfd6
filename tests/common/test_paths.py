"""Where things lie."""

import sysconfig
from pathlib import Path

from fedpdc_med.common import paths


def test_what_comes_along_lies_in_the_source_tree_or_where_the_wheel_put_it(tmp_path, monkeypatch):
    assert (paths.shipped("sites") / "harbor_general.py").is_file() and paths.shipped("app.py").is_file()
    monkeypatch.setattr(paths, "__file__", str(tmp_path / "site-packages" / "fedpdc_med" / "common" / "paths.py"))
    assert paths.shipped("app.py") == Path(sysconfig.get_path("data"), "share", "fedpdc_med", "app.py")


def test_the_program_is_typed_as_it_runs_in_a_new_shell(tmp_path, monkeypatch):
    bin = tmp_path / ".venv" / "bin"
    bin.mkdir(parents=True)
    (tmp_path.parent / "elsewhere").mkdir(exist_ok=True)
    (bin / "fedpdc").touch(mode=0o755)
    monkeypatch.setattr("sys.executable", str(bin / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert paths.program() == ".venv/bin/fedpdc"
    monkeypatch.chdir(tmp_path.parent / "elsewhere")
    assert paths.program() == str(bin / "fedpdc")
    monkeypatch.setenv("PATH", str(bin))
    assert paths.program() == "fedpdc"
