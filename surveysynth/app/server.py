"""Web server that runs the page for planning a release on this machine."""

from __future__ import annotations

import os
import socket
import tempfile
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from ..errors import InputError
from ..storage import uninterrupted

PLAN = "plan.toml"


def run_page(plan: Path | None, port: int, tell: Callable[[str], None], *, browser: bool) -> None:
    """Run the page until it is stopped.  It answers on this machine alone, to one browser.

    Parameters
    ----------
    plan : Path or None
        The plan's file, which is made if it does not exist; by default ``plan.toml`` in the working directory, which
        must not exist.
    port : int
        The port, or 0 for a free one.
    tell : function
        Gets the address, which works once.
    browser : bool
        True if the address is opened in a browser.

    Raises
    ------
    InputError
        The extra ``[app]`` is not installed, the port is not free, or the plan is no plan.
    """
    try:
        import uvicorn

        from .access import HOST, Access
        from .page import app_of
        from .project import Project
        from .work import Work
    except ModuleNotFoundError:  # other errors say what is wrong with what is installed
        raise InputError("the page needs Shiny: pip install 'surveysynth[app]'") from None
    if plan is None and Path(PLAN).exists():
        raise InputError(f"{PLAN!r} exists: surveysynth app {PLAN} goes on with it, another name begins another plan")
    path = (plan or Path(PLAN)).absolute()
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder: name the plan's file, as {PLAN}")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {str(path.parent)!r}")
    os.chdir(path.parent)  # paths in a plan are relative to its folder
    project, work = Project(path), Work(path)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as error:
            raise InputError(f"port {port} is not free: leave out --port, or give another ({error.strerror})") from None
        listener.listen()
        port = listener.getsockname()[1]
        access = Access(app_of(project, work), port)
        address = f"http://{HOST}:{port}{access.path}?token={access.token}"
        tell(address)
        server = uvicorn.Server(uvicorn.Config(access, log_level="error", ws="websockets-sansio", lifespan="on"))
        try:
            with _opened(address) if browser else nullcontext():
                server.run(sockets=[listener])
        finally:
            with uninterrupted():  # a release that is charged is written, too
                work.wait()


@contextmanager
def _opened(address: str) -> Iterator[None]:
    """Open an address through a private file that redirects to it, so that no command line shows the address."""
    with tempfile.TemporaryDirectory() as folder:  # only its owner may look into it
        page = Path(folder, "surveysynth.html")
        page.write_text(f'<meta http-equiv="refresh" content="0;url={address}">', encoding="utf-8")
        webbrowser.open(page.as_uri())
        yield
