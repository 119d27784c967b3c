"""Host names for a single program, in its own mount namespace."""

from collections.abc import Mapping, Sequence
from pathlib import Path

_SCRIPT = 'mount --bind "$1" /etc/hosts && shift && exec "$@"'


def with_hosts(folder: Path, names: Mapping[str, str], command: Sequence[str]) -> list[str]:
    """Return a command line that runs a program for which the names have these addresses."""
    hosts = folder / "hosts"
    lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in names.items())]
    hosts.write_text("".join(f"{line}\n" for line in lines))
    namespace = ["unshare", "--map-root-user", "--mount", "sh", "-c", _SCRIPT, "sh", str(hosts)]
    return [*namespace, *command]
