"""What must travel with a wheel."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_a_wheel_carries_hospitals_reference_recipe_and_experiments(tmp_path):
    command = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "--quiet", "--wheel-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    inside = zipfile.ZipFile(wheel).namelist()
    shared = {name.split("/share/fedpdc_med/")[1] for name in inside if "/share/fedpdc_med/" in name}
    assert {f"sites/{file.name}" for file in (ROOT / "sites").glob("*.py")} <= shared
    assert {"public_reference/reference.toml", "app.py"} <= shared
    assert {"fedpdc_med/benchmarks/catalogue/digits.toml", "fedpdc_med/review/report.html.j2"} <= set(inside)
    assert not [name for name in inside if name.startswith("tests")]


def test_every_pinned_version_is_locked_by_its_hash_and_the_build_is_pinned_too():
    pins = re.findall(r"^([\w.-]+==\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    lock = (ROOT / "requirements.lock").read_text()
    assert sorted(pins) == sorted(re.findall(r"^(\S+==\S+) --hash=sha256:[0-9a-f]{64}$", lock, re.MULTILINE))
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert build and set(build) <= set(pins)
    assert "//" not in lock  # no address: whoever installs says where from
