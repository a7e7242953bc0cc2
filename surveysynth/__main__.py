"""The command line, ``surveysynth`` or ``python -m surveysynth``: it can be stopped while it is being imported."""

import signal
import sys

ADDRESS_SPACE = 4  # GiB, below which the libraries of linear algebra wait for memory for ever
STOPPED = "Stopped: what was finished is kept, and nothing is left half-written."


def main() -> None:
    """Run the command line.  SIGTERM, and a terminal that is closed, stop it like Ctrl-C."""
    try:
        for name in ("SIGTERM", "SIGHUP"):  # a handler that is set to ignore one, as by nohup, stays
            if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) == signal.SIG_DFL:
                signal.signal(getattr(signal, name), signal.default_int_handler)
        _check_address_space()
        from .cli.app import main as run

        run()
    except KeyboardInterrupt:
        print(STOPPED, file=sys.stderr)
        sys.exit(130)
    except MemoryError:
        print("Error: there is not enough memory; nothing is left half-written.", file=sys.stderr)
        sys.exit(2)


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
