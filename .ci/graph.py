"""Prints which folder of the package imports which, and how often; highest layer of pyproject.toml first."""

import tomllib
from collections import Counter
from pathlib import Path

import grimp

contracts = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
rooms = [room for layer in contracts[0]["layers"] for room in layer.split(" | ")]
graph = grimp.build_graph("fedpdc_med", exclude_type_checking_imports=True)
modules = {room: {f"fedpdc_med.{room}"} | graph.find_descendants(f"fedpdc_med.{room}") for room in rooms}
room_of = {module: room for room, inside in modules.items() for module in inside}
for room in rooms:
    imported = (name for module in modules[room] for name in graph.find_modules_directly_imported_by(module))
    counts = Counter(room_of[name] for name in imported if room_of.get(name, room) != room)
    print(
        f"{room:<12} {len(modules[room]):>3} files  ->",
        ", ".join(f"{other} {counts[other]}" for other in rooms if counts[other]) or "none of the others",
    )
