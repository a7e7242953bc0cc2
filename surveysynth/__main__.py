"""Entry point of the command line: ``surveysynth`` or ``python -m surveysynth``.

Ctrl-C and other signals stop the command cleanly, even while modules are still being imported.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # few imports before the signals have handlers
if TYPE_CHECKING:
    from collections.abc import Callable

ADDRESS_SPACE = 4  # GiB; with less, the libraries of linear algebra wait for memory for ever
STOPPED = "Stopped: what was finished is kept, and nothing is left half-written."


def main(commands: Callable[[], object] | None = None) -> None:
    """Run the commands of surveysynth, or the function ``commands`` instead if it is given.

    SIGTERM and SIGHUP (a closed terminal) stop the run like Ctrl-C, with exit status 130.
    """
    came: list[int] = []

    def stop(number: int, frame: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    try:
        import signal  # imported here, since its own imports take long enough to be interrupted

        named = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
        plain = (signal.SIG_DFL, signal.default_int_handler)  # a signal that is ignored, as under nohup, stays ignored
        ours = [number for number in named if signal.getsignal(number) in plain]
        for number in ours:
            signal.signal(number, stop)
        _check_address_space()
        from .cli.app import main as run
        from .progress import when_work_begins

        def settle() -> None:
            for number in ours:
                signal.signal(number, signal.default_int_handler)
            if came:  # a module that was being imported swallowed the KeyboardInterrupt
                raise KeyboardInterrupt

        if came:
            settle()
        when_work_begins(settle)  # until then commands import what they need
        run() if commands is None else run(commands)
    except BaseException as error:
        if came or isinstance(error, KeyboardInterrupt):  # a library may turn a stopped import into another error
            print(STOPPED, file=sys.stderr)
            sys.exit(130)
        if isinstance(error, MemoryError):
            print("Error: there is not enough memory; nothing is left half-written.", file=sys.stderr)
            sys.exit(2)
        raise


def _check_address_space() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < ADDRESS_SPACE * 2**30:
        print(
            f"Error: the address space is limited to {limit / 2**30:.1f} GiB (ulimit -v), and {ADDRESS_SPACE} GiB are "
            "needed; much less of it is used as memory. Nothing was done.",
            file=sys.stderr,
        )
        sys.exit(2)


if __name__ == "__main__":
    main()
