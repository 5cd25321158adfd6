"""What must travel with a wheel."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_a_wheel_carries_hospitals_reference_recipe_experiments_and_types(tmp_path):
    checkout = tmp_path / "checkout"  # a build leaves files where it runs
    checkout.mkdir()
    for name in ("fedpdc_med", "sites", "public_reference"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "app.py"):
        shutil.copy(ROOT / name, checkout)
    command = [sys.executable, "-m", "pip", "wheel", str(checkout), "--no-deps", "--no-build-isolation", "--quiet"]
    done = subprocess.run([*command, "--wheel-dir", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    shared = {name.split("/share/fedpdc_med/")[1] for name in inside if "/share/fedpdc_med/" in name}
    assert {f"sites/{file.name}" for file in (ROOT / "sites").glob("*.py")} <= shared
    assert {"public_reference/reference.toml", "app.py"} <= shared
    package = {file.relative_to(ROOT).as_posix() for file in (ROOT / "fedpdc_med").rglob("*") if file.is_file()}
    assert {name for name in package if "__pycache__" not in name} <= inside
    assert "fedpdc_med/py.typed" in inside
    assert {name.split("/")[0] for name in inside if "-0." not in name.split("/")[0]} == {"fedpdc_med"}


def test_every_pinned_version_is_locked_by_its_hash_and_the_build_is_pinned_too():
    pins = re.findall(r"^([\w.-]+==\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert sorted(pins) == sorted(re.findall(r"^(\S+==\S+) --hash=sha256:[0-9a-f]{64}$", lock, re.MULTILINE))
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    assert build and set(build) <= set(pins)
    assert "//" not in lock  # no address: whoever installs says where from
