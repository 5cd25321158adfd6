"""For tests: a party's process that opens the doors of its own software and asks for what a file names.

The file `$DISHONEST` holds the party whose process asks (FLARE's name of it), the target, the origin that it claims and
a signed job; answers go into `$DISHONEST.answers`.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path


def open_doors():
    from fedpdc_med.engines.flare import doors

    doors.install = lambda: None


def ask():
    from asking import everything

    file = Path(os.environ["DISHONEST"])
    while True:
        time.sleep(0.2)
        from nvflare.fuel.f3.cellnet.core_cell import CoreCell

        order = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        if not order or order["party"] not in CoreCell.ALL_CELLS:
            continue
        file.unlink()
        cell = CoreCell.ALL_CELLS[order["party"]]
        answers = everything(cell, order["target"], order["origin"], order["app"])
        draft = file.with_suffix(".draft")
        draft.write_text(json.dumps(answers), encoding="utf-8")
        draft.replace(Path(f"{file}.answers"))


if "DISHONEST" in os.environ and any("engines.flare.launch" in part for part in sys.orig_argv):
    open_doors()
    threading.Thread(target=ask, daemon=True).start()
