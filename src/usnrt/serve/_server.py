"""The service as a process: uvicorn on a socket, reload by SIGHUP."""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from usnrt.serve._app import Service

LOOPBACK = ("127.0.0.1", "localhost", "::1")
GRACE_SECONDS = 10


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sends small answers at once; without it they wait 40 ms for an acknowledgement.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(128)
    except OSError:
        found.close()
        raise
    return found


def run(app: Any, listening: socket.socket, notify: Callable[[str], None]) -> None:
    """Serve until Ctrl-C or SIGTERM; requests in progress are finished, and ``notify`` is told of reloads."""
    logging.basicConfig(format="usnrt: %(message)s", level=logging.WARNING)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_keep_alive=15,
        timeout_graceful_shutdown=GRACE_SECONDS,
        h11_max_incomplete_event_size=64 * 1024,
    )
    service: Service = app.state.service
    server = uvicorn.Server(config)
    try:
        asyncio.run(_serve(server, listening, service, notify))
    finally:
        service.close()
        listening.close()


async def _serve(
    server: uvicorn.Server, listening: socket.socket, service: Service, notify: Callable[[str], None]
) -> None:
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()

    async def reload() -> None:
        try:
            replaced = await loop.run_in_executor(None, service.store.reload)
        except (OSError, ValueError) as error:
            notify(f"the models are as before: {error}")
        else:
            notify(f"reloaded {', '.join(replaced)}" if replaced else "no model file has changed")

    def on_hangup() -> None:
        task = loop.create_task(reload())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    if hasattr(signal, "SIGHUP"):
        loop.add_signal_handler(signal.SIGHUP, on_hangup)
    await server.serve(sockets=[listening])
