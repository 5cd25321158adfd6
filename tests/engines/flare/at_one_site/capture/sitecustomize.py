"""For tests: everything that this site hands to its connections, as plain bytes before TLS, goes into a file too."""

import os
from pathlib import Path


def record():
    from nvflare.fuel.f3.drivers import aio_conn, aio_http_driver, socket_conn

    for module in (aio_http_driver, aio_conn, socket_conn):
        for name in dir(module):
            kind = getattr(module, name)
            if isinstance(kind, type) and kind.__module__ == module.__name__ and "send_frame" in vars(kind):
                wrap(kind)


def wrap(kind):
    send = kind.send_frame

    def recorded(self, frame):
        with Path(f"{os.environ['CAPTURE']}-{kind.__name__}").open("ab") as file:
            file.write(bytes(frame))
        return send(self, frame)

    kind.send_frame = recorded


if "CAPTURE" in os.environ:
    record()
