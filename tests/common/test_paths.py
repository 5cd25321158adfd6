"""Where things lie."""

import sysconfig
from pathlib import Path

from fedpdc_med.common import paths


def test_what_comes_along_lies_in_the_source_tree_or_where_the_wheel_put_it(tmp_path, monkeypatch):
    assert (paths.shipped("sites") / "harbor_general.py").is_file() and paths.shipped("app.py").is_file()
    monkeypatch.setattr(paths, "__file__", str(tmp_path / "site-packages" / "fedpdc_med" / "common" / "paths.py"))
    assert paths.shipped("app.py") == Path(sysconfig.get_path("data"), "share", "fedpdc_med", "app.py")
