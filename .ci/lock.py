"""Writes requirements.lock from a pip report (`make lock`): every version with its hash."""

import json
import sys

HEADER = """\
# The versions of constraints.txt, each with the hash of the file that pip installs on
# {system} {machine} with Python {python}. Made by `make lock`. To install exactly these files (pip 25.3 or newer):
#   pip install --require-hashes --no-deps --build-constraint requirements.lock -r requirements.lock
#   pip install --no-deps --no-build-isolation .
"""


def locked(report: dict) -> str:
    about = report["environment"]
    text = HEADER.format(
        system=about["platform_system"], machine=about["platform_machine"], python=about["python_version"]
    )
    for package in sorted(report["install"], key=lambda one: one["metadata"]["name"].lower()):
        name, version = package["metadata"]["name"], package["metadata"]["version"]
        text += f"{name}=={version} --hash=sha256:{package['download_info']['archive_info']['hashes']['sha256']}\n"
    return text


if __name__ == "__main__":
    sys.stdout.write(locked(json.load(sys.stdin)))
